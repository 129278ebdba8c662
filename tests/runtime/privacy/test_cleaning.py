from __future__ import annotations

import sys
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import NamedTuple

import pytest
from privacy_samples import CARD, EMAIL, IDENTIFIERS, JWT, PASSWORD, VENDOR_KEYS, hexits
from tracehold.privacy import Cleaner, cleaning

KEY = VENDOR_KEYS["openai"]
OTHER_KEY = VENDOR_KEYS["github"]
FIELDS = frozenset({"type", "run_id", "tool", "step_index"})


@dataclass
class Login:
    user: str
    password: str


class Credentials(NamedTuple):
    user: str
    password: str
    attempts: int


class Colour(Enum):
    RED = "r"


class Status(StrEnum):
    OK = "ok"


class Level(IntEnum):
    HIGH = 3


@pytest.mark.parametrize("value", ["abc", 12345, 1.5, ["a"], {"a": 1}, b"abc", ""])
def test_whatever_stands_under_a_secret_key_is_replaced_as_a_whole(value, cleaner):  # TRC-03, RED-13, DEC-09
    assert cleaner.clean({"outer": [{"client_secret": value}]}) == {"outer": [{"client_secret": "***"}]}


@pytest.mark.parametrize("value", [None, True, False])
def test_a_flag_under_a_secret_key_stays(value, cleaner):
    assert cleaner.clean({"password": value}) == {"password": value}


def test_token_counters_stay(cleaner):  # TRC-04
    usage = {"prompt_tokens": 5, "total_tokens": 9, "max_tokens": 100}
    assert cleaner.clean(usage) == usage


@pytest.mark.parametrize("value", [5, -1, 0, 1.5, float("inf"), 10**5000, True, None], ids=range(8))
def test_numbers_booleans_and_none_pass(value, cleaner):  # TRC-12
    assert cleaner.clean([value]) == [value]


@pytest.mark.parametrize("value", [int(CARD), float(CARD), Decimal(CARD)])
def test_a_number_that_is_a_card_goes(value, cleaner):  # DEC-09, FR-35
    assert cleaner.clean({"n": value, "list": [value]}) == {"n": "***", "list": ["***"]}


@pytest.mark.parametrize(
    ("value", "cleaned"),
    [
        ([1, KEY], [1, "***"]),
        ((1, KEY), (1, "***")),
        ({1, KEY}, {1, "***"}),
        (frozenset({KEY}), frozenset({"***"})),
        (Credentials("bob", PASSWORD, 3), Credentials("bob", "***", 3)),
    ],
)
def test_sequences_and_sets_keep_their_type(value, cleaned, cleaner):  # TRC-12, DEC-09
    result = cleaner.clean(value)
    assert result == cleaned
    assert type(result) is type(cleaned)


