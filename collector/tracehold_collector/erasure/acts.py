"""What the collector does is in the log as well: each step of an erasure, each hold, under the login of who did it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tracehold.core.clock import now_ns
from tracehold.observability.event_types import Status

from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.core.record import Record

_PREFIX: Final = "tracehold."


def act(
    pseudonyms: Pseudonyms,
    what: str,
    subject_id: str,
    tenant: str,
    principal: str,
    *,
    attributes: Mapping[str, Any],
    content: Mapping[str, Any] | None = None,
    status: Status = "ok",
) -> Record:
    """Return an event of the run `<kind>:<subject id>`; the same act has the same id: none is told twice.

    The id is keyed, or an agent could take the ids of the next steps beforehand, and so keep them out of the log.

    Args:
        pseudonyms: of the store.
        what: such as "erasure.requested"; the part before the dot is the kind of run.
        subject_id: of the erasure or hold, 32 hex digits.
        tenant: whose log it goes to.
        principal: the name of the key, or what stands for it.
        attributes: ids, numbers and words of our own, without the prefix `tracehold.`; `None` is left out.
        content: free text, such as a note or a reason.
        status: how it ended.
    """
    kind = what.partition(".")[0]
    said = {name: text for name, text in (content or {}).items() if text}
    return Record(
        event_id=pseudonyms.of(tenant).event_id(f"{_PREFIX}{what}\0{subject_id}".encode(), 0),
        tenant=tenant,
        run_id=f"{kind}:{subject_id}",
        kind="erasure",
        type=_PREFIX + what,
        name=what,
        source="collector",
        status=status,
        started_at=now_ns(),
        decided_by=principal,
        attributes={_PREFIX + name: value for name, value in attributes.items() if value is not None},
        content=said or None,
    )
