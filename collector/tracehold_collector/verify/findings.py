"""What verifying finds, leaf by leaf and about the log as a whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

State = Literal["verified", "erased", "expired", "missing", "altered"]
"""Of a leaf. Only the last two are alarms; `expired` was erased by a retention policy."""

MOST_LISTED: Final = 1_000


class Finding(NamedTuple):
    """One thing that is wrong.

    Attributes:
        state: `missing` or `altered`.
        leaf_index: of which leaf; `None` for what concerns the log as a whole.
        event_id: of which event, where that is known; UUID text.
        what: what does not fit, in words.
    """

    state: State
    leaf_index: int | None
    event_id: str | None
    what: str


@dataclass(slots=True)
class Report:
    """What came of verifying a log.

    Attributes:
        tenant: whose.
        first, end: the leaves that were looked at, [first, end).
        counts: leaves by their state.
        findings: the alarms, as far as they are listed; `alarms` counts all.
        heads: tree heads that were held against the log, and fit.
        covered: leaves that a fitting, signed tree head covers; the others wait for the next one.
        before: events from before the log began.
        unchecked: leaves whose content nobody looked at.
        notes: what the reader should know besides.
    """

    tenant: str
    first: int = 0
    end: int = 0
    counts: Counter[State] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    alarms: int = 0
    heads: int = 0
    covered: int = 0
    before: int = 0
    unchecked: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def intact(self) -> bool:
        """Whether there is no alarm."""
        return not self.alarms

    def alarm(self, finding: Finding) -> None:
        """Count an alarm, and list it while there is room."""
        self.alarms += 1
        if len(self.findings) < MOST_LISTED:
            self.findings.append(finding)
