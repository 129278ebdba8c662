"""A policy: rules that allow or deny tool calls by tool, origin and arguments.

Deny wins, and what no rule allows is denied. Each rule answers a call with yes, no or "cannot be told" (see
`predicates`); a deny rule that cannot be told counts as a yes, an allow rule as a no. The order of rules never matters:
neither for the answer, nor for the rule that is named (the first by id, one that plainly matches before one that cannot
be told), nor for the digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, Final, get_args

from tracehold.core.errors import ConfigurationError
from tracehold.governance.canonical import digest
from tracehold.governance.permissions import NamedTool, Verdict, name_and_origin, shown
from tracehold.governance.policy_rules import DEFAULT_RULE, Effect, PolicyRule

POLICY_VERSION: Final = 1

_NEAR_MISSES: Final = 3


class PolicyPermissions:
    """Permissions that follow a policy. `load_policy` reads one from a file.

    Args:
        rules: in any order.
        default: what happens to a call no rule decides.
        name: what people call the policy.

    Raises:
        ConfigurationError: two rules share an id, or something is not what it must be.
    """

    def __init__(self, rules: Iterable[PolicyRule], *, default: Effect = "deny", name: str | None = None) -> None:
        given = list(rules)
        for rule in given:
            if not isinstance(rule, PolicyRule):
                raise ConfigurationError(f"rules must be PolicyRule objects, not {type(rule).__name__}")
        if default not in get_args(Effect):
            raise ConfigurationError("key default: must be allow or deny")
        if name is not None and not isinstance(name, str):
            raise ConfigurationError(f"key name: must be a text, not {type(name).__name__}")
        self._rules = tuple(sorted(given, key=lambda rule: rule.id))
        twice = {one.id for one, next_ in pairwise(self._rules) if one.id == next_.id}
        if twice:
            raise ConfigurationError(f"key id: several rules are called {', '.join(sorted(twice))}")
        self._default = default
        self._name = name
        self._digest = digest(self.to_dict())

    @property
    def rules(self) -> tuple[PolicyRule, ...]:
        """The rules, by id."""
        return self._rules

    @property
    def default(self) -> Effect:
        """What happens to a call no rule decides."""
        return self._default

    @property
    def name(self) -> str | None:
        """What people call the policy."""
        return self._name

    @property
    def policy_digest(self) -> str:
        """The SHA-256 over the canonical JSON of `to_dict()`: layout, comments and the order of rules do not matter."""
        return self._digest

    def to_dict(self) -> dict[str, Any]:
        """Return the policy as JSON values, rules by id, nothing left out; a policy file may hold just this."""
        return {
            "version": POLICY_VERSION,
            "name": self._name,
            "default": self._default,
            "rules": [rule.to_dict() for rule in self._rules],
        }

    def denial_reason(self, tool: str | NamedTool) -> str | None:
        """Return why no call of this tool can be allowed, or `None` when that depends on the arguments (HAR-85)."""
        name, origin = name_and_origin(tool)
        for rule in self._by_effect("deny"):
            if rule.unconditional and rule.about(name, origin) is not False:
                return _denial(rule, name)
        possible = any(rule.about(name, origin) for rule in self._by_effect("allow"))
        return None if possible or self._default == "allow" else f"no rule allows tool {shown(name)}"

    def decide(self, tool: str | NamedTool, parameters: Mapping[str, Any] | None = None) -> Verdict:
        """Judge one call.

        Args:
            tool: the tool; of a plain name the origin is unknown, so that deny rules with `origins` count.
            parameters: what it would be called with; `None` is unknown, which `{}` is not.

        Returns:
            The verdict; its rule is the id of the rule that decided, or "default".
        """
        # A subclass that overrides only the documented method must not be passed over.
        if type(self).denial_reason is not PolicyPermissions.denial_reason:
            reason = self.denial_reason(tool)
            if reason is not None:
                return self._verdict(False, type(self).__name__, reason)
        name, origin = name_and_origin(tool)
        answers = [(rule, rule.applies(name, origin, parameters)) for rule in self._by_effect("deny")]
        for wanted in (True, None):
            for rule, answer in answers:
                if answer is wanted:
                    return self._verdict(False, rule.id, _denial(rule, name, sure=answer is True))
        for rule in self._by_effect("allow"):
            if rule.applies(name, origin, parameters):
                return self._verdict(True, rule.id)
        if self._default == "allow":
            return self._verdict(True, DEFAULT_RULE)
        return self._verdict(False, DEFAULT_RULE, self._not_allowed(name, origin))

    def _by_effect(self, effect: Effect) -> list[PolicyRule]:
        return [rule for rule in self._rules if rule.effect == effect]

    def _not_allowed(self, name: str, origin: str | None) -> str:
        near = [rule.id for rule in self._by_effect("allow") if rule.about(name, origin)][:_NEAR_MISSES]
        if not near:
            return f"no rule allows tool {shown(name)}"
        return f"no rule allows this call of {shown(name)}: its arguments do not fit {', '.join(near)}"

    def _verdict(self, allowed: bool, rule: str, reason: str | None = None) -> Verdict:
        return Verdict(allowed, rule, reason, self._digest)


def _denial(rule: PolicyRule, name: str, *, sure: bool = True) -> str:
    words = rule.reason or f"rule {rule.id} denies tool {shown(name)}"
    return words if sure else f"{words} (what it asks about is missing or of another type, so it counts)"
