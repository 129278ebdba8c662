"""What an approval is bound to, and by whom it was given (DEC-02, HITL-07 to HITL-09)."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from tracehold.core.clock import NS_PER_S
from tracehold.core.errors import CanonicalJsonError, ConfigurationError
from tracehold.governance.canonical import action_digest
from tracehold.governance.hitl import PendingAction

MAX_TTL_S: Final = 100 * 366 * 24 * 3600
"""A century: what is longer is meant as `None`, and would not fit into 64 bits of nanoseconds for much longer."""

Verification: TypeAlias = Literal["ok", "mismatch", "expired"]


def bind(
    tool_name: str, arguments: dict[str, Any], call_id: str, *, now_ns: int, ttl_s: float | None = None
) -> PendingAction:
    """Return the action that waits, with the digest an approval of it holds for.

    The arguments are copied, so that what a person sees stays what was hashed.

    Args:
        tool_name: the tool.
        arguments: what it would be called with; JSON values.
        call_id: the call's id.
        now_ns: UTC nanoseconds.
        ttl_s: seconds an approval may take; `None` is for ever.

    Raises:
        CanonicalJsonError: the arguments have no canonical JSON; refuse the call.
        ConfigurationError: `ttl_s` is not a number above 0 and up to `MAX_TTL_S`.
    """
    ttl_ns = None if ttl_s is None else _ttl_ns(ttl_s)
    bound_to = action_digest(tool_name, arguments)
    return PendingAction(
        tool_name,
        copy.deepcopy(arguments),
        call_id,
        digest=bound_to,
        requested_at_ns=now_ns,
        expires_at_ns=None if ttl_ns is None else now_ns + ttl_ns,
    )


def verify(pending: PendingAction, *, tool_name: str, arguments: Any, now_ns: int) -> Verification:
    """Say whether an approval of `pending` holds for this call, now.

    Args:
        pending: what was asked for, as it was stored.
        tool_name: the tool about to run.
        arguments: what it is about to be called with.
        now_ns: UTC nanoseconds.

    Returns:
        "mismatch" when the call, or what `pending` itself shows, is not what was hashed, or there is no digest to
        compare; suspend again. It is told before "expired", since somebody changed something. "expired" from
        `expires_at_ns` on; refuse. Else "ok".
    """
    try:
        asked = action_digest(pending.tool_name, pending.arguments)
        wanted = action_digest(tool_name, arguments)
    except CanonicalJsonError:
        return "mismatch"
    if not pending.digest == asked == wanted:
        return "mismatch"
    if pending.expires_at_ns is not None and now_ns >= pending.expires_at_ns:
        return "expired"
    return "ok"


def normalise_decisions(decision: object, pendings: Iterable[PendingAction]) -> dict[str, bool]:
    """Return the decision on each pending action by call id; actions nobody decided on are absent.

    Args:
        decision: one bool for all of them, or a mapping from call id to bool (HITL-07).
        pendings: the actions that wait.

    Raises:
        TypeError: a decision that is no bool, or neither bool nor mapping (HITL-08). 1 and "yes" are no approval.
        ValueError: an id that is not pending, or one that stands for several actions.
    """
    ids = [pending.call_id for pending in pendings]
    if isinstance(decision, bool):
        return dict.fromkeys(ids, decision)
    if not isinstance(decision, Mapping):
        raise TypeError(f"a decision is True, False or a mapping from call id to one, not {type(decision).__name__}")
    decided = dict(decision)
    for call_id, value in decided.items():
        if not isinstance(value, bool):  # HITL-08
            kind = type(value).__name__
            raise TypeError(f"the decision on call {_shown(call_id)} must be True or False, not {kind}")
    waiting = Counter(ids)
    unknown = [call_id for call_id in decided if call_id not in waiting]
    if unknown:
        names = ", ".join(map(_shown, unknown[:_SHOWN_IDS]))
        raise ValueError(
            f"no pending action has the call id {names}; pending: {', '.join(map(_shown, ids[:_SHOWN_IDS])) or 'none'}"
        )
    several = [call_id for call_id in decided if waiting[call_id] > 1]
    if several:
        raise ValueError(f"call id {_shown(several[0])} stands for several pending actions; decide with one bool")
    return decided


def ambiguous_call_ids(calls: Iterable[Mapping[str, Any] | PendingAction | str | None]) -> list[str]:
    """Return the ids by which calls of one turn cannot be told apart: empty or repeated ones (HITL-09).

    Args:
        calls: those of the turn that need approval, as the model's tool calls, pending actions or bare ids.

    Returns:
        Each such id once, sorted; `""` stands for all that are missing, blank or no text. Not empty means: refuse.
    """
    counts = Counter(_call_id(call) for call in calls)
    return sorted(call_id for call_id, count in counts.items() if not call_id or count > 1)


PrincipalKind: TypeAlias = Literal["user", "service", "agent", "system"]

_MAX_ID_CHARS: Final = 256


@dataclass(frozen=True, slots=True)
class Principal:
    """Who decided. Over HTTP it comes from the credential, never from the payload (DEC-02).

    Attributes:
        id: the account's or service's id; up to 256 printable characters, not blank.
        kind: "user", "service", "agent" or "system".
        via: how it was established, such as "api_key:ops" or "oidc"; `None` when unknown.

    Raises:
        TypeError: an id or `via` that is no text.
        ValueError: a blank, overlong or unprintable one, or another kind.
    """

    id: str
    kind: PrincipalKind = "user"
    via: str | None = None

    def __post_init__(self) -> None:
        """Refuse an id that names nobody or would break a line of a log."""
        _check_text("id", self.id)
        if self.via is not None:
            _check_text("via", self.via)
        if self.kind not in get_args(PrincipalKind):
            raise ValueError(f"a principal's kind is one of {', '.join(get_args(PrincipalKind))}, not {self.kind!r}")


Approver: TypeAlias = Principal | str
"""A principal, or just its id, which then is a user's."""


def as_principal(approver: Approver | None) -> Principal | None:
    """Return the principal an approver stands for; `None` stays unknown.

    Raises:
        TypeError: neither principal nor text.
        ValueError: an empty id.
    """
    if approver is None or isinstance(approver, Principal):
        return approver
    return Principal(approver)


_SHOWN_IDS: Final = 5
_SHOWN_CHARS: Final = 64


def _shown(call_id: object) -> str:
    return repr(call_id[:_SHOWN_CHARS]) if isinstance(call_id, str) else f"of type {type(call_id).__name__}"


def _call_id(call: object) -> str:
    if isinstance(call, PendingAction):
        call = call.call_id
    elif isinstance(call, Mapping):
        call = call.get("id")
    return call if isinstance(call, str) and call.strip() else ""


def _ttl_ns(ttl_s: float) -> int:
    usable = isinstance(ttl_s, int | float) and not isinstance(ttl_s, bool) and math.isfinite(ttl_s)
    if not usable or not 0 < ttl_s <= MAX_TTL_S:
        raise ConfigurationError(f"an approval's ttl_s must be None or above 0 and at most {MAX_TTL_S}, not {ttl_s!r}")
    return int(ttl_s * NS_PER_S)


def _check_text(field: str, value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"a principal's {field} must be a text, not {type(value).__name__}")
    if not value.strip() or len(value) > _MAX_ID_CHARS or not value.isprintable():
        raise ValueError(f"a principal's {field} must be 1 to {_MAX_ID_CHARS} printable characters, not blank")
