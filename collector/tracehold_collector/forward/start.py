"""Where forwarding goes on from: where it was, or where the operator asks it to."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tracehold.core.errors import ConfigurationError

from tracehold_collector.core.times import parse_moment_ns
from tracehold_collector.forward.progress import Progress, load_progress
from tracehold_collector.store.feed import Position

FROM_START: Final = "start"
FROM_NOW: Final = "now"


def resume(path: Path, receiver: str, asked: str | None, last: Position) -> Progress:
    """Return the progress to go on from, saved.

    A receiver that was served before goes on where it was, one that was not starts from now. `asked` overrides both,
    once: a wish that was granted before is not granted again, so that it may stay in a file of settings.

    Args:
        path: the receiver's progress file.
        receiver: scheme, host and port.
        asked: "start", "now", a date or time, or `None`.
        last: the place after everything that is committed.

    Raises:
        ConfigurationError: `asked` is none of these.
        StoreError: the file cannot be read or written.
        OSError: the file cannot be written.
    """
    wanted = None if asked is None else position_of(asked, last)
    progress = load_progress(path)
    if progress is None:
        progress = Progress(path, receiver, wanted or last, asked)
    elif wanted is not None and asked != progress.asked:
        progress.position, progress.asked = wanted, asked
    if progress.position.received_at > last.received_at:
        # The store is an older one, from a backup, or a new one. What comes next must not count as sent.
        progress.position = last
    progress.save()
    return progress


def position_of(asked: str, last: Position) -> Position:
    """Return the place that "start", "now" or an ISO 8601 date or time (UTC where no zone is said) means.

    Raises:
        ConfigurationError: it is none of these.
    """
    if asked == FROM_START:
        return Position(0)
    if asked == FROM_NOW:
        return last
    moment = parse_moment_ns(asked)
    if moment is None:
        raise ConfigurationError(
            f"cannot forward from {asked[:64]!r}: give 'start', 'now', or a date or time such as 2026-11-30T08:00"
        )
    return Position(max(0, moment - 1))
