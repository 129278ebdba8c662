"""How texts become terms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.retrieval.terms import MAX_QUERY_TERMS, terms_of, wanted_by


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Hello, World!", ["hello", "world"]),
        ("order_id-42", ["order", "id", "42"]),
        ("ada@example.com", ["ada", "example", "com"]),
        ("getUserName HTTPServer", ["getusername", "get", "user", "name", "httpserver", "http", "server"]),
        ("Café CAFÉ cafe\u0301", ["cafe", "cafe", "cafe"]),
        ("Müller", ["muller", "mueller"]),
        ("straße STRASSE", ["strasse", "strasse"]),
        ("東京都", ["東京", "京都", "都"]),
        ("カタカナ", ["カタ", "タカ", "カナ", "ナ"]),
        ("학교에", ["학교", "교에", "에"]),
        ("สวัสดี", ["สวั", "วัส", "ัสด", "สดี", "ดี", "ี"]),
        ("السَّلام", ["السلام"]),
        ("हिन्दी", ["हिन्दी"]),
        ("iPhone手机 ok", ["iphone", "i", "phone", "手机", "机", "ok"]),
        ("great👍🏽", ["great", "👍"]),
        ("ﬁne ①", ["fine", "1"]),
        ("... --- !?", []),
        ("a\x00b", ["a", "b"]),
        ("\ud800", []),
    ],
)
def test_a_text_of_any_script_is_cut_into_terms(text: str, terms: list[str]) -> None:
    assert terms == list(terms_of(text))


@given(st.text())
def test_a_term_holds_nothing_that_a_query_language_could_take_for_syntax(text: str) -> None:
    for term in terms_of(text):
        assert term
        assert not set(term) & set(" \t\n\0\"'*():^-+{}[]<>|&\\")


@given(st.text(), st.text())
def test_texts_apart_by_a_space_have_the_terms_of_both(first: str, second: str) -> None:
    assert [*terms_of(first), *terms_of(second)] == list(terms_of(f"{first} {second}"))


@given(st.text(alphabet=st.characters(categories=["L", "N"]), min_size=1, max_size=12))
def test_what_a_query_looks_for_is_in_the_text_it_was_taken_from(word: str) -> None:
    terms = list(terms_of(word))
    for wanted in wanted_by(word):
        if len(wanted.terms) == 1:
            assert any(term.startswith(wanted.terms[0]) for term in terms)


def test_a_query_of_100_kilobytes_is_cut_to_a_bounded_number_of_terms() -> None:
    assert len(wanted_by(" ".join(f"word{number}" for number in range(20_000)))) == MAX_QUERY_TERMS


def test_a_word_of_100_kilobytes_is_cut_alike_in_text_and_query() -> None:
    word = "x" * 100_000
    assert list(terms_of(word)) == [wanted.terms[0] for wanted in wanted_by(word)]
