"""`GET /api/v1/export/evidence`: the answer to one question as a zip file that proves itself elsewhere."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from tracehold.core.clock import now_ns

from tracehold_collector.api.access import access_of, principal_of
from tracehold_collector.api.export import AT_ONCE, COUNT_HEADER
from tracehold_collector.api.noting import note_export, note_rows, note_tenant
from tracehold_collector.api.parameters import whole_number
from tracehold_collector.api.streaming import Streamed
from tracehold_collector.audit.signing import Signer
from tracehold_collector.core.errors import QueryError, ThrottledError
from tracehold_collector.evidence.bundle import MAX_HEADS, MAX_POPULATION, Asked, EvidenceBundle
from tracehold_collector.evidence.question import PARAMETERS, parse_question
from tracehold_collector.heads.keeper import HeadKeeper
from tracehold_collector.store.database import Database
from tracehold_collector.store.log import OWN_LOG, log_sizes
from tracehold_collector.store.reader import NO_CONTENT, Access

POPULATION_HEADER: Final = "X-Tracehold-Population"
"""How many events answer the question; the answer has as many, or a sample of them."""

MAX_SEED_CHARS: Final = 200
_FLAGS: Final = ("with_content", "complete")
_OWN: Final = ("question", "tenant", "sample", "seed", "tree_head", *_FLAGS)


async def export_evidence(request: Request) -> Response:
    """Return a bundle of evidence: records, proofs, signed tree heads, and the verifiers, as a zip file.

    What was said is in it only with `with_content=true` and a key that has the role `content`. A tree head that covers
    what was committed so far is signed before. An answer that breaks off is no zip file.
    """
    access = access_of(request)
    note_export(request)
    asked = await asyncio.to_thread(_asked, request, access)
    note_tenant(request, asked.question.tenant)
    if asked.with_content and not access.content:
        return JSONResponse(
            {"error": NO_CONTENT, "hint": "leave with_content out, or show a key with the role content"}, 403
        )
    places: threading.BoundedSemaphore = request.app.state.exports
    if not places.acquire(blocking=False):
        raise ThrottledError(f"{AT_ONCE} exports are under way, as many as may be at once", 10)
    try:
        bundle = await asyncio.to_thread(_opened, request, asked)
    except BaseException:
        places.release()
        raise
    note_rows(request, bundle.records)
    headers = {
        COUNT_HEADER: str(bundle.records),
        POPULATION_HEADER: str(bundle.population),
        "Content-Disposition": f'attachment; filename="tracehold-evidence-{asked.question.name}.zip"',
    }
    return Streamed(bundle.pieces(), partial(_let_go, bundle, places.release), headers, "application/zip")


def _opened(request: Request, asked: Asked) -> EvidenceBundle:
    database: Database = request.app.state.database
    heads: HeadKeeper = request.app.state.heads
    signer: Signer = request.app.state.signer
    heads.look(all_of_it=True)
    return EvidenceBundle(database, asked, signer.verifier_keys(asked.question.tenant))


def _let_go(bundle: EvidenceBundle, place: Callable[[], None]) -> None:
    try:
        bundle.close()
    finally:
        place()


def _asked(request: Request, access: Access) -> Asked:
    query = request.query_params
    names = [name for name in query if name != "tree_head"]
    if twice := next((name for name in names if len(query.getlist(name)) > 1), None):
        raise QueryError(f"{twice[:40]!r} is given twice")
    if unknown := next((name for name in names if name not in (*_OWN, *PARAMETERS)), None):
        raise QueryError(f"there is no parameter {unknown[:40]!r}; there are: {', '.join((*_OWN, *PARAMETERS))}")
    given = {name: query[name] for name in names if name in PARAMETERS}
    question = parse_question(query.get("question", "denials"), _tenant(request, access), given)
    flags = {name: query.get(name, "false") for name in _FLAGS}
    if wrong := next((name for name, value in flags.items() if value not in {"true", "false"}), None):
        raise QueryError(f"{wrong} is true or false")
    return Asked(
        question,
        sample=_sample(request),
        with_content=flags["with_content"] == "true",
        complete=flags["complete"] == "true",
        sizes=_sizes(query.getlist("tree_head")),
        asked_by=principal_of(request).name,
        asked_at=now_ns(),
    )


def _tenant(request: Request, access: Access) -> str:
    """The tenant asked for, or the only one there is; one that the key may not see is as one that does not exist."""
    tenant = request.query_params.get("tenant")
    if tenant is None:
        logs = sorted(log_sizes(request.app.state.database).keys() - {OWN_LOG})
        seen = logs if access.tenants is None else [one for one in access.tenants if one in logs] or access.tenants
        if len(seen) != 1:
            raise QueryError(f"whose evidence? Give tenant=, one of: {', '.join(seen) or 'none has a log yet'}")
        return seen[0]
    if tenant == OWN_LOG:
        raise QueryError("the collector's own log holds no agent's events: check it with 'tracehold verify'")
    if access.tenants is not None and tenant not in access.tenants:
        raise QueryError(f"there is no log of tenant {tenant[:128]!r} that this key may see")
    return tenant


def _sample(request: Request) -> tuple[str, int] | None:
    size = whole_number(request.query_params, "sample", MAX_POPULATION)
    seed = request.query_params.get("seed")
    if (size is None) != (seed is None):
        raise QueryError("sample and seed go together: how many to draw, and a text of yours that decides which")
    if size is None or seed is None:
        return None
    if not 0 < len(seed) <= MAX_SEED_CHARS or not seed.isprintable():
        raise QueryError(f"seed takes 1 to {MAX_SEED_CHARS} printable characters")
    return seed, size


def _sizes(given: list[str]) -> tuple[int, ...]:
    if len(given) > MAX_HEADS:
        raise QueryError(f"tree_head may be given {MAX_HEADS} times")
    if not all(text.isascii() and text.isdigit() and len(text) < 19 and int(text) for text in given):  # noqa: PLR2004
        raise QueryError("tree_head takes the size of a tree head, the second line of it")
    return tuple(sorted({int(text) for text in given}))
