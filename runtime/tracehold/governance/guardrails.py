"""Guardrails: may this text pass? They judge what a user says and what a model answers (GRD)."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from tracehold.core.errors import GuardrailTripwireError


@dataclass
class GuardrailResult:
    """What a guardrail found (GRD-01).

    Attributes:
        passed: whether the text may pass.
        message: why not, for people; may be empty when it passed.

    Raises:
        TypeError: `passed` is a call nobody awaited, which would count as true (GRD-08).
    """

    passed: bool
    message: str = ""

    def __post_init__(self) -> None:
        """Refuse an answer that was never computed."""
        _refuse_unfinished(self.passed, "GuardrailResult(passed=...)")


class Guardrail(ABC):
    """Judges a text. Override `check`; for I/O override `acheck` as well or instead (GRD-02 to GRD-04).

    A guardrail may have a `name`, which then names it in the record; else its class does.
    """

    @abstractmethod
    def check(self, text: str) -> GuardrailResult:
        """Judge `text` here and now."""

    async def acheck(self, text: str) -> GuardrailResult:
        """Judge `text`; default `check`, inline on the same thread (GRD-03). Agents call this one."""
        return self.check(text)


Outcome: TypeAlias = bool | GuardrailResult
"""What a guardrail function answers; of any other value its truth counts (GRD-10)."""


class CallableGuardrail(Guardrail):
    """A guardrail made from a function (GRD-05 to GRD-11).

        CallableGuardrail(lambda text: len(text) < 4000, message="input too long", name="input_length")

    Args:
        fn: takes the text; returns a bool or a `GuardrailResult`, at once or awaitable. What it raises passes through
            (GRD-11): it neither lets the text pass nor counts as a block.
        message: why the text is blocked, when `fn` answers with no `GuardrailResult` of its own.
        name: what the record calls it; default the name of `fn`.

    Raises:
        TypeError: `fn` cannot be called.
    """

    def __init__(
        self,
        fn: Callable[[str], Outcome | Awaitable[Outcome]],
        *,
        message: str = "guardrail triggered",
        name: str | None = None,
    ) -> None:
        if not callable(fn):
            raise TypeError(f"a guardrail's fn must be callable, not {type(fn).__name__}")
        self.fn = fn
        self.message = message
        self.name = name or _name_of(fn)

    def check(self, text: str) -> GuardrailResult:
        """Judge `text` with a function that answers at once.

        Raises:
            TypeError: the answer has to be awaited; use `acheck` (GRD-09).
        """
        return self._result(self.fn(text))

    async def acheck(self, text: str) -> GuardrailResult:
        """Judge `text`, awaiting whatever the function returns that is awaitable (GRD-07, GRD-08)."""
        outcome: Any = self.fn(text)
        while inspect.isawaitable(outcome):
            outcome = await outcome
        return self._result(outcome)

    def _result(self, outcome: Any) -> GuardrailResult:
        if isinstance(outcome, GuardrailResult):
            return outcome  # GRD-06
        _refuse_unfinished(outcome, f"guardrail {self.name}")
        return GuardrailResult(True) if outcome else GuardrailResult(False, self.message)  # GRD-05, GRD-10


async def run_guardrails(guardrails: Iterable[Guardrail], text: str) -> None:
    """Ask each guardrail in turn; the first that blocks ends it (GRD-12).

    Raises:
        GuardrailTripwireError: one blocked; it carries its `message` and, as `rule`, its name.
        TypeError: one answered with something other than a `GuardrailResult`, which must not pass for a yes.
    """
    for guardrail in guardrails:
        result: object = await guardrail.acheck(text)
        rule = guardrail_name(guardrail)
        if not isinstance(result, GuardrailResult):
            _refuse_unfinished(result, f"guardrail {rule}")
            raise TypeError(f"guardrail {rule} must return a GuardrailResult, not {type(result).__name__}")
        _refuse_unfinished(result.passed, f"guardrail {rule}")
        if not result.passed:
            raise GuardrailTripwireError(result.message, rule=rule)


def guardrail_name(guardrail: Guardrail) -> str:
    """Return what the record calls a guardrail: its `name` when that is a text, else its class's name."""
    name = getattr(guardrail, "name", None)
    return name if isinstance(name, str) and name else type(guardrail).__name__


def _name_of(fn: Callable[..., Any]) -> str:
    """Return a function's name, of a partial that of what it wraps, of an object its class's."""
    while not hasattr(fn, "__name__") and callable(inner := getattr(fn, "func", None)):
        fn = inner
    name = getattr(fn, "__name__", None) or type(fn).__name__
    return name.strip("<>")  # a lambda


def _refuse_unfinished(outcome: object, where: str) -> None:
    """Raise for a coroutine, generator or other awaitable: it is truthy, but nothing has been computed yet (GRD-08).

    A coroutine is closed first, so that no "never awaited" warning appears (GRD-09).
    """
    if inspect.iscoroutine(outcome):
        outcome.close()
    elif not (inspect.isawaitable(outcome) or inspect.isgenerator(outcome) or inspect.isasyncgen(outcome)):
        return
    raise TypeError(
        f"{where} gave a {type(outcome).__name__} where a result was due: nothing was checked. "
        "Await it: use acheck(), or return a bool or GuardrailResult"
    )
