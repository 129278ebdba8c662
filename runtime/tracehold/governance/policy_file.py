"""Reading a policy from a TOML or JSON file."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tracehold.core.errors import ConfigurationError
from tracehold.governance.policy import POLICY_VERSION, PolicyPermissions
from tracehold.governance.policy_rules import Condition, PolicyRule

MAX_POLICY_BYTES: Final = 1024 * 1024
"""A policy is asked at every tool call; a larger file is none."""

_POLICY_KEYS: Final = ("version", "name", "default", "rules")
_RULE_KEYS: Final = ("id", "effect", "tools", "origins", "when", "reason")
_CONDITION_KEYS: Final = ("argument", "op", "value")


def load_policy(path: str | Path) -> PolicyPermissions:
    """Read a policy file. Blocks on the disk: load before the agent runs.

    Args:
        path: a `.toml` or `.json` file of at most `MAX_POLICY_BYTES`, in UTF-8.

    Raises:
        ConfigurationError: the file cannot be read, or is no policy. The message names the file, and of each fault the
            rule and the key.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_POLICY_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"policy file {path} cannot be read: {error.strerror}") from error
    if len(raw) > MAX_POLICY_BYTES:
        raise ConfigurationError(f"policy file {path} is larger than {MAX_POLICY_BYTES} bytes")
    readers: dict[str, Callable[[str], Any]] = {".toml": tomllib.loads, ".json": _read_json}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ConfigurationError(f"policy file {path} must end in .toml or .json")
    try:
        document = reader(raw.decode("utf-8-sig"))
    except RecursionError as error:
        raise ConfigurationError(f"policy file {path} is nested too deep") from error
    except ValueError as error:
        kind = path.suffix[1:].upper()
        raise ConfigurationError(f"policy file {path} is no {kind} in UTF-8: {error}") from error
    return parse_policy(document, source=f"policy file {path}")


def parse_policy(document: object, *, source: str = "policy") -> PolicyPermissions:
    """Build a policy from what a policy file holds, already parsed.

    Args:
        document: a dict with `version`, and optionally `name`, `default`, `rules`.
        source: what error messages call it.

    Raises:
        ConfigurationError: it is no policy; the message lists every fault.
    """
    if not isinstance(document, Mapping):
        raise ConfigurationError(f"{source} must be an object, not {type(document).__name__}")
    faults = _unknown_keys(document, _POLICY_KEYS)
    version = document.get("version")
    if type(version) is not int or version != POLICY_VERSION:
        faults.append(f"key version: must be {POLICY_VERSION}, the number")
    raw_rules = document.get("rules", [])
    if not isinstance(raw_rules, list):
        faults.append("key rules: must be a list of rules")
        raw_rules = []
    rules: list[PolicyRule] = []
    for number, raw in enumerate(raw_rules, start=1):
        rule, found = _rule(raw)
        where = _where(number, raw)
        faults.extend(f"{where}, {fault}" for fault in found)
        rules.extend([rule] if rule is not None else [])
    try:
        policy = PolicyPermissions(rules, default=document.get("default", "deny"), name=document.get("name"))
    except ConfigurationError as error:
        faults.append(str(error))
    if faults:
        raise ConfigurationError(f"{source}: " + "; ".join(faults))
    return policy


def _rule(raw: object) -> tuple[PolicyRule | None, list[str]]:
    """Return the rule, or `None` and what is wrong with it."""
    if not isinstance(raw, Mapping):
        return None, [f"must be an object, not {type(raw).__name__}"]
    faults = _unknown_keys(raw, _RULE_KEYS)
    faults += [f"key {key}: is missing" for key in ("id", "effect", "tools") if key not in raw]
    conditions, found = _conditions(raw.get("when"))
    faults += found
    for key in ("tools", "origins"):
        if key in raw and not isinstance(raw[key], list | None):
            faults.append(f"key {key}: must be a list of patterns, not {type(raw[key]).__name__}")
    if faults:
        return None, faults
    fields = {key: raw[key] for key in ("id", "effect", "tools", "origins", "reason") if key in raw}
    try:
        return PolicyRule(**fields, when=conditions), []
    except ConfigurationError as error:
        return None, [str(error)]


def _conditions(raw: object) -> tuple[list[Condition], list[str]]:
    if raw is None:
        return [], []
    if not isinstance(raw, list):
        return [], [f"key when: must be a list of conditions, not {type(raw).__name__}"]
    conditions: list[Condition] = []
    faults: list[str] = []
    for number, item in enumerate(raw, start=1):
        condition, found = _condition(item)
        faults += [f"key when, condition {number}, {fault}" for fault in found]
        conditions += [condition] if condition is not None else []
    return conditions, faults


def _condition(raw: object) -> tuple[Condition | None, list[str]]:
    if not isinstance(raw, Mapping):
        return None, [f"must be an object, not {type(raw).__name__}"]
    faults = _unknown_keys(raw, _CONDITION_KEYS)
    faults += [f"key {key}: is missing" for key in ("argument", "op") if key not in raw]
    if faults:
        return None, faults
    try:
        return Condition(raw["argument"], raw["op"], raw.get("value")), []
    except ConfigurationError as error:
        return None, [str(error)]


def _unknown_keys(raw: Mapping[str, Any], known: tuple[str, ...]) -> list[str]:
    return [f"key {key}: is unknown, known are {', '.join(known)}" for key in raw if key not in known]


def _where(number: int, raw: object) -> str:
    name = raw.get("id") if isinstance(raw, Mapping) else None
    return f"rule {number} ({name})" if isinstance(name, str) and name else f"rule {number}"


def _read_json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Of two equal keys `json` keeps the last in silence; in a policy that may be the rule somebody relies on.
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
