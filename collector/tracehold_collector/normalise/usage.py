"""Token counts and costs: what is a number, and how differing ways to count become one (DEC-13, FR-29)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_MAX_COUNT: Final = 2**53
"""Far beyond any real count, and exact in a double."""

_MAX_TOKENS: Final = 10**12
"""No call has more. Sums stay in 64 bits over nine million calls of a sender that claims them."""

_MAX_COST_USD: Final = 1e6
"""No call costs more."""


@dataclass(slots=True)
class Usage:
    """Tokens of one model call. Unknown is `None`.

    Attributes:
        input_tokens: all input; `cached_tokens` and `cache_write_tokens` are parts of it once `settled`.
        output_tokens: all output; `reasoning_tokens` is a part of it once `settled`.
        input_audio_tokens, output_audio_tokens: parts of input and output.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    input_audio_tokens: int | None = None
    output_audio_tokens: int | None = None


def count(value: object) -> int | None:
    """Return a token count, or `None` for what is not a finite, whole, non-negative number (DEC-13).

    A number written as text counts: OTLP's JSON writes integers so.
    """
    if type(value) is int:
        return value if 0 <= value <= _MAX_COUNT else None
    number = money(value)
    return int(number) if number is not None and number <= _MAX_COUNT and number == int(number) else None


def tokens(value: object) -> int | None:
    """Return a number of tokens, or `None` for what is no credible one (DEC-13)."""
    number = count(value)
    return number if number is not None and number <= _MAX_TOKENS else None


def credible_cost(value: object) -> float | None:
    """Return a credible cost of one call in USD, or `None` (DEC-13): one absurd claim must not blind every sum."""
    number = money(value)
    return number if number is not None and number <= _MAX_COST_USD else None


def money(value: object) -> float | None:
    """Return a number, or `None` for what is not a finite, non-negative one (DEC-13)."""
    if isinstance(value, str) and len(value) <= 40:  # noqa: PLR2004 - longer than any number worth reading
        try:
            number = float(value)
        except ValueError:
            return None
    elif type(value) is float or type(value) is int:
        try:
            number = float(value)
        except OverflowError:
            return None
    else:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def settled(usage: Usage, *, total: int | None = None, cache_apart: bool = False) -> Usage:
    """Return `usage` with cache tokens inside the input and reasoning tokens inside the output (FR-29).

    Sources differ in whether a part is inside its whole. What decides, in this order: a part that is larger
    than its whole cannot be inside; the source's own total; else the conventions' rule that parts are inside.

    Args:
        usage: as the source counted.
        total: the source's own total, if it gave one.
        cache_apart: the source is known to count cache tokens beside the input (Anthropic's own form).
    """
    cache = (usage.cached_tokens or 0) + (usage.cache_write_tokens or 0)
    reasoning = usage.reasoning_tokens or 0
    if not cache and not reasoning:
        return usage
    plain = (usage.input_tokens or 0) + (usage.output_tokens or 0)
    beside = total - plain if total is not None else 0
    both = beside == cache + reasoning
    if usage.input_tokens is not None and cache:
        outside = cache > usage.input_tokens or cache_apart or both or beside == cache
        usage.input_tokens += cache if outside else 0
    if usage.output_tokens is not None and reasoning:
        outside = reasoning > usage.output_tokens or both or beside == reasoning
        usage.output_tokens += reasoning if outside else 0
    return usage


_INPUT: Final = ("prompt_tokens", "input_tokens")
_OUTPUT: Final = ("completion_tokens", "output_tokens")
_CACHED: Final = ("cached_tokens", "cache_read_input_tokens", "cache_read_tokens", "cached_input_tokens")
_CACHE_WRITE: Final = ("cache_write_tokens", "cache_creation_input_tokens", "cache_creation_tokens")
_REASONING: Final = ("reasoning_tokens", "reasoning_output_tokens")
_DETAILS: Final = (
    "prompt_tokens_details",
    "completion_tokens_details",
    "input_tokens_details",
    "output_tokens_details",
)
_AUDIO: Final = "audio_tokens"
_ANTHROPIC: Final = ("cache_read_input_tokens", "cache_creation_input_tokens")
KNOWN_USAGE_KEYS: Final = frozenset(
    (*_INPUT, *_OUTPUT, *_CACHED, *_CACHE_WRITE, *_REASONING, *_DETAILS, _AUDIO, "total_tokens")
)


def read_usage(raw: Mapping[str, Any]) -> tuple[Usage, bool]:
    """Return the usage a client library reported, and whether all of it could be read.

    Args:
        raw: OpenAI's or Anthropic's usage object, or our own; unknown keys are left to the content.
    """
    flat: dict[str, Any] = dict(raw)
    for key in _DETAILS:
        details = raw.get(key)
        if isinstance(details, Mapping):
            for name, value in details.items():
                flat.setdefault(name, value)
    usage = Usage(*(_first(flat, keys) for keys in (_INPUT, _OUTPUT, _CACHED, _CACHE_WRITE, _REASONING)))
    usage.input_audio_tokens = _audio(raw, "prompt", "input")
    usage.output_audio_tokens = _audio(raw, "completion", "output")
    # Beside the details, nothing says whose audio it is.
    clean = _AUDIO not in raw and all(_readable(key, value) for key, value in flat.items())
    apart = "prompt_tokens" not in raw and any(key in raw for key in _ANTHROPIC)
    return settled(usage, total=tokens(raw.get("total_tokens")), cache_apart=apart), clean


def _audio(raw: Mapping[str, Any], *sides: str) -> int | None:
    for side in sides:
        details = raw.get(f"{side}_tokens_details")
        if isinstance(details, Mapping) and (number := tokens(details.get(_AUDIO))) is not None:
            return number
    return None


def _readable(key: str, value: object) -> bool:
    return key in KNOWN_USAGE_KEYS and (key in _DETAILS or value is None or tokens(value) is not None)


def _first(flat: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    for key in keys:
        number = tokens(flat.get(key))
        if number is not None:
            return number
    return None
