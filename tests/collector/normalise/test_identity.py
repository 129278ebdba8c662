"""Names, pseudonyms, ids and times."""

from __future__ import annotations

import pytest
from tracehold_collector.core.names import fit_name, is_id
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.normalise.context import NormaliseContext
from tracehold_collector.normalise.ids import digest_id, read_event_id, read_span_id, read_trace_id
from tracehold_collector.normalise.times import read_rfc3339


@pytest.mark.parametrize(
    "name",
    [
        "chat gpt-4o",
        "execute_tool get_weather",
        "GET /secret/{path_param}",
        "Responses API with {gen_ai.request.model!r}",
        "I'm a server span",
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "поиск",
        "天気",
    ],
)
def test_what_programs_call_things_is_a_name(name: str, context: NormaliseContext) -> None:
    assert context.name(name) == name


@pytest.mark.parametrize(
    "text", ["", "a\nb", "a\x00b", "x" * 129, "one two three four five six seven eight nine", 'say "hi"', "who?", " x"]
)
def test_what_could_be_somebodys_words_is_none(text: str, context: NormaliseContext) -> None:
    assert context.name(text) is None


def test_a_name_is_masked_and_stays_a_name(context: NormaliseContext) -> None:
    key = "sk-" + "proj-" + "aB3dE6gH9jK2mN5pQ8sT1vW4xY7z"
    found = fit_name(context.cleaner, f"fetch {key}", 128)
    assert found is not None
    assert found.startswith("fetch [REDACTED")


def test_a_pseudonym_is_stable_keyed_and_bound_to_its_tenant() -> None:
    acme = Pseudonyms(b"k" * 16, "acme")
    assert acme.user("ann") == Pseudonyms(b"k" * 16, "acme").user("ann")
    assert acme.user("ann").startswith("u_")
    assert len(acme.session("ann")) == 18
    others = {
        Pseudonyms(b"j" * 16, "acme").user("ann"),
        Pseudonyms(b"k" * 16, "globex").user("ann"),
        acme.user("bob"),
        "u_" + acme.session("ann")[2:],
    }
    assert acme.user("ann") not in others
    assert len(others) == 4


def test_tenant_and_text_cannot_be_cut_differently_into_one_pseudonym() -> None:
    assert Pseudonyms(b"k" * 16, "a").user("bc") != Pseudonyms(b"k" * 16, "ab").user("c")
    assert digest_id("a", "bc") != digest_id("ab", "c")
    assert digest_id("a", "b", "c") != digest_id("a", "bc")


def test_a_short_key_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 16 bytes; got 3"):
        Pseudonyms(b"abc", "acme")


def test_pseudonyms_stay_right_beyond_their_memo() -> None:
    pseudonyms = Pseudonyms(b"k" * 16, "acme")
    first = [pseudonyms.user(str(n)) for n in range(5000)]
    assert first == [pseudonyms.user(str(n)) for n in range(5000)]


@pytest.mark.parametrize("value", [None, 7, "", "xyz", "0" * 32, "a" * 31, "\uff41" * 32])
def test_what_is_no_trace_id_is_none(value: object) -> None:
    assert read_trace_id(value) is None
    assert read_span_id(value) is None


def test_an_event_id_is_hex_or_a_uuid_in_any_case() -> None:
    expected = bytes.fromhex("0190a1b2c3d4e5f60718293a4b5c6d7e")
    assert read_event_id("0190A1B2C3D4E5F60718293A4B5C6D7E") == expected
    assert read_event_id("0190a1b2-c3d4-e5f6-0718-293a4b5c6d7e") == expected
    assert read_event_id("0190a1b2-c3d4e5f6-0718-293a4b5c6d7e") is None


def test_an_id_holds_no_blanks(context: NormaliseContext) -> None:
    assert is_id("s-01M509MWVQ5VZ93AEXQ22NRJ7C:t0", 128)
    assert not is_id("a b", 128)


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000_000),
        ("1970-01-01T01:00:01.5+01:00", 1_500_000_000),
        ("2026-10-15T17:27:06.313188123Z", 1_792_085_226_313_188_123),
        ("2026-10-15T17:27:06", None),
        ("9999-12-31T23:59:59Z", None),
        ("0001-01-01T00:00:00+23:00", None),
        ("yesterday", None),
        (5, None),
    ],
)
def test_a_time_is_read_to_the_nanosecond_and_needs_its_zone(text: object, ns: int | None) -> None:
    assert read_rfc3339(text) == ns
