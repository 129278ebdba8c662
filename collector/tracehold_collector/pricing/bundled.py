"""The providers' prices as the package genai-prices bundles them: a dated snapshot, never fetched at run time."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from genai_prices import Usage, __version__
from genai_prices.data_snapshot import DataSnapshot, get_snapshot
from genai_prices.types import ModelInfo, ModelPrice, TieredPrices

from tracehold_collector.pricing.call import NS_PER_S, STANDARD_TIERS, Call, Rates

_MILLION: Final = 1_000_000
_REMEMBERED: Final = 4096

_PROVIDERS: Final = {
    "azure.ai.openai": "azure",
    "azure.ai.inference": "azure",
    "azure_openai": "azure",
    "gcp.gen_ai": "google",
    "x_ai": "x-ai",
}
"""Providers as OpenTelemetry names them, where the package does not know the name or takes it for another."""

_FRAMEWORKS: Final = frozenset(
    {"strands-agents", "gcp.vertex.agent", "autogen", "microsoft.agent_framework", "microsoft.agents.ai", "langchain"}
)
"""What some frameworks write in the provider's place: their own name. The model's name has to do."""

_BEDROCK_ID: Final = re.compile(r"(?:[a-z]{2,6}(?:-gov)?\.)?(?:ai21|amazon|anthropic|cohere|deepseek|meta|mistral)\.")
"""How the model ids of AWS Bedrock begin, which no other provider uses: with a region, if any, and the maker."""


class BundledPrices:
    """Prices by provider, model and the day of the call; dated model ids are priced as their family (FR-31).

    Without a provider, a model that only one provider's list claims is priced by that; "provider/model" is taken
    apart. A provider that the package does not know is not guessed at: a model that somebody runs on a machine of
    his own costs something else.
    """

    def __init__(self) -> None:
        self.source = f"genai-prices {__version__}"
        self._snapshot: DataSnapshot = get_snapshot()
        self._models: dict[tuple[str | None, str], ModelInfo | None] = {}
        # The package computes in decimals, 80 us a call. Nearly all prices are so much a token: those are asked once.
        self._rates: dict[int, Rates | None] = {}

    def cost(self, call: Call) -> float | None:
        """Return what the call costs in USD, or `None` for a model that is not in the snapshot.

        It lists the standard tier only: a batch call at its price would be a wrong figure, and an unknown one is none.
        """
        if call.tier not in STANDARD_TIERS:
            return None
        model = self._model(call.provider, call.model)
        if model is None:
            return None
        price = model.prices
        if not isinstance(price, ModelPrice):
            price = model.get_prices(datetime.fromtimestamp(call.at_ns / NS_PER_S, UTC))
        key = id(price)
        if call.has_audio:
            return _exactly(price, call)
        if key not in self._rates:
            self._rates[key] = _linear(price)
        rates = self._rates[key]
        return rates.cost(call) if rates is not None else _exactly(price, call)

    def _model(self, provider: str | None, model: str) -> ModelInfo | None:
        key = (provider, model)
        if key not in self._models:
            if len(self._models) >= _REMEMBERED:  # model names come from senders
                self._models.clear()
            self._models[key] = self._look_up(provider, model)
        return self._models[key]

    def _look_up(self, provider: str | None, model: str) -> ModelInfo | None:
        if provider is not None:
            provider = _PROVIDERS.get(provider.lower(), provider)
            provider = None if provider.lower() in _FRAMEWORKS else provider
        if provider is None and _BEDROCK_ID.match(model):
            provider = "aws"
        found = self._find(provider, model)
        if found is None and provider is None and "/" in model:
            found = self._find(*model.split("/", 1))
        return found

    def _find(self, provider: str | None, model: str) -> ModelInfo | None:
        try:
            return self._snapshot.find_provider_model(model, None, provider, None)[1]
        except LookupError:
            return None


def _linear(price: ModelPrice) -> Rates | None:
    """Return the price as so much a token, or `None` where it depends on how many there are, or on what is unknown."""
    if any(isinstance(value, TieredPrices) for value in vars(price).values()):
        return None
    try:
        a_call = _usd(price, input_tokens=0, output_tokens=0)
        given = [
            _usd(price, input_tokens=_MILLION, output_tokens=0),
            _usd(price, input_tokens=_MILLION, output_tokens=0, cache_read_tokens=_MILLION),
            _usd(price, input_tokens=_MILLION, output_tokens=0, cache_write_tokens=_MILLION),
            _usd(price, input_tokens=0, output_tokens=_MILLION),
            _usd(price, input_tokens=0, output_tokens=_MILLION, output_reasoning_tokens=_MILLION),
        ]
    except (ValueError, ArithmeticError):
        return None
    plain, cached, cache_write, output, reasoning = [(usd - a_call) / _MILLION for usd in given]
    return Rates(plain, cached, cache_write, output, reasoning, call=a_call)


def _exactly(price: ModelPrice, call: Call) -> float | None:
    try:
        return _usd(
            price,
            input_tokens=max(call.input_tokens, call.cached_tokens + call.cache_write_tokens),
            output_tokens=max(call.output_tokens, call.reasoning_tokens),
            cache_read_tokens=call.cached_tokens,
            cache_write_tokens=call.cache_write_tokens,
            output_reasoning_tokens=call.reasoning_tokens,
            **_audio(call),
        )
    except (ValueError, ArithmeticError):
        return None


def _audio(call: Call) -> dict[str, int]:
    if not call.has_audio:
        return {}
    return {
        "input_audio_tokens": min(call.input_audio_tokens, call.input_tokens),
        "output_audio_tokens": min(call.output_audio_tokens, call.output_tokens),
        "cache_audio_read_tokens": min(call.cached_audio_tokens, call.cached_tokens),
    }


def _usd(price: ModelPrice, **tokens: int) -> float:
    calculated: dict[str, Any] = dict(price.calc_price(Usage(**tokens)))
    total: Decimal = calculated["total_price"]
    return float(total)
