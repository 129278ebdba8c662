"""The rules of a policy, and the conditions they put on a call's arguments."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

from tracehold.core.errors import ConfigurationError
from tracehold.governance.predicates import (
    OPS,
    PRESENCE,
    Answer,
    Found,
    Test,
    all_of,
    any_of,
    look_up,
    make_test,
    matches_glob,
    negated,
)

Effect: TypeAlias = Literal["allow", "deny"]

DEFAULT_RULE: Final = "default"
"""What a verdict names when no rule decided; no rule may be called that."""

_RULE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,127}")
"""Such an id is an open field of the record as it is."""
_MAX_REASON_CHARS: Final = 500
_MAX_PATH: Final = 20


@dataclass(frozen=True, slots=True)
class Condition:
    """One question about an argument.

    Attributes:
        argument: where it stands, as "path.to.it", or as a list of keys when one holds a dot. A number is an index of
            an array; `*` is every member: an allow rule wants all of them to fit, a deny rule any.
        op: one of `OPS`.
        value: what it is compared with; `None` for "present" and "absent".

    Raises:
        ConfigurationError: any of these cannot be used; the message names the key.
    """

    argument: str | Iterable[str]
    op: str
    value: Any = None
    path: tuple[str, ...] = field(init=False, repr=False)
    _test: Test | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be asked, and prepare the rest."""
        object.__setattr__(self, "value", copy.deepcopy(self.value))
        object.__setattr__(self, "path", _path(self.argument))
        object.__setattr__(self, "argument", ".".join(self.path))
        if not isinstance(self.op, str) or self.op not in OPS:
            raise ConfigurationError(f"key op: must be one of {', '.join(sorted(OPS))}")
        if self.op in PRESENCE:
            if self.value is not None:
                raise ConfigurationError(f"key value: {self.op} takes none")
            object.__setattr__(self, "_test", None)
            return
        try:
            object.__setattr__(self, "_test", make_test(self.op, self.value))
        except ConfigurationError as error:
            raise ConfigurationError(f"key value: {self.op} {error}") from error

    def answer(self, parameters: Mapping[str, Any] | None, combine: Callable[[Iterable[Answer]], Answer]) -> Answer:
        """Ask it of a call's parameters; `combine` joins the answers of several members."""
        known = isinstance(parameters, Mapping)
        found = look_up(parameters, self.path) if known else Found([], blocked=True)
        unknown: list[Answer] = [None] if found.blocked else []
        if self._test is not None:
            return combine([*map(self._test, found.values), *([None] if found.missing else []), *unknown])
        there: list[Answer] = [*(True for _ in found.values), *([False] if found.missing else []), *unknown]
        return combine(there if self.op == "present" else map(negated, there))

    def to_dict(self) -> dict[str, Any]:
        """Return it as a policy file holds it, the path as a list."""
        shape = {"argument": list(self.path), "op": self.op}
        return shape if self._test is None else shape | {"value": copy.deepcopy(self.value)}


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One rule.

    Attributes:
        id: what records name it by; letters, digits and `_ . : / -`, up to 128, not "default".
        effect: "allow" or "deny".
        tools: globs of tool names; the rule is about a tool that matches any.
        origins: globs of origins; `None` is any origin, known or not.
        when: conditions that must all hold; none is always.
        reason: told to the model and the record when the rule denies; up to 500 characters.

    Raises:
        ConfigurationError: one of these cannot be used; the message names the key.
    """

    id: str
    effect: Effect
    tools: Iterable[str]
    origins: Iterable[str] | None = None
    when: Iterable[Condition] = ()
    reason: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be meant, and fix the collections."""
        if not isinstance(self.id, str) or not _RULE_ID.fullmatch(self.id) or self.id == DEFAULT_RULE:
            raise ConfigurationError(
                "key id: must be letters, digits and _.:/- (up to 128), start with a letter or digit, "
                f"and not be {DEFAULT_RULE!r}"
            )
        if self.effect not in get_args(Effect):
            raise ConfigurationError("key effect: must be allow or deny")
        object.__setattr__(self, "tools", _globs("tools", self.tools))
        if self.origins is not None:
            object.__setattr__(self, "origins", _globs("origins", self.origins))
        object.__setattr__(self, "when", _conditions(self.when))
        reason = self.reason
        if reason is not None and (not isinstance(reason, str) or not 0 < len(reason) <= _MAX_REASON_CHARS):
            raise ConfigurationError(f"key reason: must be a text of up to {_MAX_REASON_CHARS} characters")

    def about(self, name: str, origin: str | None) -> Answer:
        """Whether the rule is about this tool; `None` when it asks for an origin and that is unknown."""
        if not any(matches_glob(name, pattern) for pattern in self.tools):
            return False
        if self.origins is None:
            return True
        return None if origin is None else any(matches_glob(origin, pattern) for pattern in self.origins)

    def applies(self, name: str, origin: str | None, parameters: Mapping[str, Any] | None) -> Answer:
        """Whether the rule holds for this call."""
        about = self.about(name, origin)
        if about is False:
            return False
        combine = any_of if self.effect == "deny" else all_of
        return all_of([about, *(condition.answer(parameters, combine) for condition in self.when)])

    @property
    def unconditional(self) -> bool:
        """Whether it does not look at arguments."""
        return not tuple(self.when)

    def to_dict(self) -> dict[str, Any]:
        """Return it as a policy file holds it, with nothing left out."""
        return {
            "id": self.id,
            "effect": self.effect,
            "tools": list(self.tools),
            "origins": None if self.origins is None else list(self.origins),
            "when": [condition.to_dict() for condition in self.when],
            "reason": self.reason,
        }


def _path(argument: object) -> tuple[str, ...]:
    given = argument.split(".") if isinstance(argument, str) else argument
    path = tuple(given) if isinstance(given, list | tuple) else ()
    if not 0 < len(path) <= _MAX_PATH or not all(isinstance(part, str) and part for part in path):
        raise ConfigurationError(f'key argument: must be "path.to.it" or a list of 1 to {_MAX_PATH} keys')
    return path


def _globs(key: str, patterns: object) -> tuple[str, ...]:
    if isinstance(patterns, str) or not isinstance(patterns, Iterable):
        raise ConfigurationError(f"key {key}: must be a list of patterns, not {type(patterns).__name__}")
    found = tuple(patterns)
    if not found or not all(isinstance(pattern, str) and pattern for pattern in found):
        raise ConfigurationError(f"key {key}: must be a list of texts, neither it nor any of them empty")
    return found


def _conditions(when: object) -> tuple[Condition, ...]:
    found = tuple(when) if isinstance(when, Iterable) else None
    if found is None or not all(isinstance(condition, Condition) for condition in found):
        raise ConfigurationError("key when: must be a list of conditions")
    return found
