"""What changed from one policy to another, in lines that people read. Worked out on reading, never stored."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

_PARTS: Final = ("effect", "tools", "origins", "when", "reason")


def diff_policies(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the differences, one a line: `+` a rule that is new, `-` one that is gone, `~` what changed.

    Args:
        before: a policy as `PolicyPermissions.to_dict` gives it, or lists as `ToolPermissions.to_dict` does.
        after: the same.
    """
    lines = [
        f"~ {key}: {_shown(before.get(key))} -> {_shown(after.get(key))}"
        for key in sorted({*before, *after} - {"rules"})
        if before.get(key) != after.get(key)
    ]
    return [*lines, *_rules(_by_id(before), _by_id(after))]


def _rules(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted({*before, *after}):
        if name not in before:
            yield f"+ rule {name}: {_rule(after[name])}"
        elif name not in after:
            yield f"- rule {name}: {_rule(before[name])}"
        else:
            for part in _PARTS:
                old, new = before[name].get(part), after[name].get(part)
                if old != new:
                    yield f"~ rule {name}, {part}: {_shown(old)} -> {_shown(new)}"


def _by_id(policy: Mapping[str, Any]) -> dict[str, Any]:
    rules = policy.get("rules")
    given = rules if isinstance(rules, list) else []
    return {str(rule.get("id")): rule for rule in given if isinstance(rule, Mapping)}


def _rule(rule: Mapping[str, Any]) -> str:
    words = [str(rule.get("effect")), "tools " + _shown(rule.get("tools"))]
    words += [f"{part} {_shown(rule[part])}" for part in ("origins", "when", "reason") if rule.get(part)]
    return ", ".join(words)


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return "[" + ", ".join(map(_shown, value)) + "]"
    if isinstance(value, Mapping) and "argument" in value and "op" in value:
        way = value["argument"]
        argument = ".".join(map(str, way)) if isinstance(way, list) else str(way)
        return f"{argument} {value['op']}" + (f" {_shown(value['value'])}" if "value" in value else "")
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
