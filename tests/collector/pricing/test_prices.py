"""What a model call costs: each class of tokens priced once, unknown never free."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from genai_prices import Usage, calc_price
from genai_prices.data_snapshot import get_snapshot
from hypothesis import given
from hypothesis import strategies as st
from support.records import make_record
from tracehold.core.errors import ConfigurationError
from tracehold_collector.pricing import PriceBook, load_prices, price_records
from tracehold_collector.pricing.call import Call

AT = datetime(2026, 3, 1, tzinfo=UTC)
AT_NS = int(AT.timestamp()) * 1_000_000_000
BOOK = PriceBook()
counts = st.integers(0, 400_000)


def call(model: str, provider: str | None = None, **tokens: int) -> Call:
    given_tokens = {"input_tokens": 0, "output_tokens": 0, "cached_tokens": 0, "cache_write_tokens": 0}
    return Call(model, provider, AT_NS, **{**given_tokens, "reasoning_tokens": 0, **tokens})


def usd(book: PriceBook, *arguments: Any, **tokens: int) -> float | None:
    price = book.price(call(*arguments, **tokens))
    return None if price is None else price.usd


def user_book(folder: Path, text: str) -> PriceBook:
    path = folder / "prices.toml"
    path.write_text(text)
    return PriceBook([load_prices(path)])


@given(st.data(), counts, counts, counts, st.integers(0, 50_000))
def test_every_model_of_the_snapshot_costs_what_the_package_itself_computes(
    data: st.DataObject, plain: int, cached: int, written: int, output: int
) -> None:
    provider = data.draw(st.sampled_from(get_snapshot().providers))
    model = data.draw(st.sampled_from(provider.models))
    tokens = {"input_tokens": plain + cached + written, "output_tokens": output}
    usage = Usage(**tokens, cache_read_tokens=cached, cache_write_tokens=written)
    try:
        wanted = calc_price(usage, model.id, provider_id=provider.id, genai_request_timestamp=AT).total_price
    except LookupError:  # an id that the list's own rules do not match
        assert usd(BOOK, model.id, provider.id, **tokens) is None
        return
    found = usd(BOOK, model.id, provider.id, **tokens, cached_tokens=cached, cache_write_tokens=written)
    assert found == pytest.approx(float(wanted), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("model", ["claude-haiku-4-5-20251001", "claude-haiku-4-5-2025-10-01", "claude-haiku-4-5"])
def test_dated_ids_are_priced_as_their_family(model: str) -> None:  # FR-31
    assert usd(BOOK, model, "anthropic", input_tokens=1_000_000, output_tokens=100_000) == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("model", "provider"),
    [("invented-9", "anthropic"), ("invented-9", None), ("llama3", "ollama"), ("gpt-4o", "my own machine"), ("", None)],
)
def test_what_no_list_knows_has_no_price(model: str, provider: str | None) -> None:  # FR-31
    assert BOOK.price(call(model, provider, input_tokens=10)) is None


def test_both_ways_to_count_a_cache_cost_the_same_and_each_class_its_own_price() -> None:  # FR-29
    tokens = {"input_tokens": 130_213, "cached_tokens": 128_955, "cache_write_tokens": 1_253, "output_tokens": 0}
    cost = usd(BOOK, "claude-sonnet-4-5", "anthropic", **tokens)
    assert cost == pytest.approx((5 * 3 + 128_955 * 0.3 + 1_253 * 3.75) / 1e6)


@pytest.mark.parametrize(
    ("given_name", "known_name"),
    [("aws.bedrock", "aws"), ("gcp.gen_ai", "google"), ("gcp.vertex_ai", "google"), ("OpenAI", "openai")],
)
def test_providers_are_known_by_the_names_of_opentelemetry(given_name: str, known_name: str) -> None:
    model = {"aws": "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "google": "gemini-2.5-flash", "openai": "gpt-4o"}
    tokens = {"input_tokens": 1000, "output_tokens": 100}
    found = usd(BOOK, model[known_name], given_name, **tokens)
    assert found is not None
    assert found == usd(BOOK, model[known_name], known_name, **tokens)


def test_a_model_with_its_provider_in_front_is_taken_apart() -> None:
    assert usd(BOOK, "openai/gpt-4o", input_tokens=1000) == usd(BOOK, "gpt-4o", "openai", input_tokens=1000)


def test_a_users_own_price_comes_before_the_bundled_one(tmp_path: Path) -> None:
    book = user_book(tmp_path, '[[price]]\nmodel = "GPT-4o*"\nprovider = "openai"\ninput = 1.0\noutput = 2.0\n')
    price = book.price(call("gpt-4o-mini", "OpenAI", input_tokens=500_000, output_tokens=500_000))
    assert price is not None
    assert (price.usd, price.source) == (1.5, book.sources[0])
    assert usd(book, "gpt-4o-mini", "azure", input_tokens=1000) == usd(BOOK, "gpt-4o-mini", "azure", input_tokens=1000)


def test_classes_a_file_does_not_name_cost_what_their_whole_costs(tmp_path: Path) -> None:
    tokens = {"input_tokens": 10, "cached_tokens": 4, "cache_write_tokens": 3, "output_tokens": 10}
    plain = user_book(tmp_path, '[[price]]\nmodel = "m"\ninput = 1\noutput = 2\n')
    assert usd(plain, "m", **tokens, reasoning_tokens=5) == pytest.approx(30e-6)
    rest = "cached = 0.5\ncache_write = 1.25\nreasoning = 4\n"
    whole = user_book(tmp_path, f'[[price]]\nmodel = "m"\ninput = 1\noutput = 2\n{rest}')
    assert usd(whole, "m", **tokens, reasoning_tokens=5) == pytest.approx(
        (3 + 4 * 0.5 + 3 * 1.25 + 5 * 2 + 5 * 4) / 1e6
    )


def test_of_several_entries_the_one_that_began_last_counts(tmp_path: Path) -> None:
    entry = '[[price]]\nmodel = "m"\nsince = {}\ninput = {}\noutput = 0\n'
    book = user_book(
        tmp_path, entry.format("2026-01-01", 1) + entry.format("2026-03-02", 3) + entry.format("2026-02-01", 2)
    )
    assert usd(book, "m", input_tokens=1_000_000) == pytest.approx(2)
    assert usd(user_book(tmp_path, entry.format("2026-03-02", 3)), "m", input_tokens=1_000_000) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[price]]\nmodel = 'm'\ninput = 1\n", "price.0.output: Field required"),
        ("[[price]]\nmodel = 'm'\ninput = -1\noutput = 1\n", "price.0.input"),
        ("[[price]]\nmodel = 'm'\ninput = nan\noutput = 1\n", "price.0.input"),
        ("[[price]]\nmodel = 'm'\ninput = 1\noutput = 1\ncashed = 1\n", "price.0.cashed"),
        ("[[price]\n", "is no TOML"),
        ("\udcff", "is no TOML"),
    ],
)
def test_a_price_file_that_cannot_be_meant_is_refused_with_the_place(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "prices.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigurationError, match=r"prices\.toml") as caught:
        load_prices(path)
    assert says in str(caught.value)


def test_a_price_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read the price file .*nothing"):
        load_prices(tmp_path / "nothing.toml")


def priced(**fields: Any) -> Any:
    record = make_record(0, **({"cost_usd": None, "model": "gpt-4o", "provider": "openai"} | fields))
    price_records([record], BOOK, AT_NS)
    return record


def test_a_call_without_a_cost_gets_one_and_says_from_where() -> None:
    record = priced(input_tokens=1_000_000, output_tokens=0)
    assert (record.cost_usd, record.price_source) == (pytest.approx(2.5), BOOK.sources[-1])


def test_a_recorded_cost_stands_and_the_computed_one_is_kept_beside_it() -> None:
    record = priced(cost_usd=9.0, price_source="recorded", input_tokens=1_000_000, output_tokens=0, attributes={"a": 1})
    assert (record.cost_usd, record.price_source) == (9.0, "recorded")
    assert record.attributes == {"a": 1, "computed_usd": pytest.approx(2.5), "computed_by": BOOK.sources[-1]}


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "started"},
        {"model": None},
        {"input_tokens": None},
        {"output_tokens": None},
    ],
)
def test_only_what_has_ended_and_tells_its_model_and_its_usage_is_priced(fields: dict[str, Any]) -> None:  # FR-27
    assert priced(**fields).cost_usd is None


def test_an_agents_usage_is_priced_by_the_model_it_names() -> None:  # FR-27
    assert priced(kind="agent", input_tokens=1_000_000, output_tokens=0).cost_usd == pytest.approx(2.5)
    assert priced(kind="agent", model=None).cost_usd is None


def test_embeddings_have_no_output_to_be_unknown() -> None:
    record = priced(model="text-embedding-3-small", type="embeddings", output_tokens=None, input_tokens=1_000_000)
    assert record.cost_usd == pytest.approx(0.02)


@given(counts, counts, counts, counts, counts)
def test_no_count_of_tokens_gives_a_negative_price(a: int, b: int, c: int, d: int, e: int) -> None:
    for model, provider in (("gpt-4o", "openai"), ("gemini-2.5-pro", "google"), ("claude-haiku-4-5", "anthropic")):
        price = BOOK.price(Call(model, provider, AT_NS, a, b, c, d, e))
        assert price is None or price.usd >= 0
