"""A user's own prices: negotiated ones, models of their own, models that came out since the snapshot."""

from __future__ import annotations

import hashlib
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from tracehold_collector.core.toml_files import parse_toml, read_file
from tracehold_collector.pricing.call import NS_PER_S, STANDARD_TIERS, Call, Rates

_MILLION: Final = 1_000_000
_DIGEST_CHARS: Final = 12

Usd = Field(ge=0, le=1e6, allow_inf_nan=False)


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(min_length=1)
    provider: str | None = None
    tier: str | None = None
    since: date | None = None
    input: float = Usd
    cached: float | None = Field(None, ge=0, le=1e6, allow_inf_nan=False)
    cache_write: float | None = Field(None, ge=0, le=1e6, allow_inf_nan=False)
    output: float = Usd
    reasoning: float | None = Field(None, ge=0, le=1e6, allow_inf_nan=False)
    input_audio: float | None = Field(None, ge=0, le=1e6, allow_inf_nan=False)
    output_audio: float | None = Field(None, ge=0, le=1e6, allow_inf_nan=False)

    def rates(self) -> Rates:
        """What is not said costs what its whole costs."""
        cached = self.input if self.cached is None else self.cached
        cache_write = self.input if self.cache_write is None else self.cache_write
        reasoning = self.output if self.reasoning is None else self.reasoning
        heard = self.input if self.input_audio is None else self.input_audio
        spoken = self.output if self.output_audio is None else self.output_audio
        usd = (self.input, cached, cache_write, self.output, reasoning, 0.0, heard, spoken)
        return Rates(*[value / _MILLION for value in usd])


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    price: list[_Entry]


class UserPrices:
    """Prices of a file: of the entries whose globs fit a call, the one that has begun last; of equals, the first."""

    def __init__(self, source: str, entries: list[_Entry]) -> None:
        self.source = source
        by_start = sorted(entries, key=lambda entry: entry.since or date.min, reverse=True)
        self._entries = [
            (
                entry.model.lower(),
                (entry.provider or "*").lower(),
                None if entry.tier is None else entry.tier.lower(),
                _ns(entry.since),
                entry.rates(),
            )
            for entry in by_start
        ]

    def cost(self, call: Call) -> float | None:
        """Return what the call costs in USD, or `None` when no entry fits."""
        model, provider = call.model.lower(), (call.provider or "").lower()
        for model_glob, provider_glob, tier, since, rates in self._entries:
            # Without a tier, the standard price is meant: half of it, or twice, is no guess for us to make.
            fits = call.tier in STANDARD_TIERS if tier is None else fnmatchcase(call.tier or "standard", tier)
            if fits and call.at_ns >= since and fnmatchcase(model, model_glob) and fnmatchcase(provider, provider_glob):
                return rates.cost(call)
        return None


def load_prices(path: Path) -> UserPrices:
    """Read a price file (TOML): tables `[[price]]` in USD per million tokens.

    Keys: `model` and `provider` (globs, without case), `tier` (a glob over the service tier such as "batch"; without
    it, the standard one), `since` (a day, UTC), `input`, `output`, and where they differ from these `cached`,
    `cache_write`, `reasoning`, `input_audio` and `output_audio`.

    Raises:
        ConfigurationError: it cannot be read; says which entry and what is wrong with it.
    """
    raw = read_file(path, "the price file")
    file = parse_toml(raw, path, _File, "the price file")
    digest = hashlib.sha256(raw).hexdigest()[:_DIGEST_CHARS]
    return UserPrices(f"file {digest}", file.price)


def _ns(day: date | None) -> int:
    if day is None:
        return -(2**63)
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * NS_PER_S
