"""Audio, reasoning and service tiers: each class priced once, and a tier without a price is no guess."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.records import make_record
from support.spans import read_span
from tracehold.core.errors import ConfigurationError
from tracehold_collector.core.record import Record
from tracehold_collector.pricing import PriceBook, load_prices, price_records
from tracehold_collector.pricing.call import Call

BOOK = PriceBook()
AT_NS = 1_780_000_000_000_000_000
M = 1_000_000


def usd(model: str, provider: str | None = "openai", book: PriceBook = BOOK, **said: Any) -> float | None:
    counts = {"input_tokens": 0, "output_tokens": 0, "cached_tokens": 0, "cache_write_tokens": 0, "reasoning_tokens": 0}
    price = book.price(Call(model, provider, AT_NS, **(counts | said)))
    return None if price is None else price.usd


def user_book(folder: Path, text: str) -> PriceBook:
    path = folder / "prices.toml"
    path.write_text(text)
    return PriceBook([load_prices(path)])


def test_audio_costs_its_own_price_and_the_rest_of_the_input_its_own() -> None:
    # gpt-realtime: text 4 in, 16 out; audio 32 in, 64 out; USD per million
    assert usd("gpt-realtime", input_tokens=M, input_audio_tokens=M // 4) == pytest.approx(0.75 * 4 + 0.25 * 32)
    assert usd("gpt-realtime", output_tokens=M, output_audio_tokens=M // 2) == pytest.approx(0.5 * 16 + 0.5 * 64)


def test_cached_audio_is_priced_as_cached_audio_only() -> None:
    # gpt-realtime-mini: audio 10 in, cached audio 0.3, text 0.6, cached text 0.06
    cost = usd(
        "gpt-realtime-mini", input_tokens=M, input_audio_tokens=M, cached_tokens=M // 2, cached_audio_tokens=M // 2
    )
    assert cost == pytest.approx(0.5 * 10 + 0.5 * 0.3)


def test_more_audio_than_input_is_held_to_the_input() -> None:
    assert usd("gpt-realtime", input_tokens=M, input_audio_tokens=9 * M) == pytest.approx(32)


def test_a_model_with_one_price_for_all_costs_that() -> None:
    assert usd("gpt-4o", input_tokens=M, input_audio_tokens=M) == usd("gpt-4o", input_tokens=M)


def test_reasoning_with_a_price_of_its_own_is_priced_once() -> None:
    # sonar-deep-research: 8 out, reasoning 3
    cost = usd("sonar-deep-research", "perplexity", output_tokens=M, reasoning_tokens=M // 4)
    assert cost == pytest.approx(0.75 * 8 + 0.25 * 3)


@pytest.mark.parametrize("tier", [None, "default", "standard", "auto"])
def test_the_standard_tier_costs_what_the_list_says(tier: str | None) -> None:
    assert usd("gpt-4o", input_tokens=M, tier=tier) == pytest.approx(2.5)


@pytest.mark.parametrize("tier", ["batch", "flex", "priority", "scale", "new"])
def test_another_tier_has_no_price_until_somebody_gives_it_one(tier: str, tmp_path: Path) -> None:
    # FR-31
    assert usd("gpt-4o", input_tokens=M, tier=tier) is None
    book = user_book(
        tmp_path,
        f'[[price]]\nmodel = "gpt-4o"\ntier = "{tier.upper()}"\ninput = 1.25\noutput = 5\n'
        '[[price]]\nmodel = "gpt-4o"\ninput = 7\noutput = 7\n',
    )
    assert usd("gpt-4o", book=book, input_tokens=M, tier=tier) == pytest.approx(1.25)
    assert usd("gpt-4o", book=book, input_tokens=M) == pytest.approx(7)


def test_a_price_file_says_what_audio_costs(tmp_path: Path) -> None:
    book = user_book(
        tmp_path,
        '[[price]]\nmodel = "voice"\ninput = 1\noutput = 2\ninput_audio = 10\noutput_audio = 20\ncached = 0.5\n',
    )
    cost = usd(
        "voice", book=book, input_tokens=M, cached_tokens=M // 10, input_audio_tokens=M // 2,
        output_tokens=M, output_audio_tokens=M // 4,
    )  # fmt: skip
    assert cost == pytest.approx(0.4 * 1 + 0.1 * 0.5 + 0.5 * 10 + 0.75 * 2 + 0.25 * 20)


def test_a_tier_that_is_no_word_is_refused_with_its_entry(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"price\.0\.tier"):
        user_book(tmp_path, '[[price]]\nmodel = "x"\ntier = 5\ninput = 1\noutput = 1\n')


def test_a_spans_tier_and_audio_reach_its_price_and_stay_with_it() -> None:
    chat = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-realtime"}
    usage = {"gen_ai.usage.input_tokens": M, "gen_ai.usage.output_tokens": 0, "gen_ai.usage.audio.input_tokens": M}
    heard = read_span(chat | usage)
    batch = read_span(chat | usage | {"openai.response.service_tier": "batch"})
    price_records([heard, batch], BOOK, AT_NS)
    assert heard.cost_usd == pytest.approx(32)
    assert batch.cost_usd is None
    assert batch.attributes == {"input_audio_tokens": M, "service_tier": "batch"}


@pytest.mark.parametrize("provider", ["strands-agents", "gcp.vertex.agent", "aws.bedrock", None])
def test_a_model_is_priced_where_a_framework_calls_itself_the_provider(provider: str | None) -> None:
    model = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
    assert usd(model, provider, input_tokens=M) == usd(model, "aws", input_tokens=M) is not None


@pytest.mark.parametrize("by", ["recorded", None])
def test_both_figures_stand_side_by_side_with_their_sources(by: str | None) -> None:
    record: Record = make_record(
        model="gpt-4o", provider="openai", input_tokens=M, output_tokens=0, started_at=AT_NS,
        cost_usd=9.0 if by else None, price_source=by,
    )  # fmt: skip
    price_records([record], BOOK, AT_NS)
    if by:
        assert (record.cost_usd, record.price_source) == (9.0, "recorded")
        assert record.attributes == {"computed_usd": pytest.approx(2.5), "computed_by": BOOK.sources[-1]}
    else:
        assert (record.cost_usd, record.price_source) == (pytest.approx(2.5), BOOK.sources[-1])


counts = st.integers(0, 10**6)


@given(counts, counts, counts, counts, counts, counts)
def test_audio_never_makes_a_price_negative_nor_counts_a_token_twice(
    given_tokens: int, made: int, cached: int, heard: int, spoken: int, cached_audio: int
) -> None:
    cost = usd(
        "gpt-realtime", input_tokens=given_tokens, output_tokens=made, cached_tokens=min(cached, given_tokens),
        input_audio_tokens=heard, output_audio_tokens=spoken, cached_audio_tokens=cached_audio,
    )  # fmt: skip
    assert cost is None or 0 <= cost <= (given_tokens * 32 + made * 64) / M + 1e-9