@pytest.mark.parametrize(
    ("value", "cleaned"),
    [
        (Login("bob", PASSWORD), {"user": "bob", "password": "***"}),
        (MappingProxyType({"token": "q"}), {"token": "***"}),
        (OrderedDict(a=1), {"a": 1}),
        (f"x={EMAIL}".encode(), "x=***"),
        (bytearray(b"plain"), "plain"),
        (b"\xff\xfe", "<2 bytes>"),
        (Colour.RED, "Colour.RED"),
        (Status.OK, "ok"),
        (Level.HIGH, 3),
        (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01 00:00:00+00:00"),
        (PurePosixPath("/home/maria/x"), "/home/***/x"),
        (ValueError(f"no such user {EMAIL}"), "no such user ***"),
    ],
)
def test_objects_become_plain_data_and_are_cleaned_as_such(value, cleaned, cleaner):  # TRC-12, DEC-09
    assert cleaner.clean(value) == cleaned
    assert type(cleaner.clean(value)) is type(cleaned)


def test_an_object_is_cleaned_as_the_text_it_prints(cleaner):  # TRC-12
    class Model:
        def __str__(self) -> str:
            return f"user='bob' api_key='{PASSWORD}'"

    assert cleaner.clean(Model()) == "user='bob' api_key='***'"


def test_an_object_that_cannot_be_printed_raises_its_own_error(cleaner):  # TRC-16
    class Broken:
        def __str__(self) -> str:
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        cleaner.clean({"x": Broken()})


def test_a_secret_or_home_path_in_the_place_of_a_key_goes(cleaner):  # TRC-09, DEC-09
    assert cleaner.clean({KEY: 1, "/home/maria/x": 2}) == {"***": 1, "/home/***/x": 2}


def test_two_masked_keys_never_become_one(cleaner):  # DEC-09
    assert list(cleaner.clean({KEY: 1, OTHER_KEY: 2, "***": 3}).values()) == [1, 2, 3]


def test_keys_are_never_cut(cleaner):  # TRC-09
    key = "many words in a key " * 5
    assert cleaner.clean({key: "x"}, max_len=4) == {key: "x"}


def test_keys_that_are_no_text_become_text(cleaner):
    assert cleaner.clean({1: "a", None: "b", ("c",): "d", b"e": "f"}) == {
        "1": "a",
        "None": "b",
        "('c',)": "d",
        "e": "f",
    }


def test_a_key_that_is_no_text_can_name_a_secret(cleaner):
    assert cleaner.clean({b"password": PASSWORD}) == {"password": "***"}


@pytest.mark.parametrize("field", ["name", "key", "header"])
def test_a_name_beside_a_value_counts_as_its_key(field, cleaner):  # FR-35
    assert cleaner.clean({field: "Authorization", "value": "xyz"}) == {field: "Authorization", "value": "***"}


def test_a_key_beside_a_value_is_a_field_name(cleaner):
    assert cleaner.clean({"key": "colour", "value": "red"}) == {"key": "colour", "value": "red"}


def test_header_pairs_are_read_as_name_and_value(cleaner):
    assert cleaner.clean([("Authorization", "xyz"), (b"x-api-key", b"abc")]) == [
        ("Authorization", "***"),
        ("x-api-key", "***"),
    ]


PLACES = {
    "string": lambda secret: secret,
    "array element": lambda secret: {"a": [1, secret]},
    "map value": lambda secret: {"a": {"b": secret}},
    "map key": lambda secret: {"a": {secret: 1}},
    "map in array": lambda secret: {"a": [{"b": [secret]}]},
    "bytes": lambda secret: {"a": secret.encode()},
    "json text": lambda secret: {"a": '{"b": {"c": "' + secret + '"}}'},
    "tuple in set": lambda secret: {("x", secret)},
    "dataclass": lambda secret: Login(secret, "x"),
    "named tuple": lambda secret: Credentials(secret, "x", 1),
    "error": RuntimeError,
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_key_goes_wherever_it_stands(place, cleaner):  # FR-35
    assert KEY not in repr(cleaner.clean(place(KEY)))
    assert "***" in repr(cleaner.clean(place(KEY)))


def test_redaction_runs_before_the_cut(cleaner):  # TRC-01, TRC-10, FR-19
    text = "a word " * 5 + KEY
    assert "sk-" not in cleaner.clean(text, max_len=45)


def test_json_that_a_sender_cut_is_cleaned_without_an_error(cleaner):  # FR-19
    text = ('{"role": "user", "content": "x", "password": "' + PASSWORD)[:-2]
    assert PASSWORD[:-2] not in cleaner.clean(text)


def test_a_text_far_beyond_the_limit_is_cut_with_its_whole_length_told(cleaner):  # TRC-10
    text = "many words " * 100_000
    assert cleaner.clean(text, max_len=10) == f"many words…[+{len(text) - 10} chars]"


def test_a_secret_at_the_edge_of_a_long_text_s_limit_goes(cleaner):  # FR-19
    for shift in range(20):
        cleaned = cleaner.clean("w " * (100 - shift) + KEY + " w" * 100_000, max_len=200)
        assert KEY[:10] not in cleaned


@pytest.mark.parametrize("secret", [KEY, EMAIL, JWT, f"password={PASSWORD}", f"Authorization: Basic {KEY}"])
@pytest.mark.parametrize("tail", ["", " and more words" * 40, "\n" + "word " * 4000])
def test_a_secret_at_any_place_around_the_limit_is_masked_as_in_the_whole_text(secret, tail, cleaner):  # TRC-01, TRC-10
    for start in range(0, 220, 7):
        text = ("w " * 110)[:start] + " " + secret + tail
        kept = cleaner.clean(text, max_len=200)[:200]
        assert kept == cleaner.clean(text)[:200]
        assert secret[-6:] not in kept


def test_a_beginning_full_of_secrets_is_read_on_until_enough_is_left(cleaner):  # TRC-10
    text = f"{KEY} " * 100 + "the end"
    assert cleaner.clean(text, max_len=400)[:400] == "*** " * 100


def test_the_marker_counts_what_follows_as_it_stood(cleaner):  # TRC-10
    text = "word " * 40 + "and so on " * 20 + KEY
    assert cleaner.clean(text, max_len=200).endswith(f"…[+{len(text) - 200} chars]")


def test_extra_patterns_see_the_text_behind_the_limit():  # TRC-07
    cleaner = Cleaner(extra_secret_patterns=[r"(?s)BEGIN.*END"])
    assert cleaner.clean("BEGIN" + " words" * 200 + " END", max_len=100) == "***"


def test_text_behind_a_huge_masked_stretch_comes_forward(cleaner):
    key = "-----BEGIN " + "PRIVATE KEY-----\n" + "abcd" * 20_000 + "\n-----END " + "PRIVATE KEY-----"
    assert cleaner.clean(key + " and then " + "more words " * 10_000, max_len=12).startswith("*** and then")


def test_without_redaction_only_the_cut_remains():  # TRC-11
    value = {"password": "x" * 50, KEY: EMAIL, "n": int(CARD)}
    assert Cleaner(redact=False).clean(value, max_len=30) == {
        "password": "x" * 30 + "…[+20 chars]",
        KEY: EMAIL,
        "n": int(CARD),
    }


def test_the_mask_can_be_chosen_and_named():
    cleaner = Cleaner(mask="[GONE]", mask_name=lambda name: f"[{name}]")
    assert cleaner.clean({"password": "x", "a": EMAIL}) == {"password": "[GONE]", "a": "[email]"}


def test_extra_keys_and_patterns_only_add():  # TRC-07
    cleaner = Cleaner(extra_secret_keys=["salary"], extra_secret_patterns=[r"T-\d+"])
    assert cleaner.clean({"base_salary": 1, "a": f"T-12 {EMAIL}", "password": "x"}) == {
        "base_salary": "***",
        "a": "*** ***",
        "password": "***",
    }


def test_a_blank_extra_key_is_refused():  # TRC-08
    with pytest.raises(ValueError, match="blank"):
        Cleaner(extra_secret_keys=[" "])


def test_a_value_that_holds_itself_is_cleaned(cleaner):
    value: dict[str, object] = {"a": 1}
    value["self"] = value
    cleaned = cleaner.clean(value)
    assert cleaned["a"] == 1
    assert cleaned["self"] == "…[refers to itself]"


def test_a_value_in_two_places_is_no_cycle(cleaner):
    shared = [1]
    assert cleaner.clean([shared, shared]) == [[1], [1]]


def test_parts_that_share_each_other_do_not_multiply_without_end(monkeypatch):
    monkeypatch.setattr(cleaning, "_CONTAINERS_MAX", 1000)
    value: list[object] = []
    for _ in range(60):
        value = [value, value]
    assert cleaning.TOO_MANY in repr(Cleaner().clean(value))


def test_keys_that_change_at_every_level_do_not_double_the_work(cleaner):
    value: dict[object, object] = {}
    for _ in range(90):
        value = {"inner": value, 1: "x"}
    assert cleaner.clean(value)["1"] == "x"


@pytest.mark.parametrize(
    "wrap", [lambda inner: [inner], lambda inner: {"a": inner}, lambda inner: (inner,)], ids=["list", "dict", "tuple"]
)
def test_nesting_a_hundred_thousand_deep_ends_in_a_marker(wrap, cleaner):
    value: object = KEY
    for _ in range(100_000):
        value = wrap(value)
    text = repr(cleaner.clean(value))
    assert "nested too deep" in text
    assert KEY not in text


def test_a_caller_near_the_recursion_limit_still_gets_an_answer(cleaner):
    value: object = "x"
    for _ in range(90):
        value = [value]

    def at_depth(frames: int) -> object:
        return cleaner.clean({"a": value}) if frames == 0 else at_depth(frames - 1)

    used = 0
    frame = sys._getframe()
    while frame:
        used, frame = used + 1, frame.f_back
    assert "a" in at_depth(sys.getrecursionlimit() - used - 60)


def test_structural_fields_keep_identifiers_and_scalars(cleaner):  # TRC-13, DEC-10
    event = {"type": "tool_call", "run_id": hexits(48), "tool": "sk_" + "a1" * 20, "step_index": 3}
    assert cleaner.clean_event(event, structural=FIELDS, max_len=8) == event


@pytest.mark.parametrize(
    "value", [f"mail {EMAIL}", f"https://u:{PASSWORD}@example.com", {"password": PASSWORD}, [EMAIL]]
)
def test_a_structural_field_that_holds_no_identifier_is_cleaned(value, cleaner):
    assert str(value) not in str(cleaner.clean_event({"tool": value}, structural=FIELDS, max_len=None))


def test_only_the_top_level_is_structural(cleaner):  # DEC-09
    event = {"params": {"run_id": hexits(48)}}
    assert cleaner.clean_event(event, structural=FIELDS, max_len=None) == {"params": {"run_id": "***"}}


def test_an_event_s_own_accounting_keeps_its_numbers(cleaner):  # DEC-09, RED-19
    event = {
        "usage": {"total_tokens": int(CARD), "token": 7, "details": {"secret": 1}},
        "cost": {"usd": 0.5},
        "cost_usd": float(CARD),
        "budget": int(CARD),
    }
    assert cleaner.clean_event(event, structural=FIELDS, max_len=None) == event


def test_text_in_an_event_s_accounting_is_cleaned(cleaner):  # DEC-09
    event = {"usage": {"note": EMAIL, "tokens": 5, "by": {"password": PASSWORD}}}
    assert cleaner.clean_event(event, structural=FIELDS, max_len=None) == {
        "usage": {"note": "***", "tokens": 5, "by": {"password": "***"}}
    }


def test_accounting_deeper_down_is_user_data(cleaner):  # DEC-09
    event = {"params": {"usage": {"n": int(CARD), "token": 5}}}
    assert cleaner.clean_event(event, structural=FIELDS, max_len=None) == {
        "params": {"usage": {"n": "***", "token": "***"}}
    }


def test_an_event_keeps_the_order_of_its_fields(cleaner):
    event = {"z": 1, "type": "x", "usage": {"b": 1, "a": "t"}, "a": 2}
    assert list(cleaner.clean_event(event, structural=FIELDS, max_len=None)) == list(event)


@pytest.mark.parametrize("identifier", IDENTIFIERS.values(), ids=IDENTIFIERS)
def test_identifiers_in_ordinary_fields_stay(identifier, cleaner):  # FR-43
    assert cleaner.clean({"ref": identifier}) == {"ref": identifier}


def test_what_is_remembered_about_keys_is_bounded_and_holds_no_secret(cleaner):
    cleaner.clean({KEY: 1})
    for number in range(10_000):
        cleaner.clean({f"field{number}": 1})
    assert len(cleaner._codes) <= 4096
    assert KEY not in cleaner._codes
