"""A model call under a run's policy: admitted, made, accounted, recorded (EXEC-14 to EXEC-17).

The harness makes every model call through here; so may anything else that calls a model inside a run.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from tracehold.core.copying import copy_json
from tracehold.core.errors import LLMResponseError
from tracehold.execution.limits import Limits
from tracehold.execution.recording import Place, Tracing, attach, ended, failed
from tracehold.execution.running import current_limits
from tracehold.llm.protocol import ChatMessage, LLMClient, LLMResponse
from tracehold.observability.event_types import LLM_CALL

_log = logging.getLogger(__name__)

TRUNCATED: Final = frozenset({"length", "max_tokens", "model_context_window_exceeded"})
"""Finish reasons that mean the reply is incomplete (HAR-20)."""

Watcher = Callable[..., Awaitable[None]]


async def governed_chat(
    llm: LLMClient,
    messages: list[ChatMessage],
    *,
    tracer: Tracing | None = None,
    origin: str = "",
    **kwargs: Any,
) -> LLMResponse:
    """Call `llm.chat` once under the surrounding run's policy; outside a run just call it (EXEC-16).

    Args:
        llm: the model client.
        messages: what it is sent.
        tracer: gets one `llm_call` event; without one nothing is built (EXEC-15).
        origin: what made the call, such as "memory.summary"; a field of the event.
        kwargs: reach `chat` unchanged (EXEC-17).

    Raises:
        RunLimitExceeded: a limit was reached before the call, or its tokens went beyond one (EXEC-14).
        RunCancelled: the cancel callback said stop.
    """
    call = ModelCall(llm, messages, tracer, {"origin": origin})
    call.admit()
    return await call.chat(kwargs)


class ModelCall:
    """One call of a model, from admission to accounting.

    The call counts from its admission (DEC-03), its tokens from its end, and it leaves exactly one event however it
    ends (DEC-01).

    Args:
        llm: the model client.
        messages: what it is sent.
        tracer: where the event goes.
        fields: further fields of the event.
    """

    def __init__(
        self, llm: LLMClient, messages: list[ChatMessage], tracer: Tracing | None, fields: dict[str, Any] | None = None
    ) -> None:
        self._llm = llm
        self._messages = messages
        self._tracer = tracer
        self._fields = fields or {}
        self._limits: Limits | None = current_limits()
        self._place: Place | None = None
        self._sent: Any = None

    def admit(self) -> None:
        """Check the run's limits and count the call, in one step with other calls (POL-03).

        Raises:
            RunLimitExceeded: a limit is reached; an event says so, nothing is counted (HAR-14, DEC-01).
            RunCancelled: the cancel callback said stop; likewise.
        """
        if self._limits is None:
            return
        try:
            self._limits.check("llm")
            self._limits.start("llm")
        except BaseException as error:
            self._record_refusal(error)
            raise

    def _record_refusal(self, error: BaseException) -> None:
        if self._tracer is None:
            return
        try:
            Place().emit(self._tracer, self._event(ended(error)))
        except Exception as second:  # noqa: BLE001 - the first error matters more
            attach(error, second)

    def withdraw(self, error: BaseException) -> None:
        """Uncount the call and record why: what stands before it failed, and it will not be made."""
        if self._limits is not None:
            self._limits.take_back("llm")
        self._record_refusal(error)

    def begin(self) -> None:
        """Start the clock: hooks before it do not lengthen the latency (HAR-17)."""
        if self._tracer is not None:
            if self.keeps_content:
                self._sent = copy_json(self._messages)  # a client may append to its list
            self._place = Place()

    async def chat(self, kwargs: dict[str, Any], after: Watcher | None = None) -> LLMResponse:
        """Make the call, account for it, and check what it used (HAR-13).

        Args:
            kwargs: reach the client unchanged.
            after: awaited with the response after the event and before the checks.
        """
        try:
            self.begin()
            response = checked_response(self._llm, await self._llm.chat(self._messages, **kwargs))
        except BaseException as error:
            self.fail(error)
            raise
        self.settle(
            usage=getattr(response, "usage", None),
            model=getattr(response, "model", None),
            finish_reason=getattr(response, "finish_reason", None),
            response=response,
            fields={"has_tool_calls": bool(getattr(response, "tool_calls", None))},
        )
        if after is not None:
            await after(response)
        self.check_used()
        return response

    def settle(
        self,
        *,
        usage: Any,
        model: str | None,
        finish_reason: str | None,
        response: LLMResponse | str | None,
        fields: dict[str, Any],
    ) -> None:
        """Add what a call used to the run's counters, then record it (HAR-18)."""
        if self._limits is not None:
            self._limits.add_usage(usage)
        if finish_reason in TRUNCATED:
            _log.warning("reply cut short by %s: model %s", finish_reason, model or self._model())
        if self._tracer is None or self._place is None:
            return
        event = self._event(self._place.timing())
        if model:
            event["model"] = model
        if usage is not None:
            event["usage"] = usage
        if finish_reason is not None:
            event["finish_reason"] = finish_reason
        if response is not None and self.keeps_content:
            event["output"] = _said(response)
        self._place.emit(self._tracer, event | fields)

    @property
    def keeps_content(self) -> bool:
        """Whether somebody may see prompts and replies (DEC-15)."""
        return bool(getattr(self._tracer, "content", False))

    def settle_failed(self, error: BaseException, usage: Any) -> None:
        """Account for a call that broke after it had begun to answer, then record it (HAR-31)."""
        if self._limits is not None:
            self._limits.add_usage(usage)
        self.fail(error, {} if usage is None else {"usage": usage})

    def fail(self, error: BaseException, fields: dict[str, Any] | None = None) -> None:
        """Record a call that ended with `error`; should that fail too, `error` still wins (HAR-32)."""
        if self._tracer is None:
            return
        self._place = self._place or Place()
        try:
            event = self._event(self._place.timing()) | failed(error) | (fields or {})
            self._place.emit(self._tracer, event)
        except Exception as second:  # noqa: BLE001 - the first error matters more
            attach(error, second)

    def check_used(self) -> None:
        """Raise `RunLimitExceeded` when the call went beyond the tokens or past the deadline (HAR-13, HAR-18)."""
        if self._limits is not None:
            self._limits.check_tokens()
            self._limits.check_deadline()

    def _model(self) -> str:
        return str(getattr(self._llm, "model", None) or "")

    def _event(self, fields: dict[str, Any]) -> dict[str, Any]:
        event = {"type": LLM_CALL, "model": self._model(), **self._fields, **fields}
        provider = getattr(self._llm, "provider", None)
        if isinstance(provider, str):
            event["provider"] = provider
        if self.keeps_content:
            event["input"] = self._sent if self._sent is not None else self._messages
        return event


def checked_response(llm: object, response: Any) -> LLMResponse:
    """Return `response`, which a client gave back, if it looks like one.

    Raises:
        LLMResponseError: it does not; the call was made and counts.
    """
    if not hasattr(response, "content"):
        raise LLMResponseError(
            f"{type(llm).__name__} gave back {type(response).__name__} where an LLMResponse is expected"
        )
    return response  # type: ignore[no-any-return]  # judged by its shape (LLM-03)


def _said(response: LLMResponse | str) -> Any:
    if isinstance(response, str):
        return response
    if getattr(response, "tool_calls", None):
        return {"content": response.content, "tool_calls": response.tool_calls}
    return response.content
