"""What holds for every event: nothing leaks, nothing else changes, redacting twice is redacting once."""

from __future__ import annotations

import copy
import dataclasses
import json
import string
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from privacy_samples import CARD, EMAIL, JWT, PASSWORD, SSN, VENDOR_KEYS
from tracehold.events.event import Event
from tracehold.privacy.redactors import (
    DEFAULT_PATTERNS,
    ChainRedactor,
    KeyRedactor,
    Pattern,
    PatternRedactor,
    Redactor,
    standard_redactor,
)

STANDARD = standard_redactor()
KEYS, PATTERNS = STANDARD.redactors
OWN = PatternRedactor(
    [Pattern("hash", "#+"), *DEFAULT_PATTERNS, Pattern("word", "[ab]+|RED"), Pattern("end", r"1(?=\W)")]
)
REDACTORS = (STANDARD, KEYS, PATTERNS, OWN, ChainRedactor(OWN, KeyRedactor()))
SECRETS = [*VENDOR_KEYS.values(), CARD, EMAIL, JWT, SSN]

secrets = st.sampled_from(SECRETS)
snippets = st.sampled_from(
    [
        *SECRETS,
        f"password={PASSWORD}",
        "Authorization: Bearer ",
        "https://u:p@",
        "token: ",
        '"key": "',
        "ssn ",
        "=",
        " ",
        "-",
        "@",
        "#",
        "1",
        "a",
        "[REDACTED]",
        "[REDACTED:email]",
        "[REDACTED:word]",
        "-----BEGIN PRIVATE KEY-----",
        "data:a/b;base64,",
        "\u200b",
        "%40",
        "\\",
        "é",
        "\ud800",
    ]
)
texts = st.one_of(st.text(max_size=40), st.lists(snippets, max_size=8).map("".join))
names = st.one_of(
    st.text(alphabet=string.ascii_letters + "_-", max_size=12),
    st.sampled_from(
        ["password", "token", "value", "name", "key", "auth", "pwd", "usage", "cost", "user", "id", "data"]
    ),
    st.sampled_from(["media_type", "tool_call_id", "role", "[REDACTED:secret]", "[REDACTED:email] token"]),
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.just(int(CARD)),
    st.floats(allow_nan=False),
    texts,
    st.binary(max_size=20),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(names, texts), inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
    ),
    max_leaves=12,
)
payloads = st.dictionaries(st.one_of(names, texts), values, max_size=5)
metas = st.dictionaries(names, st.one_of(texts, st.integers(), st.booleans()), max_size=3)


def shape(value: Any) -> Any:
    """The structure of a value, without its texts and numbers."""
    if isinstance(value, dict):
        return ("dict", [shape(item) for item in value.values()])
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [shape(item) for item in value])
    return "scalar"


@given(st.sampled_from(REDACTORS), payloads, metas)
def test_redacting_twice_is_redacting_once_and_gives_the_same_object(redactor: Redactor, data, meta):  # RED-01, RED-19
    once = redactor.redact(Event(type="app.note", data=data, meta=meta))
    assert redactor.redact(once) is once


@given(st.sampled_from(REDACTORS), payloads, metas)
def test_nothing_but_data_and_meta_changes_and_the_event_given_stays(redactor: Redactor, data, meta):  # RED-01
    event = Event(type="app.note", data=data, meta=meta)
    before = copy.deepcopy(data), dict(meta)
    result = redactor.redact(event)
    assert (event.data, event.meta) == before
    assert result == event.with_(data=result.data, meta=result.meta)


@given(st.one_of(st.just(PATTERNS), st.just(OWN)), payloads)
def test_the_structure_of_the_payload_stays(redactor: Redactor, data):  # RED-03, DEC-09
    result = redactor.redact(Event(type="app.note", data=data)).data
    assert shape(result) == shape(data)


@given(payloads, metas)
def test_an_event_that_stays_equal_is_the_same_object(data, meta):  # RED-19
    event = Event(type="app.note", data=data, meta=meta)
    result = STANDARD.redact(event)
    assert (result == event) is (result is event)


@given(payloads, metas)
def test_the_shared_walk_comes_to_the_same_as_one_after_the_other(data, meta):  # RED-15, RED-16
    event = Event(type="app.note", data=data, meta=meta)
    assert STANDARD.redact(event) == PATTERNS.redact(KEYS.redact(event))


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Box:
    inside: Any


def _plant(secret: str) -> st.SearchStrategy[Any]:
    leaf = st.sampled_from(
        [secret, f"see {secret} there", secret.encode(), json.dumps({"a": secret}), f"\n{secret}\n", Exception(secret)]
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            inner.map(lambda item: [1, item]),
            inner.map(lambda item: (item, "x")),
            inner.map(lambda item: Pair("x", item)),
            inner.map(Box),
            st.tuples(names, inner).map(lambda pair: {pair[0]: pair[1], "other": 2}),
            st.just({secret: 1}),
            st.just({(secret, 1): 1}),
            st.just({secret.encode(): 1}),
            st.just({secret}),
        ),
        max_leaves=4,
    )


@given(secrets.flatmap(lambda secret: st.tuples(st.just(secret), _plant(secret))))
def test_a_planted_secret_survives_in_no_place(planted):  # RED-04, RED-07, DEC-09
    secret, value = planted
    result = repr(STANDARD.redact(Event(type="app.note", data={"v": value})).data)
    body = secret.removeprefix("SG.")
    assert not any(body[at : at + 12] in result for at in range(max(1, len(body) - 11)))


@given(
    st.sampled_from(["password", "api_key", "X-API-Key", "githubToken", "set-cookie", "db_password", "otp"]),
    st.one_of(st.text(min_size=4, alphabet="qxz"), st.integers(min_value=1000), st.lists(st.just("qxzz"), min_size=1)),
    st.lists(st.sampled_from(["list", "dict", "tuple", "box", "user", "usage"]), max_size=6),
)
def test_a_value_under_a_secret_key_survives_at_no_depth(key, value, wraps):  # RED-10, RED-13
    data: Any = {key: value}
    for wrap in wraps:
        data = {"list": [1, data], "tuple": (data, 1, 2), "box": Box(data)}.get(wrap, {wrap: data})
    result = STANDARD.redact(Event(type="app.note", data={"v": data})).data
    assert repr(value) not in repr(result)
    assert "[REDACTED]" in repr(result)


@given(st.text(alphabet="éñ ,;\n", max_size=30), secrets, st.text(alphabet="éñ ,;\n", max_size=30))
def test_what_stands_beside_a_secret_stays(before, secret, after):  # RED-03
    result = PATTERNS.scrub_text(f"{before} {secret} {after}")
    assert result.startswith(f"{before} ")
    assert result.endswith(f" {after}")
    assert "[REDACTED:" in result
