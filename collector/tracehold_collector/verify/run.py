"""Verifies a log, or a stretch of it, from beginning to end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tracehold_collector.audit.merkle import Frontier, perfect_nodes
from tracehold_collector.audit.notes import VerifierKey
from tracehold_collector.core.errors import ProofError
from tracehold_collector.verify.checker import Checker
from tracehold_collector.verify.findings import Finding, Report
from tracehold_collector.verify.heads import known_heads
from tracehold_collector.verify.window import LogSource

Progress = Callable[[int, int], None]


def verify_log(
    source: LogSource,
    tenant: str,
    *,
    origin: str,
    keys: Sequence[VerifierKey],
    notes: Sequence[str] = (),
    stretch: tuple[int, int] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Return what is to be said of a tenant's log.

    Args:
        source: where it is read.
        tenant: whose.
        origin: the first line of its tree heads.
        keys: those believed about tree heads.
        notes: tree heads that the verifier kept itself, or found in a second place.
        stretch: only these leaves, [first, end); read on to the next tree head behind them.
        progress: is told how many leaves of how many are done.

    Raises:
        CollectorError: the source cannot be read.
    """
    state = source.state(tenant)
    probe = Report(tenant)
    heads = known_heads(state.heads, [*state.notes, *notes], keys, origin, probe)
    first, end = stretch or (0, state.size)
    first, end = max(0, min(first, state.size)), min(end, state.size)
    if stretch is not None:
        end = next((head.size for head in heads if end <= head.size <= state.size), state.size)
    whole = first == 0 and end == state.size
    checker = Checker(
        state, heads if whole else [head for head in heads if head.size <= end], _begin(source, tenant, first)
    )
    report = checker.report
    report.findings += probe.findings
    report.alarms += probe.alarms
    for window in source.windows(tenant, first, end):
        checker.take(window)
        if progress is not None:
            progress(report.end - first, end - first)
    checker.finish(whole=whole)
    if not heads and state.size:
        report.notes.append("no tree head was signed yet: nothing covers this log")
    return report


def _begin(source: LogSource, tenant: str, first: int) -> Frontier:
    if not first:
        return Frontier()
    places = perfect_nodes(0, first)
    nodes = dict(zip(places, source.frontier(tenant, first), strict=False))
    if len(nodes) < len(places):
        raise ProofError(f"the log of tenant {tenant} has a hole before leaf {first}; verify all of it")
    return Frontier.from_nodes(first, lambda level, index: nodes[level, index])


def alarm_text(finding: Finding) -> str:
    """Return a finding as one line."""
    where = "" if finding.leaf_index is None else f" leaf {finding.leaf_index}"
    event = "" if finding.event_id is None else f" event {finding.event_id}"
    return f"{finding.state}{where}{event}: {finding.what}"
