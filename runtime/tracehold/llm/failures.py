"""What goes wrong in a model call, told in our errors and without a word of the request (ERR-02).

A provider's message may quote the prompt or part of the key, and an SDK's exception carries the whole answer. So our
text is made of the status, the error's short code and a next step. The SDK's exception stays reachable as
`__context__`; it is suppressed, so that no traceback prints it.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, Final

from tracehold.core.errors import LLMConfigError, LLMError, LLMRequestError, LLMResponseError

_CODE: Final = re.compile(r"[A-Za-z_]{2,48}")
"""A word without digits: wide enough for every documented error code, too narrow for a key or a sentence."""
_PARAMETER: Final = re.compile(r"[a-z_]{1,32}(\.[a-z_]{1,32}|\[\d{1,4}\]){0,6}")
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9_-]{8,64}")

_RETRYABLE: Final = frozenset({408, 409, 425, 429})
_FINAL_CODES: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
"""Codes of a 429 that waiting does not cure."""

_STATUS_OF_TYPE: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""Status by error type, for an error that arrives inside a stream that began with 200
(https://platform.claude.com/docs/en/api/errors)."""

_NEXT_STEP: Final = {
    400: "the request is not valid for this model",
    401: "check the API key",
    402: "check the account's billing",
    403: "the key may not use this model",
    404: "check the model's name and base_url",
    413: "send less",
    422: "the request is not valid for this model",
    429: "slow down, or raise the quota",
}
_UNREADABLE: Final = (json.JSONDecodeError, UnicodeDecodeError, RecursionError)
_TRANSPORTS: Final = frozenset({"httpx", "httpx2", "httpcore", "httpcore2"})
_OK: Final = 200
_CLIENT_ERROR: Final = 400
_SERVER_ERROR: Final = 500
_LAST_STATUS: Final = 599


class Failures:
    """Turns the exceptions of one SDK into ours.

    Args:
        sdk: the SDK's module, which has `APIError` and its subclasses.
        provider: the vendor's name in our errors.
        model: the model asked for.
    """

    def __init__(self, sdk: ModuleType, provider: str, model: str) -> None:
        self._sdk: Any = sdk
        self._provider = provider
        self._model = model

    @contextlib.contextmanager
    def mapped(self) -> Iterator[None]:
        """Raise our error for what the SDK or its HTTP client raises inside; anything else passes."""
        try:
            yield
        except LLMError:
            raise
        except Exception as error:
            ours = self._translate(error)
            if ours is None:
                raise
            raise ours from None

    def cut_off(self) -> LLMRequestError:
        """Return the error for a stream that ended before the reply did."""
        return self._request_error("closed the stream before the reply was complete", retryable=True)

    def unusable(self, what: str) -> LLMResponseError:
        """Return the error for an answer that is no reply; `what` says in which way."""
        return LLMResponseError(f"{self._provider} answered for model {self._model!r}, but {what}")

    def told_in_answer(self, error: Mapping[str, Any]) -> LLMRequestError:
        """Return the error that an answer with status 200 holds instead of a reply."""
        return self._refusal(_http_status(error.get("code")), error, None)

    def _translate(self, error: Exception) -> LLMError | None:
        sdk = self._sdk
        if isinstance(error, (*_UNREADABLE, sdk.APIResponseValidationError)):
            return self.unusable("not with JSON of its format; check base_url and what stands before the server")
        if isinstance(error, sdk.APITimeoutError) or _is_transport(error, "TimeoutException"):
            return self._request_error("did not answer in time; raise timeout or try again", retryable=True)
        if isinstance(error, sdk.APIConnectionError) or _is_transport(error, "TransportError"):
            return self._request_error("could not be reached, or broke the connection; check base_url", retryable=True)
        if isinstance(error, sdk.APIError):
            return self._refusal(getattr(error, "status_code", None), _details(error), _request_id(error))
        if isinstance(error, getattr(sdk, "OpenAIError", ()) or getattr(sdk, "AnthropicError", ())):
            return LLMConfigError(f"the SDK cannot call {self._provider} ({type(error).__name__}): check the key")
        if type(error).__module__.partition(".")[0] in _TRANSPORTS:
            return self._request_error(f"gave no usable answer ({type(error).__name__})", retryable=False)
        return None

    def _refusal(self, status: int | None, details: Mapping[str, Any], request_id: str | None) -> LLMRequestError:
        kind, code = _word(details.get("type")), _word(details.get("code"))
        if status in {None, _OK}:
            # An error inside a stream: the HTTP status was spent on the stream's start.
            status = _STATUS_OF_TYPE.get(kind or "")
        facts = [f"HTTP {status}" if status else "", code or kind or "", _parameter(details.get("param"))]
        facts.append(f"request {request_id}" if request_id else "")
        step = _NEXT_STEP.get(status or 0, "try again later" if status is None or status >= _SERVER_ERROR else "")
        text = f"refused the request ({', '.join(filter(None, facts))})" + (f": {step}" if step else "")
        retryable = status is None or status in _RETRYABLE or status >= _SERVER_ERROR
        return self._request_error(text, status=status, retryable=retryable and code not in _FINAL_CODES)

    def _request_error(self, text: str, *, status: int | None = None, retryable: bool) -> LLMRequestError:
        return LLMRequestError(
            f"{self._provider}, asked for model {self._model!r}, {text}",
            provider=self._provider,
            model=self._model,
            status_code=status,
            retryable=retryable,
        )


def _is_transport(error: Exception, base: str) -> bool:
    """Whether an HTTP client that the SDK let through raised this: SDK versions differ in which one they carry."""
    return any(
        kind.__name__ == base and kind.__module__.partition(".")[0] in _TRANSPORTS for kind in type(error).__mro__
    )


def _details(error: Exception) -> Mapping[str, Any]:
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else None
    return inner if isinstance(inner, dict) else {}


def _request_id(error: Exception) -> str | None:
    value = getattr(error, "request_id", None)
    return value if isinstance(value, str) and _REQUEST_ID.fullmatch(value) else None


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and _CODE.fullmatch(value) else None


def _parameter(value: object) -> str:
    return f"parameter {value}" if isinstance(value, str) and _PARAMETER.fullmatch(value) else ""


def _http_status(value: object) -> int | None:
    return value if type(value) is int and _CLIENT_ERROR <= value <= _LAST_STATUS else None
