"""What holds for every value: nothing leaks, nothing is modified, cleaning twice is cleaning once."""

from __future__ import annotations

import copy
import json
import string

from hypothesis import given
from hypothesis import strategies as st
from privacy_samples import CARD, EMAIL, JWT, PASSWORD, VENDOR_KEYS
from tracehold.privacy import Cleaner, KeyRules, TextMasker, cleaning, find_sensitive

CLEANER = Cleaner()
NAMED = TextMasker(mask=lambda name: f"[REDACTED:{name}]")
SECRETS = [*VENDOR_KEYS.values(), CARD, EMAIL, JWT]

secrets = st.sampled_from(SECRETS)
snippets = st.sampled_from(
    [
        *SECRETS,
        f"password={PASSWORD}",
        "Authorization: Bearer ",
        "https://u:p@",
        "/home/bob/",
        "token: ",
        '"key": "',
        "=",
        ":",
        " ",
        "-",
        "\n",
        "@",
        "***",
        "[REDACTED:email]",
        "-----BEGIN PRIVATE KEY-----",
        "a",
        "1",
        "123-45-6789",
        "\u200b",
        "%40",
        "\\",
        "é",
    ]
)
texts = st.one_of(st.text(max_size=40), st.lists(snippets, max_size=8).map("".join))
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), texts, st.binary(max_size=20))
keys = st.one_of(
    st.text(alphabet=string.ascii_letters + "_-", max_size=12), st.sampled_from(["password", "token", "value", "usage"])
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(keys, texts), inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
    ),
    max_leaves=12,
)


@given(values)
def test_cleaning_twice_is_cleaning_once(value):  # RED-01
    once = CLEANER.clean(value)
    assert CLEANER.clean(once) == once


@given(texts)
def test_masking_twice_is_masking_once(text):  # RED-01
    once = NAMED(text)
    assert NAMED(once) == once


@given(values)
def test_the_input_is_never_modified(value):  # TRC-23
    before = copy.deepcopy(value)
    CLEANER.clean(value, max_len=5)
    assert value == before


@given(values)
def test_cleaned_data_is_plain(value):
    json.dumps(CLEANER.clean(value), allow_nan=True)


def _plant(secret: str):
    leaf = st.sampled_from(
        [secret, f"see {secret} there", secret.encode(), json.dumps({"a": secret}), f"\n{secret}\n", Exception(secret)]
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            inner.map(lambda item: [1, item]),
            inner.map(lambda item: (item, "x")),
            st.tuples(keys, inner).map(lambda pair: {pair[0]: pair[1], "other": 2}),
            st.just({secret: 1}),
            st.just({secret}),
        ),
        max_leaves=4,
    )


@given(secrets.flatmap(lambda secret: st.tuples(st.just(secret), _plant(secret))))
def test_a_planted_secret_survives_in_no_place(planted):  # TRC-01, FR-35
    secret, value = planted
    cleaned = repr(CLEANER.clean(value))
    body = secret.removeprefix("SG.")
    assert not any(body[at : at + 12] in cleaned for at in range(max(1, len(body) - 11)))


@given(keys.filter(KeyRules().is_secret), st.one_of(st.text(min_size=4, alphabet="qxz"), st.integers(min_value=1000)))
def test_a_value_under_a_secret_key_survives_at_no_depth(key, value):  # TRC-03
    assert CLEANER.clean([{"a": {key: value}}]) == [{"a": {key: "***"}}]


@given(texts)
def test_findings_lie_in_the_text_in_order_and_apart(text):
    findings = find_sensitive(text)
    edges = [edge for finding in findings for edge in (finding.start, finding.end)]
    assert edges == sorted(edges)
    assert all(0 <= edge <= len(text) for edge in edges)
    assert all(finding.start < finding.end for finding in findings)


fillers = st.integers(min_value=0, max_value=400).map(lambda size: ("some words in a row " * 20)[:size])


@given(st.lists(st.one_of(fillers, texts, secrets), max_size=6).map("".join), st.integers(min_value=0, max_value=300))
def test_what_is_kept_of_a_text_is_the_beginning_of_all_of_it_masked(text, keep):  # TRC-01, TRC-10
    assert CLEANER.clean(text, max_len=keep)[:keep] == CLEANER.clean(text)[:keep]


@given(st.one_of(st.text(max_size=12), st.text(alphabet="ab1-_:/. \t\n\x7fé\u00a0", max_size=300)))
def test_the_quick_test_of_an_identifier_agrees_with_the_expression(text):  # DEC-10, TRC-13
    assert cleaning._is_identifier(text) == (cleaning._IDENTIFIER.fullmatch(text) is not None)


@given(values, st.integers(min_value=0, max_value=30))
def test_no_string_is_longer_than_the_limit_and_its_marker(value, limit):  # TRC-10
    def longest(cleaned: object) -> int:
        if isinstance(cleaned, str):
            return len(cleaned)
        inner = cleaned.values() if isinstance(cleaned, dict) else cleaned if isinstance(cleaned, (list, tuple)) else ()
        return max(map(longest, inner), default=0)

    assert longest(CLEANER.clean(value, max_len=limit)) <= limit + 32
