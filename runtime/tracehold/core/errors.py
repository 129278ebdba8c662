"""Every error Tracehold raises on purpose.

    TraceholdError (RuntimeError)
    ├── ConfigurationError          a setting or argument cannot be used (also a ValueError)
    ├── ExporterError               an exporter could not keep or hand over an event
    ├── LLMError                    a model call gave nothing usable
    │   ├── LLMConfigError          the client cannot be built or lacks a credential
    │   ├── LLMRequestError         the provider refused or could not be reached
    │   ├── LLMResponseError        the provider answered, but not with what was asked for
    │   └── ContextWindowExceeded   what must be kept is larger than the model's window
    ├── RetrievalError              a search or an index cannot do what was asked
    ├── SessionError                a session, checkpoint or its database cannot be used
    ├── GuardrailTripwireError      a guardrail stopped the run
    ├── StoreError                  an event store, or what stands beside it, cannot do what was asked
    │   ├── ConcurrencyError        another writer was first; nothing was stored
    │   ├── SchemaError             an event does not fit its schema (also a ValueError)
    │   ├── StoreUnavailable        an outage outlasted the retry rules; nothing was recorded
    │   └── BlobIntegrityError      a blob's bytes are not those that were put
    ├── RunNotFinished              an open run cannot be erased
    ├── TenantMismatch              an event or run belongs to another tenant
    ├── CanonicalJsonError          a value has no canonical JSON (also a ValueError)
    ├── RunLimitExceeded            a limit of the run's policy is reached
    ├── RunCancelled                the run's cancel callback said stop
    └── ToolError                   a tool cannot be used
        └── ToolRegistrationError   a tool cannot be registered (also a ValueError)

The names and the tree are documented (ERR-01, DEC-16); ours end in `Error`.
"""

from __future__ import annotations


class TraceholdError(RuntimeError):
    """Root of all errors that Tracehold raises on purpose (DEC-16)."""


class ConfigurationError(TraceholdError, ValueError):
    """A setting or argument cannot be used; the message names it, what it got and what it accepts."""


class ExporterError(TraceholdError):
    """An exporter could not keep or hand over an event; the message names the exporter and the next step."""


class LLMError(TraceholdError):
    """A model call gave nothing usable."""


class LLMConfigError(LLMError):
    """A model client cannot be built: a missing package, credential or model name."""


class LLMRequestError(LLMError):
    """A provider refused a request or could not be reached (ERR-02).

    Attributes:
        provider: the vendor's name, such as "openai"; `None` when unknown.
        model: the model asked for; `None` when unknown.
        status_code: the HTTP status, or `None` when there was no answer.
        retryable: whether the same request may succeed later.
    """

    def __init__(
        self,
        message: str,
        *,
        provider: str | None = None,
        model: str | None = None,
        status_code: int | None = None,
        retryable: bool = False,
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.model = model
        self.status_code = status_code
        self.retryable = retryable


class LLMResponseError(LLMError):
    """A provider answered, but the reply is not what was asked for: no JSON, no valid tool call, nothing at all."""


class ContextWindowExceeded(LLMError):  # noqa: N818 - documented name (ERR-01)
    """What must be kept of the conversation alone is larger than its budget (HAR-82); nothing was cut."""


class RetrievalError(TraceholdError):
    """A search, an index or its synchronisation cannot do what was asked."""


class SessionError(TraceholdError):
    """A session, a checkpoint or the database behind them cannot be used; nothing was half-written."""


class GuardrailTripwireError(TraceholdError):
    """A guardrail stopped the run (GRD-12).

    Attributes:
        message: the guardrail's own words, `""` when it gave none.
        rule: the guardrail's name; `None` when unknown.
    """

    def __init__(self, message: str = "", *, rule: str | None = None) -> None:
        super().__init__(message or f"guardrail {rule or 'without a name'} blocked the text")
        self.message = message
        self.rule = rule


class CanonicalJsonError(TraceholdError, ValueError):
    """A value has no canonical JSON, and so no digest: NaN, a key that is no text, a lone surrogate, a cycle."""


class RunLimitExceeded(TraceholdError):  # noqa: N818 - documented name (ERR-01)
    """A limit of the run's policy is reached.

    Attributes:
        rule: the limit's name, such as "max_tool_calls"; `None` when unknown.
    """

    def __init__(self, message: str = "", *, rule: str | None = None) -> None:
        super().__init__(message)
        self.rule = rule


class RunCancelled(TraceholdError):  # noqa: N818 - documented name (ERR-01)
    """The run's cancel callback said stop (POL-08)."""


class ToolError(TraceholdError):
    """A tool cannot be used."""


class ToolRegistrationError(ToolError, ValueError):
    """A tool cannot be registered: its name is invalid or taken (REG-05)."""


class StoreError(TraceholdError):
    """An event store, or what stands beside it, cannot do what was asked."""


class ConcurrencyError(StoreError):
    """Another writer was first: the stream does not end where the caller expected; nothing was stored (STO-02)."""


class SchemaError(StoreError, ValueError):
    """An event does not fit its schema, or no way leads to its newest version (SCH-02)."""


class StoreUnavailable(StoreError):  # noqa: N818 - documented name (ENG-34)
    """An outage outlasted the retry rules; nothing was recorded."""


class BlobIntegrityError(StoreError):
    """A blob's bytes are not those that were put (BLB-01)."""


class RunNotFinished(TraceholdError):  # noqa: N818 - documented name (ERA-01)
    """An open run cannot be erased: end it first, or say `force=True`."""


class TenantMismatch(TraceholdError):  # noqa: N818 - documented name (DEC-06)
    """An event or run belongs to another tenant."""
