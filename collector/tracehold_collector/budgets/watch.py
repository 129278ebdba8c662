"""Says aloud when a budget's state gets worse: once in the log, and as a metric for whoever watches those."""

from __future__ import annotations

import threading
from typing import Final

import structlog

from tracehold_collector.budgets.state import CHECK_EVERY, Budgets, BudgetState
from tracehold_collector.core.errors import CollectorError

_log = structlog.get_logger(__name__)

_WORSE: Final = {"ok": 0, "warning": 1, "will be over": 2, "over": 3}


class BudgetWatch:
    """Looks at the budgets now and then, on a thread of its own.

    Args:
        budgets: what to look at; with none, nothing is started.
        every_s: seconds between looks.
    """

    def __init__(self, budgets: Budgets, every_s: float = CHECK_EVERY.total_seconds()) -> None:
        self._budgets = budgets
        self._every_s = every_s
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._told: dict[str, tuple[object, int]] = {}
        self.latest: list[BudgetState] = []

    def start(self) -> None:
        """Begin to look."""
        if len(self._budgets):
            self._thread = threading.Thread(target=self._work, name="tracehold-budgets", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()

    def look(self) -> list[BudgetState]:
        """Look once; log what got worse since the last look, and what is bad in a new period. Return all of it."""
        self.latest = self._budgets.states()
        for state in self.latest:
            period, worst = self._told.get(state.name, (None, 0))
            if period != state.since:
                worst = 0
            rank = _WORSE[state.state]
            if rank > worst:
                _log.warning(
                    "budget",
                    name=state.name,
                    state=state.state,
                    spent_usd=round(state.spent_usd, 6),
                    budget_usd=state.usd,
                    unpriced_calls=state.unpriced_calls,
                    until=state.until.isoformat(),
                )
            self._told[state.name] = (state.since, max(rank, worst))
        return self.latest

    def _work(self) -> None:
        while True:
            try:
                self.look()
            except CollectorError as error:
                _log.info("budgets_not_checked", error=type(error).__name__)
            if self._ending.wait(self._every_s):
                return
