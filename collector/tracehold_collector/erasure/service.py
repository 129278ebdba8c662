"""What people ask for: previews, erasures, approvals and holds; and the thread that carries erasures out."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import duckdb
import structlog
from tracehold.core.clock import now_ns

from tracehold_collector.access.principal import Principal
from tracehold_collector.core.errors import BadBodyError, ConflictError, NotAllowedError, NotFoundError, StoreError
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.core.settings import MIN_ACCESS_LOG_DAYS
from tracehold_collector.core.tenants import Tenants
from tracehold_collector.core.times import iso_utc
from tracehold_collector.erasure.engine import ERRORS, ErasureEngine, Parts
from tracehold_collector.erasure.holds import Hold, load_holds, place_hold, read_hold, release_hold
from tracehold_collector.erasure.manifest import what_stays
from tracehold_collector.erasure.record import ErasureRecord, Stayed, due_one_month_after, load_erasures
from tracehold_collector.erasure.request import Request, Scope, read_request
from tracehold_collector.erasure.restoring import apply_list
from tracehold_collector.erasure.selection import choose, forget_chosen, size_of_chosen
from tracehold_collector.erasure.steps import tell
from tracehold_collector.erasure.worker import Worker
from tracehold_collector.store.committer import Committer
from tracehold_collector.store.database import Database
from tracehold_collector.store.writer import Writer

_log = structlog.get_logger(__name__)

MIN_RETENTION_DAYS: Final = MIN_ACCESS_LOG_DAYS
"""Six months: Regulation (EU) 2024/1689, Articles 19(1) and 26(6)."""

_DAY_NS: Final = 86_400 * 1_000_000_000
_WAIT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Rules:
    """What binds erasures here.

    Attributes:
        min_retention_days: what a purge by age, or a retention policy, has to leave.
        strict: whether a request needs a second person, with another key.
    """

    min_retention_days: int = MIN_RETENTION_DAYS
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Preview:
    """What an erasure would come to; nothing was changed.

    Attributes:
        tenant, scope, scope_value, mode, basis: as they were read; a person's id is a pseudonym by now.
        runs, whole_runs, events, chunks, content_bytes, keys: how much that is.
        unsealed: chunks from before there were keys: readable until the file was written anew.
        holds: how many runs each legal hold keeps, by its id.
        stayed: what would stay, and why.
        needs_approval: whether a second person has to say yes.
    """

    tenant: str
    scope: str
    scope_value: str | None
    mode: str
    basis: str
    runs: int
    whole_runs: int
    events: int
    chunks: int
    content_bytes: int
    keys: int
    unsealed: int
    holds: dict[str, int]
    stayed: tuple[Stayed, ...]
    needs_approval: bool


class Erasures:
    """The erasures of a store.

    Args:
        database: the open store.
        writer: what changes the store goes through it; it must know runs by `Pseudonyms.run`.
        pseudonyms: of the store.
        rules: what binds erasures.
        parts: what there is beside the store.
    """

    def __init__(
        self,
        database: Database,
        writer: Writer,
        pseudonyms: Pseudonyms,
        rules: Rules | None = None,
        parts: Parts | None = None,
    ) -> None:
        self.rules = rules or Rules()
        self._database = database
        self._writer = writer
        self._pseudonyms = pseudonyms
        self._stopping = threading.Event()
        self.engine = ErasureEngine(database, writer, pseudonyms, parts or Parts(), self._stopping)
        # Apart, so that nobody's content stays readable while a large file is written for somebody else.
        self._soon = Worker("tracehold-erasure", self._erase_soon)
        self._slow = Worker("tracehold-erasure-slow", self._erase_wholly)

    def apply_list(self) -> int:
        """Apply what the key store knows was erased and this database does not; before anything is served.

        Raises:
            StoreError: it could not be applied; nothing may be served then.
        """
        try:
            return apply_list(self._database, self._writer, self.engine)
        except (duckdb.Error, TimeoutError) as error:
            raise StoreError(
                "erasures that this database does not know of, since it was restored from a backup, could not be "
                "applied; the collector serves nothing before they are. Start it again"
            ) from error

    def start(self) -> None:
        """Go on with what a stop or crash interrupted, and then with what is asked for, on threads of their own."""
        self.resume()
        self._soon.start()
        self._slow.start()

    def resume(self) -> None:
        """Take up what is not finished; what waited for its time, too."""
        for record in self.engine.unfinished():
            self._soon.put(record.id)

    def close(self) -> None:
        """Stop after the lot at hand; the next start goes on. A second call does nothing."""
        self._stopping.set()
        self._soon.close()
        self._slow.close()

    def preview(self, body: Mapping[str, Any], principal: Principal) -> Preview:
        """Say what a request would come to.

        Raises:
            BadBodyError: the request is wrong.
            NotAllowedError: the rules of this collector do not allow it.
        """
        return self.measure(self._read(body, principal))

    def measure(self, request: Request) -> Preview:
        """Say what a request that was read already would come to."""
        with self._database.cursor() as cursor:
            holds = load_holds(cursor, (request.tenant,), active=True)
            chosen = choose(cursor, request.tenant, request.scope, request.mode, holds, self._pseudonyms)
            size = size_of_chosen(cursor, request.tenant)
            forget_chosen(cursor)
        return Preview(
            request.tenant,
            request.scope.kind,
            request.scope.value,
            request.mode,
            request.basis,
            chosen.runs,
            chosen.whole_runs,
            chosen.events,
            size.chunks,
            size.content_bytes,
            size.keys,
            size.unsealed,
            chosen.held,
            tuple(what_stays(chosen)),
            self.rules.strict,
        )

    def request(self, body: Mapping[str, Any], principal: Principal) -> ErasureRecord:
        """Ask for an erasure; it is carried out from here on, or once a second person approves of it.

        Raises:
            BadBodyError: the request is wrong.
            NotAllowedError: the rules of this collector do not allow it.
            StoreError: it could not be stored.
        """
        request = self._read(body, principal)
        if request.mode == "delete" and request.scope.kind == "run":
            # The name of the run goes as well: it may be a person's.
            name = self._pseudonyms.of(request.tenant).run_name(request.scope.value or "")
            request = replace(request, scope=Scope("run", name))
        return self.submit(request, principal.name, key_id=principal.key_id)

    def submit(
        self, request: Request, requester: str, *, key_id: str | None = None, strict: bool | None = None
    ) -> ErasureRecord:
        """Ask for an erasure that was read already; `strict` overrides the rules, for policies that were approved."""
        erasure_id = uuid.uuid4().hex
        strict = self.rules.strict if strict is None else strict
        given = {"mode": request.mode, "scope": request.scope.kind, "basis": request.basis}
        attributes: dict[str, Any] = {f"erasure.{name}": value for name, value in given.items()}
        attributes["erasure.value"] = request.scope.value if request.scope.kind != "event" else None
        note = {"note": request.note}
        self.engine.log_act(
            "erasure.requested", erasure_id, request.tenant, requester, attributes=attributes, content=note
        )
        self._tell(
            erasure_id,
            request.tenant,
            "requested",
            **given,
            scope_value=request.scope.value,
            requester=requester,
            requester_key=key_id,
            received_at=request.received_at,
            due_at=due_one_month_after(request.received_at),
            strict=strict or None,
            policy=request.policy,
            agent=request.scope.agent,
            not_agents=list(request.scope.not_agents) or None,
            kinds=list(request.scope.kinds) or None,
        )
        self._soon.put(erasure_id)
        return self.engine.record(erasure_id)

    def approve(self, erasure_id: str, principal: Principal) -> ErasureRecord:
        """Approve of a request as the second person; it is carried out from here on.

        Raises:
            NotAllowedError: it is one's own.
            NotFoundError: there is none of this id.
            ConflictError: it waits for nobody.
            StoreError: it could not be stored.
        """
        record = self._awaiting(erasure_id, principal)
        if principal.key_id is None or principal.key_id == record.requester_key or principal.name == record.requester:
            raise NotAllowedError("somebody else has to approve of it, with a key of their own: strict mode is on")
        self._act(record, "approved", principal.name)
        self._tell(record.id, record.tenant, "approved", approver=principal.name)
        self._soon.put(record.id)
        return self.engine.record(record.id)

    def refuse(self, erasure_id: str, principal: Principal) -> ErasureRecord:
        """Refuse a request that waits for approval; the one who asked withdraws it so.

        Raises:
            NotFoundError: there is none of this id.
            ConflictError: it waits for nobody.
            StoreError: it could not be stored.
        """
        record = self._awaiting(erasure_id, principal)
        own = principal.key_id == record.requester_key and principal.name == record.requester
        why = "withdrawn" if own else "rejected"
        self._act(record, "refused", principal.name, why=why)
        self._tell(record.id, record.tenant, "refused", refused_why=why, approver=None if own else principal.name)
        return self.engine.record(record.id)

    def records(self, tenants: Tenants, ids: list[str] | None = None) -> list[ErasureRecord]:
        """Return the register, the latest request first."""
        with self._database.cursor() as cursor:
            return load_erasures(cursor, tenants, ids=ids)

    def holds(self, tenants: Tenants) -> list[Hold]:
        """Return the legal holds, released ones too."""
        with self._database.cursor() as cursor:
            return load_holds(cursor, tenants)

    def place_hold(self, body: Mapping[str, Any], principal: Principal) -> Hold:
        """Place a legal hold.

        Raises:
            BadBodyError: says what is wrong.
            StoreError: it could not be stored.
        """
        if unknown := body.keys() - {"tenant", "scope", "value", "reason"}:
            raise BadBodyError(f"a hold has no {', '.join(sorted(map(repr, unknown)))[:200]}")
        tenant = self._tenant(body, principal)
        scope, reason = read_hold(body, tenant, self._pseudonyms)

        def place(committer: Committer) -> Hold:
            with committer.transaction() as connection:
                return place_hold(connection, tenant, scope, reason=reason, principal=principal.name)

        hold = self._writer.run(place).result(_WAIT_S)
        given = {"hold.scope": scope.kind, "hold.value": scope.value}
        told = {"reason": reason}
        self.engine.log_act("hold.placed", hold.id, tenant, principal.name, attributes=given, content=told)
        return hold

    def release_hold(self, hold_id: str, principal: Principal) -> Hold:
        """Release a legal hold; what it kept is not erased before somebody asks again.

        Raises:
            NotFoundError: there is none of this id.
            StoreError: it could not be stored.
        """
        hold = next((hold for hold in self.holds(principal.tenants) if hold.id == hold_id), None)
        if hold is None:
            raise NotFoundError("there is no hold of this id; list them with 'tracehold holds list'")

        def release(committer: Committer) -> None:
            with committer.transaction() as connection:
                release_hold(connection, hold, principal=principal.name)

        self._writer.run(release).result(_WAIT_S)
        self.engine.log_act("hold.released", hold.id, hold.tenant, principal.name, attributes={})
        return next(hold for hold in self.holds(principal.tenants) if hold.id == hold_id)

    def wait(self, erasure_id: str, timeout_s: float) -> ErasureRecord:
        """Wait until an erasure goes no further by itself; return how it stands, in time or not."""
        deadline = time.monotonic() + timeout_s
        while True:
            record = self.engine.record(erasure_id)
            if self.engine.next_step(record) is None or time.monotonic() > deadline:
                return record
            self._stopping.wait(0.05)

    def _read(self, body: Mapping[str, Any], principal: Principal) -> Request:
        request = read_request(body, self._tenant(body, principal), self._pseudonyms, now_ns())
        self.check_floor(request)
        return request

    def check_floor(self, request: Request) -> None:
        """Refuse a purge by age below the minimum retention; a request under GDPR Art. 17 passes.

        Raises:
            NotAllowedError: says from when on it would be allowed.
        """
        before_ns = request.scope.before_ns
        latest = now_ns() - self.rules.min_retention_days * _DAY_NS
        if before_ns is not None and before_ns > latest and not request.basis.startswith("gdpr-17"):
            raise NotAllowedError(
                f"a purge by age leaves what is younger than {self.rules.min_retention_days} days (min_retention_days; "
                f"Regulation (EU) 2024/1689, Art. 19 and 26(6)): name a time before {iso_utc(latest)}, or the ground "
                "in GDPR Art. 17 with 'basis'"
            )

    @staticmethod
    def _tenant(body: Mapping[str, Any], principal: Principal) -> str:
        tenant = body.get("tenant", principal.first)
        if not isinstance(tenant, str) or (principal.tenants is not None and tenant not in principal.tenants):
            raise NotAllowedError("'tenant' is one that the key may see")
        return tenant

    def _awaiting(self, erasure_id: str, principal: Principal) -> ErasureRecord:
        found = self.records(principal.tenants, [erasure_id])
        if not found:
            raise NotFoundError("there is no erasure of this id; list them with 'tracehold erase list'")
        if found[0].status != "waiting for approval":
            raise ConflictError(f"this erasure waits for nobody: it is {found[0].status}")
        return found[0]

    def _act(self, record: ErasureRecord, what: str, principal: str, **attributes: Any) -> None:
        given = {f"erasure.{name}": value for name, value in attributes.items()}
        self.engine.log_act(f"erasure.{what}", record.id, record.tenant, principal, attributes=given)

    def _tell(self, erasure_id: str, tenant: str, step: Any, **details: Any) -> None:
        def note(committer: Committer) -> None:
            with committer.transaction() as connection:
                tell(connection, erasure_id, tenant, step, now_ns(), **details)

        self._writer.run(note).result(_WAIT_S)

    def _erase_soon(self, erasure_id: str) -> bool:
        """Take an erasure to where nothing of it is in the tables; what takes long is the other worker's."""
        if not self._carried_out(erasure_id, slow=False):
            return False
        self._slow.put(erasure_id)
        return True

    def _erase_wholly(self, erasure_id: str) -> bool:
        return self._carried_out(erasure_id, slow=True)

    def _carried_out(self, erasure_id: str, *, slow: bool) -> bool:
        """Take an erasure as far as it goes; `False` when it failed and is to be tried again."""
        try:
            self.engine.finish(erasure_id, slow=slow)
        except ERRORS as error:
            if self._stopping.is_set():
                return True  # cut off by the stop: the next start goes on
            try:
                self.engine.failed(self.engine.record(erasure_id), error)
            except ERRORS as again:
                _log.error("erasure_failure_not_told", erasure=erasure_id, error=type(again).__name__)
            return False
        return True
