"""Permissions: may this tool be called at all? The gate before approval (PERM, HAR-40)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from tracehold.governance.canonical import digest


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the permissions say about one call.

    Attributes:
        allowed: whether it may go on to the next gate.
        rule: what decided, an id that stays the same from run to run, such as "deny:send_email".
        reason: why not, in words for the model and the record; `None` when allowed.
        policy_digest: "sha256:..." of the policy that was asked; `None` when the permissions tell none.
    """

    allowed: bool
    rule: str
    reason: str | None = None
    policy_digest: str | None = None

    def __post_init__(self) -> None:
        """Refuse what is no bool: "denied" is truthy."""
        if not isinstance(self.allowed, bool):
            raise TypeError(f"a verdict's allowed must be True or False, not {type(self.allowed).__name__}")


class NamedTool(Protocol):
    """What permissions read of a tool; `Tool` is one. A missing `origin` is unknown."""

    @property
    def name(self) -> str:
        """The tool's name."""


@dataclass(frozen=True, slots=True)
class ToolRef:
    """A tool's name and origin, to ask a policy about a tool that is not at hand."""

    name: str
    origin: str | None = None


@runtime_checkable
class Permissions(Protocol):
    """What the harness asks before a tool call. `ToolPermissions` and `PolicyPermissions` are such.

    Both methods MUST be quick and MUST NOT block: they run on the event loop. What they raise stops the call.
    """

    def denial_reason(self, tool: str | NamedTool, /) -> str | None:
        """Return why no call of this tool can be allowed, or `None`; decides what the model gets to see (HAR-85)."""

    def decide(self, tool: str | NamedTool, parameters: Mapping[str, Any] | None = None, /) -> Verdict:
        """Judge one call, given what the tool would be called with."""


def judge(permissions: object, tool: str | NamedTool, parameters: Mapping[str, Any] | None = None) -> Verdict:
    """Ask `permissions` about one call, also an object that has only the documented `denial_reason` (PERM-01).

    Raises:
        TypeError: it has neither method, or answered with something other than a verdict or a reason.
    """
    if callable(decide := getattr(permissions, "decide", None)):
        verdict = decide(tool, parameters)
        if not isinstance(verdict, Verdict):
            raise TypeError(f"{type(permissions).__name__}.decide must return a Verdict, not {type(verdict).__name__}")
        return verdict
    if callable(denial_reason := getattr(permissions, "denial_reason", None)):
        reason = denial_reason(tool)
        if reason is not None and not isinstance(reason, str):
            given = type(reason).__name__
            raise TypeError(f"{type(permissions).__name__}.denial_reason must return a text or None, not {given}")
        return Verdict(reason is None, type(permissions).__name__, reason)
    raise TypeError(f"permissions need a denial_reason method; {type(permissions).__name__} has none")


