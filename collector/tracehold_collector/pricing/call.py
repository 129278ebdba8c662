"""What a price is asked for and what it is."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

NS_PER_S: Final = 1_000_000_000


class Call(NamedTuple):
    """One model call, as a `Record` tells of it.

    Attributes:
        model, provider: the source's words; the provider may be unknown.
        at_ns: when it started, UTC nanoseconds since the epoch.
        input_tokens: all input; `cached_tokens` and `cache_write_tokens` are parts of it.
        output_tokens: all output; `reasoning_tokens` is a part of it.
        input_audio_tokens, output_audio_tokens: parts of input and output; `cached_audio_tokens` of the cached ones.
        tier: the service tier the provider served it at, in lower case; `None` is the standard one.
    """

    model: str
    provider: str | None
    at_ns: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    input_audio_tokens: int = 0
    output_audio_tokens: int = 0
    cached_audio_tokens: int = 0
    tier: str | None = None

    @property
    def plain_input_tokens(self) -> int:
        """The input that no cache had a part in; never negative, whatever the source counted."""
        return max(0, self.input_tokens - self.cached_tokens - self.cache_write_tokens)

    @property
    def has_audio(self) -> bool:
        """Whether a part of it is counted as audio."""
        return bool(self.input_audio_tokens or self.output_audio_tokens)


class Rates(NamedTuple):
    """USD a token, each class priced once; and what a call costs whatever its size."""

    input: float
    cached: float
    cache_write: float
    output: float
    reasoning: float
    call: float = 0.0
    input_audio: float = 0.0
    output_audio: float = 0.0

    def cost(self, call: Call) -> float:
        """Return what the call costs, in USD."""
        plain_input = call.plain_input_tokens
        plain_output = max(0, call.output_tokens - call.reasoning_tokens)
        usd = (
            self.call
            + plain_input * self.input
            + call.cached_tokens * self.cached
            + call.cache_write_tokens * self.cache_write
            + plain_output * self.output
            + call.reasoning_tokens * self.reasoning
        )
        if call.has_audio:
            # What is audio is no text: the difference, so that nothing is priced twice.
            heard = min(plain_input, max(0, call.input_audio_tokens - call.cached_audio_tokens))
            spoken = min(plain_output, call.output_audio_tokens)
            usd += heard * (self.input_audio - self.input) + spoken * (self.output_audio - self.output)
        return usd


STANDARD_TIERS: Final = frozenset({None, "default", "standard", "auto", "on_demand"})
"""Tiers that cost what a price list says without more. Batch, flex, priority and any other cost something else."""


class Price(NamedTuple):
    """What a call costs, in USD, and which price list says so."""

    usd: float
    source: str


class PriceList(Protocol):
    """One source of prices.

    Attributes:
        source: its name and version, as it stands beside each cost it gave.
    """

    source: str

    def cost(self, call: Call) -> float | None:
        """Return what the call costs in USD, or `None` when this list does not know its model."""
