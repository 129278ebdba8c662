"""Which tree heads of a log are to be believed, and whether they contradict each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tracehold_collector.audit.notes import VerifierKey
from tracehold_collector.audit.tree_heads import open_tree_head
from tracehold_collector.core.errors import NoteError
from tracehold_collector.verify.checker import KnownHead
from tracehold_collector.verify.findings import Finding, Report
from tracehold_collector.verify.window import ClaimedHead

_NS: Final = 1_000_000_000


def known_heads(
    claimed: Iterable[ClaimedHead], notes: Iterable[str], keys: Sequence[VerifierKey], origin: str, report: Report
) -> list[KnownHead]:
    """Return the heads that a known key signed, the smallest first, one a size.

    Args:
        claimed: as the store has them.
        notes: signed notes from elsewhere.
        keys: those believed.
        origin: of the log.
        report: is told of heads that nobody known signed, and of two versions of one log.
    """
    found: dict[int, KnownHead] = {}
    rows = {row.note: row for row in claimed}
    for note in dict.fromkeys([*rows, *notes]):
        try:
            opened = open_tree_head(note, keys, origin=origin)
        except NoteError as error:
            report.alarm(Finding("altered", None, None, f"a tree head cannot be believed: {error}"))
            continue
        head = KnownHead(opened.head.size, opened.head.root, opened.signed_at)
        row = rows.get(note)
        if row is not None and (row.size, row.root, row.signed_at // _NS) != head:
            what = f"the row of the tree head of size {head.size} says something else than what was signed"
            report.alarm(Finding("altered", None, None, what))
        other = found.setdefault(head.size, head)
        if other.root != head.root:
            what = (
                f"two different tree heads of {head.size} leaves were signed: somebody shows two versions of this log"
            )
            report.alarm(Finding("altered", None, None, what))
    return [found[size] for size in sorted(found)]
