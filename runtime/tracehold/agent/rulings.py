"""What was decided on the actions of a run: kept with its checkpoint until their calls are done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final

from tracehold.agent.journal import Journal
from tracehold.agent.turn import TurnCall
from tracehold.core.errors import SessionError
from tracehold.governance.decisions import Behind, Decisions

_RULINGS: Final = "rulings"


@dataclass
class Ruling:
    """What was decided on one action; kept with the checkpoint until its call is done.

    Attributes:
        call_id: the call.
        tool_name: its tool.
        approved: yes or no.
        digest: of the tool and arguments it holds for.
        decided_by: the principal, `None` when nobody said.
        reason: in their own words.
        decided_at_ns: UTC nanoseconds.
        requested_at_ns: the request it answers: the same call may be asked for again.
        expires_at_ns: until when it could be given.
        expired: whether it came too late.
        recorded: whether its event was emitted.
    """

    call_id: str
    tool_name: str
    approved: bool
    digest: str | None
    decided_by: str | None
    reason: str | None
    decided_at_ns: int
    requested_at_ns: int | None = None
    expires_at_ns: int | None = None
    expired: bool = False
    recorded: bool = False


def keep(journal: Journal, ruling: Ruling) -> None:
    """Keep a ruling, in place of an earlier one on that action."""
    journal.meta.setdefault(_RULINGS, {})[ruling.call_id] = asdict(ruling)
    journal.state.decisions[ruling.call_id] = ruling.approved


def rulings_of(journal: Journal) -> list[Ruling]:
    """Return the rulings that are kept.

    Raises:
        SessionError: they are damaged.
    """
    try:
        return [Ruling(**fields) for fields in journal.meta.get(_RULINGS, {}).values()]
    except (TypeError, AttributeError) as error:
        raise SessionError(
            f"the stored decisions of run {journal.state.run_id} are damaged: clear its checkpoint and start it again"
        ) from error


def decisions_of(journal: Journal) -> Decisions:
    """Return the decision table for the calls that are still to be carried out."""
    rulings = rulings_of(journal)
    table = Decisions({ruling.call_id: ruling.approved for ruling in rulings})
    table.behind |= {ruling.call_id: Behind(ruling.decided_by, ruling.reason, ruling.expired) for ruling in rulings}
    return table


def settle(journal: Journal, call: TurnCall) -> None:
    """Forget the rulings on a call that is done, and on what waited inside it: an approval is used once."""
    drop(journal, [known for known in journal.meta.get(_RULINGS, {}) if call.owns(known)])


def settle_inside(journal: Journal, call: TurnCall) -> None:
    """Forget the rulings on what waited inside a call that is suspended again: it was told of them."""
    drop(journal, [known for known in journal.meta.get(_RULINGS, {}) if call.owns(known) and known != call.call_id])


def drop(journal: Journal, call_ids: Iterable[str]) -> None:
    """Forget the rulings on these actions."""
    for call_id in call_ids:
        del journal.meta[_RULINGS][call_id]
        journal.state.decisions.pop(call_id, None)
