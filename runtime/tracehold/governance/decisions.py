"""What people decided about the calls of one turn, and who they are (DEC-02)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Behind(NamedTuple):
    """What stands behind a decision.

    Attributes:
        decided_by: the principal, or `None` when nobody said.
        reason: in the person's own words, or `None`.
        expired: whether it came too late; the call is refused whatever was decided.
    """

    decided_by: str | None = None
    reason: str | None = None
    expired: bool = False


class Decisions(dict[str, bool]):
    """The decision table of a resume, `{call_id: bool}`, with the people behind it.

    `Harness.aexec_tool` takes any mapping; this one also says who decided, so that the record can.

    Args:
        decided: call id to yes or no.
        decided_by: the principal behind all of them, or `None`.
        reason: theirs, or `None`.

    Attributes:
        behind: call id to what stands behind its decision.
    """

    def __init__(
        self, decided: Mapping[str, bool] | None = None, *, decided_by: str | None = None, reason: str | None = None
    ) -> None:
        super().__init__(decided or {})
        self.behind = dict.fromkeys(self, Behind(decided_by, reason))


def behind(decisions: Mapping[str, object], call_id: str) -> Behind:
    """Return what stands behind a decision in any decision table; a bare mapping says nothing."""
    told = getattr(decisions, "behind", {})
    found = told.get(call_id)
    return found if isinstance(found, Behind) else Behind()
