"""The state of a run that waits for a person: all that is needed to go on in another process (EXEC-01..06)."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final

from tracehold.core import strictjson
from tracehold.core.errors import SessionError
from tracehold.execution import state_fields
from tracehold.governance.hitl import PendingAction

STATE_VERSION: Final = 1
"""Written as `v` (EXEC-03). It grows whenever an older version that ignored what is new would do harm."""


@dataclass
class ExecutionState:
    """The state of one run, the same for all kinds of agents.

    Limits are not part of it: a resumed run counts anew (EXEC-06). Neither is the W3C carrier (EXEC-12).

    Attributes:
        messages: the trajectory as chat messages, tool calls and results included.
        input_text: what the user asked; stored into the history when the run ends.
        remaining: how many model calls are left before the agent's own limit of turns.
        decisions: call id to a person's yes or no (HITL-07).
        pending: the actions that wait; empty when none does.
        meta: what one kind of agent needs beyond this.
        run_id: continues across suspend and resume; `None` when unknown.
        step: the last step number taken; continues too.
        completed: the run is finished and only its clean-up is missing: whoever loads it clears it and does not run
            it again (EXEC-05).
    """

    messages: list[dict[str, Any]]
    input_text: str
    remaining: int = 0
    decisions: dict[str, bool] = field(default_factory=dict)
    pending: list[PendingAction] = field(default_factory=list)
    meta: dict[str, Any] = field(default_factory=dict)
    run_id: str | None = None
    step: int = 0
    completed: bool = False

    def to_json(self) -> str:
        """Return the state as ASCII JSON, which any store can keep.

        As usual in JSON, a tuple comes back as a list and a number used as a key as a text.

        Raises:
            SessionError: a field of the wrong type, or something JSON cannot hold: an object, NaN, a circular
                reference (EXEC-02). The message names the place, never the value.
        """
        plain = _plain(self)
        if not isinstance(self.pending, list) or not all(isinstance(item, PendingAction) for item in self.pending):
            raise SessionError("the run cannot be suspended: pending is not a list of PendingAction objects")
        plain["pending"] = [
            {item.name: getattr(action, item.name) for item in fields(action)} for action in self.pending
        ]
        state_fields.check(plain, what="the run cannot be suspended")
        try:
            body = strictjson.dumps(plain, name="state", ascii_only=True)
        except strictjson.UnholdableError as error:
            raise SessionError(
                f"the run cannot be suspended: {error}. Keep only texts, finite numbers, lists and dicts there"
            ) from error
        return f'{{"v":{STATE_VERSION},{body[1:]}'

    @classmethod
    def from_json(cls, raw: str) -> ExecutionState:
        """Return the state that `to_json` wrote.

        Missing optional fields take their defaults (EXEC-04). Fields this version does not know are left out: one
        whose loss would do harm comes with a higher `v`, which is refused.

        Raises:
            SessionError: no valid JSON, a field that is missing or of the wrong type, or a newer format.
        """
        if not isinstance(raw, str):
            raise SessionError(f"a stored run state is a text, not {type(raw).__name__}; decode it as UTF-8 first")
        try:
            plain = strictjson.loads(raw)
        except ValueError as error:
            raise SessionError(f"{_DAMAGED}: not valid JSON. {_NEXT}") from error
        if not isinstance(plain, dict):
            raise SessionError(f"{_DAMAGED}: no JSON object. {_NEXT}")
        _check_version(plain.get("v", STATE_VERSION))
        state_fields.check(plain, what=_DAMAGED)
        values = _known(plain, cls)
        values["pending"] = [PendingAction(**_known(action, PendingAction)) for action in plain.get("pending", [])]
        return cls(**values)


_DAMAGED: Final = "the stored run state is damaged"
_NEXT: Final = "Clear this checkpoint and start the run again"


def _plain(item: ExecutionState | PendingAction) -> dict[str, Any]:
    # Not dataclasses.asdict: it would copy whole trajectories, and run into circular references.
    return {one.name: getattr(item, one.name) for one in fields(item)}


def _known(plain: dict[str, Any], cls: type[ExecutionState | PendingAction]) -> dict[str, Any]:
    return {item.name: plain[item.name] for item in fields(cls) if item.name in plain}


def _check_version(version: object) -> None:
    if type(version) is not int or version < 1:
        raise SessionError(f"{_DAMAGED}: v is no format version. {_NEXT}")
    if version > STATE_VERSION:
        raise SessionError(
            f"the stored run state has format {version}, and this version of Tracehold reads up to {STATE_VERSION}: "
            "resume the run with the newer version that suspended it, or upgrade this one"
        )