class ToolPermissions:
    """Allow and deny lists of tool names and origins (PERM-01 to PERM-04).

    Deny wins over allow. Once an allow list is given, a tool must be on one of them. Matching is exact, case included.
    A plain name is judged by name only: it is on no origin list. The lists are fixed once made.

    Args:
        allow: names that may be called; `None` is no list, an empty list allows nothing (PERM-03).
        deny: names that may not.
        allow_origins: origins whose tools may be called; `None` is no list.
        deny_origins: origins whose tools may not.
        prompts: taken for the documented signature. Our reasons are fixed words, which a record can be searched for.

    Raises:
        TypeError: a list that is a single text (`deny="shell"` would deny five letters), or an entry that is no text.
        ValueError: an empty entry.
    """

    def __init__(
        self,
        allow: Iterable[str] | None = None,
        deny: Iterable[str] = (),
        allow_origins: Iterable[str] | None = None,
        deny_origins: Iterable[str] = (),
        prompts: object = None,
    ) -> None:
        self._allow = None if allow is None else _names("allow", allow)
        self._deny = _names("deny", deny)
        self._allow_origins = None if allow_origins is None else _names("allow_origins", allow_origins)
        self._deny_origins = _names("deny_origins", deny_origins)
        self.prompts = prompts
        self._digest = digest(self.to_dict())

    @property
    def policy_digest(self) -> str:
        """The digest of the four lists, each sorted, as canonical JSON."""
        return self._digest

    def to_dict(self) -> dict[str, Any]:
        """Return the four lists as JSON values, each sorted; `None` where none was given."""
        lists = {"allow": self._allow, "deny": self._deny, "allow_origins": self._allow_origins}
        lists["deny_origins"] = self._deny_origins
        return {name: None if names is None else sorted(names) for name, names in lists.items()}

    def denial_reason(self, tool: str | NamedTool) -> str | None:
        """Return why the tool may not be called, or `None` (PERM-01).

        Args:
            tool: the tool, judged by name and origin; or a name, judged by name only (PERM-04).
        """
        return self._judge(tool).reason

    def decide(
        self,
        tool: str | NamedTool,
        parameters: Mapping[str, Any] | None = None,  # noqa: ARG002 - lists do not look at arguments
    ) -> Verdict:
        """Judge one call.

        The verdict's rule is `deny:NAME`, `deny_origins:ORIGIN`, `allow`, `allow_origins`, `unlisted` (on no allow list
        that was given) or `default` (allowed, since there is no allow list).
        """
        verdict = self._judge(tool)
        # A subclass that overrides only the documented method must not be passed over.
        reason = self.denial_reason(tool)
        if (reason is None) != verdict.allowed:
            return Verdict(reason is None, type(self).__name__, reason, self._digest)
        return Verdict(verdict.allowed, verdict.rule, reason, self._digest)

    def _judge(self, tool: str | NamedTool) -> Verdict:
        name, origin = name_and_origin(tool)
        if name in self._deny:  # PERM-02
            return self._denied(f"deny:{name}", f"tool {name} is on the deny list")
        if origin is not None and origin in self._deny_origins:
            return self._denied(f"deny_origins:{origin}", f"tools from {origin} are on the deny list of origins")
        if self._allow is None and self._allow_origins is None:
            return Verdict(True, "default", None, self._digest)
        if self._allow is not None and name in self._allow:
            return Verdict(True, "allow", None, self._digest)
        if self._allow_origins is not None and origin in self._allow_origins:
            return Verdict(True, "allow_origins", None, self._digest)
        return self._denied("unlisted", f"tool {shown(name)} is on no allow list")

    def _denied(self, rule: str, reason: str) -> Verdict:
        return Verdict(False, rule, reason, self._digest)


_SHOWN_CHARS = 64
"""The length of the longest tool name a registry takes; a model may ask for any."""


def shown(name: str) -> str:
    """Return a tool name a model chose, short enough to be put into a sentence."""
    return name if len(name) <= _SHOWN_CHARS else name[:_SHOWN_CHARS] + "..."


def name_and_origin(tool: str | NamedTool) -> tuple[str, str | None]:
    """Return what a tool is judged by; a plain name has no origin (PERM-04).

    Raises:
        TypeError: `tool` is neither a text nor something with a text for a name.
    """
    if isinstance(tool, str):
        return tool, None
    name, origin = getattr(tool, "name", None), getattr(tool, "origin", None)
    if not isinstance(name, str):
        raise TypeError(f"permissions judge a tool or its name, not {type(tool).__name__}")
    return name, origin if isinstance(origin, str) else None


def _names(parameter: str, names: Iterable[str]) -> frozenset[str]:
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise TypeError(f"{parameter} must be a list of names, not {type(names).__name__}: write {parameter}=[...]")
    found = list(names)
    for name in found:
        if not isinstance(name, str):
            raise TypeError(f"{parameter} must hold names, not {type(name).__name__}")
        if not name:
            raise ValueError(f"{parameter} holds an empty name, which no tool has")
    return frozenset(found)
