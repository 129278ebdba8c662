"""Applies retention policies, once an hour: what has had its time goes, as an erasure on the ground `retention`.

A run goes whole or not at all, and only when all of its session is old enough; one with an approval that is awaited
stays, and so does what is under a legal hold (FR-49). Its leaves stay in the audit log, which verifies as before.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import duckdb
import structlog
from tracehold.core.clock import now_ns

from tracehold_collector.core.errors import CollectorError
from tracehold_collector.core.tenants import Tenants
from tracehold_collector.core.times import iso_utc
from tracehold_collector.erasure.policies import MODE_OF, Policy, policies_of
from tracehold_collector.erasure.record import ErasureRecord
from tracehold_collector.erasure.request import Request, Scope
from tracehold_collector.erasure.service import Erasures, Preview
from tracehold_collector.store.database import Database

_log = structlog.get_logger(__name__)

_DAY_NS: Final = 86_400 * 1_000_000_000
_FIRST_S: Final = 60.0
_EVERY_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Due:
    """What a policy would take of a tenant now.

    Attributes:
        policy: which one.
        preview: how much, and what stays.
    """

    policy: Policy
    preview: Preview


class Retention:
    """The retention policies of a store.

    Args:
        database: the open store.
        erasures: carries out what policies ask for.
        policies: as they were written down.
    """

    def __init__(self, database: Database, erasures: Erasures, policies: Sequence[Policy]) -> None:
        self.policies = tuple(policies)
        self._database = database
        self._erasures = erasures
        self._stopping = threading.Event()
        self._one_at_a_time = threading.Lock()
        self._thread: threading.Thread | None = None
        self.last_pass_at: int | None = None

    def start(self) -> None:
        """Apply the policies from now on, on a thread of its own; without policies, do nothing."""
        if self.policies:
            self._thread = threading.Thread(target=self._work, name="tracehold-retention", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop after the policy at hand; a second call does nothing."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def preview(self, tenants: Tenants) -> list[Due]:
        """Say what a pass would take now; a dry run.

        Raises:
            duckdb.Error: the store cannot be read.
        """
        return [Due(policy, self._erasures.measure(request)) for policy, request in self._requests(tenants)]

    def run(self, tenants: Tenants) -> list[ErasureRecord]:
        """Make a pass now; return the erasures that come of it.

        Raises:
            StoreError, duckdb.Error: the store cannot be read or written.
        """
        asked = []
        with self._one_at_a_time:
            for policy, request in self._requests(tenants):
                if self._stopping.is_set():
                    break
                if self._erasures.measure(request).events:
                    asked.append(self._erasures.submit(request, f"policy {policy.name}", strict=False))
            self.last_pass_at = now_ns()
        return asked

    def _requests(self, tenants: Tenants) -> Iterator[tuple[Policy, Request]]:
        now = now_ns()
        for tenant in self._tenants(tenants):
            policies = policies_of(self.policies, tenant)
            for policy in policies:
                others = () if policy.agent else _agents_apart(policies, policy)
                before = iso_utc(now - policy.days * _DAY_NS)
                scope = Scope("age", before, policy.agent, others, policy.kinds)
                yield policy, Request(tenant, scope, MODE_OF[policy.what], "retention", now, policy=policy.name)

    def _tenants(self, tenants: Tenants) -> list[str]:
        if not self.policies:
            return []
        with self._database.cursor() as cursor:
            rows = cursor.execute("SELECT DISTINCT tenant FROM run_deltas ORDER BY tenant").fetchall()
        return [tenant for (tenant,) in rows if tenants is None or tenant in tenants]

    def _work(self) -> None:
        wait_s = _FIRST_S
        while not self._stopping.wait(wait_s):
            wait_s = _EVERY_S
            try:
                asked = self.run(None)
                self._erasures.resume()  # what waited for its day to be written out of the file
            except (CollectorError, duckdb.Error) as error:
                _log.error("retention_pass_failed", error=type(error).__name__)
            else:
                _log.info("retention_pass", erasures=len(asked))


def _agents_apart(policies: Sequence[Policy], policy: Policy) -> tuple[str, ...]:
    """The agents that have a policy of their own for the same."""
    return tuple(other.agent for other in policies if other.agent is not None and other.what == policy.what)
