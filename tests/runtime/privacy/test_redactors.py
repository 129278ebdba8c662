"""RED: what each redactor replaces, and what it leaves alone."""

from __future__ import annotations

import base64
import json
import random
import re

import pytest
from privacy_samples import CARD, EMAIL, IDENTIFIERS, JWT, SSN, VENDOR_KEYS, alnum
from tracehold.core.errors import ConfigurationError
from tracehold.events.event import Event
from tracehold.privacy.redactors import (
    BEARER,
    DEFAULT_PATTERNS,
    NESTED_PROTECTED_KEYS,
    PERSONAL_PATTERNS,
    PROTECTED_KEYS,
    SECRET,
    SECRET_KEYS,
    US_SSN,
    ChainRedactor,
    KeyRedactor,
    Pattern,
    PatternRedactor,
    Redactor,
    standard_redactor,
)
from tracehold.privacy.redactors import (
    EMAIL as EMAIL_PATTERN,
)
from tracehold.privacy.vocabulary import words

STANDARD = standard_redactor()
PATTERNS = PatternRedactor()
KEYS = KeyRedactor()


def redacted(data: dict, redactor: Redactor = STANDARD) -> dict:
    return redactor.redact(Event(type="app.note", data=data)).data


def text_of(text: str, redactor: Redactor = PATTERNS) -> str:
    return redacted({"text": text}, redactor)["text"]


def test_only_data_and_meta_of_an_event_change():  # RED-01, RED-17
    event = Event(
        type="app.note",
        subject=EMAIL,
        stream="s-1",
        run_id="r-1",
        tenant="acme",
        seq=7,
        data={"to": EMAIL, "n": 1},
        meta={"who": EMAIL, "n": 2},
    )
    result = STANDARD.redact(event)
    assert result == event.with_(data={"to": "[REDACTED:email]", "n": 1}, meta={"who": "[REDACTED:email]", "n": 2})


def test_redacting_twice_is_redacting_once_and_gives_the_same_object():  # RED-01
    event = Event(type="app.note", data={"password": "x", "text": f"{EMAIL} {JWT}", EMAIL: [CARD]})
    once = STANDARD.redact(event)
    assert STANDARD.redact(once) is once


def test_the_event_given_is_not_changed():  # RED-01
    data = {"password": "x", "list": [EMAIL], EMAIL: 1}
    STANDARD.redact(Event(type="app.note", data=data))
    assert data == {"password": "x", "list": [EMAIL], EMAIL: 1}


def test_a_match_is_replaced_by_its_name_and_the_rest_of_the_text_stays():  # RED-03
    assert text_of(f"\twrite to {EMAIL}, now!\n") == "\twrite to [REDACTED:email], now!\n"


@pytest.mark.parametrize(
    ("text", "secret", "name"),
    [
        (f"to {EMAIL}", EMAIL, "email"),
        (f"card {CARD}", CARD, "card"),
        (f"number {SSN}", SSN, "ssn"),
        (f"key {VENDOR_KEYS['openai']}", VENDOR_KEYS["openai"], "secret"),
        (f"got {JWT}", JWT, "jwt"),
        ("Authorization: Bearer " + "abc-DEF.123_456", "abc-DEF.123_456", "bearer"),
    ],
)
def test_the_six_documented_kinds_are_found_under_their_names(text, secret, name):  # RED-04
    assert text_of(text) == text.replace(secret, f"[REDACTED:{name}]")


def test_the_default_patterns_are_the_six_documented_ones():  # RED-04
    assert [pattern.name for pattern in DEFAULT_PATTERNS] == ["email", "card", "ssn", "secret", "jwt", "bearer"]


@pytest.mark.parametrize("separator", ["", " ", "-"])
def test_a_digit_group_that_fails_the_luhn_check_stays(separator):  # RED-05
    def grouped(digits: str) -> str:
        return separator.join(digits[at : at + 4] for at in range(0, 16, 4))

    assert text_of(grouped(CARD)) == "[REDACTED:card]"
    wrong = grouped(CARD[:-1] + str((int(CARD[-1]) + 1) % 10))
    assert text_of(f"order {wrong}") == f"order {wrong}"


@pytest.mark.parametrize("number", ["000-12-3456", "666-12-3456", "912-12-3456", "123-00-3456", "123-45-0000"])
@pytest.mark.parametrize("form", ["{}", "ssn {}", "SSN: {}", "ssn={}"])
def test_an_impossible_social_security_number_stays_also_behind_a_label(form, number):  # RED-06
    assert text_of(form.format(number)) == form.format(number)


@pytest.mark.parametrize(
    "key", [*VENDOR_KEYS.values(), "AK" + "IA" + "1234567890ABCDEF", "sk-" + "abcdefghijklmnopqrstuv"]
)
@pytest.mark.parametrize("form", ["{}", "use {} now", "key={}", '{{"k": "{}"}}'])
def test_keys_of_known_shapes_are_secrets(form, key):  # RED-07
    masked = text_of(form.format(key))
    assert "[REDACTED:secret]" in masked
    body = key.removeprefix("SG.")
    assert not any(body[at : at + 12] in masked for at in range(len(body) - 11))


def test_own_patterns_replace_the_built_in_ones():  # RED-08
    badge = PatternRedactor([Pattern("badge", r"B-\d{4}")])
    assert text_of(f"B-1234 {EMAIL}", badge) == f"[REDACTED:badge] {EMAIL}"


def test_own_patterns_stand_beside_built_in_ones_when_both_are_given():  # RED-08
    both = PatternRedactor([*DEFAULT_PATTERNS, Pattern("badge", r"B-\d{4}")])
    assert text_of(f"B-1234 {EMAIL}", both) == "[REDACTED:badge] [REDACTED:email]"


def test_a_built_in_pattern_alone_finds_its_own_kind_only():  # RED-08
    assert text_of(f"{EMAIL} {SSN}", PatternRedactor([US_SSN])) == f"{EMAIL} [REDACTED:ssn]"


@pytest.mark.parametrize("regex", [r"b-\d+", re.compile(r"B-\d+", re.IGNORECASE)])
def test_a_pattern_is_a_source_or_a_compiled_expression(regex):  # RED-09
    assert text_of("b-12 stays whole", PatternRedactor([Pattern("badge", regex)])) == "[REDACTED:badge] stays whole"


def test_a_check_that_says_no_leaves_the_match():  # RED-09
    even = Pattern("even", r"\d+", check=lambda match: int(match[0]) % 2 == 0)
    assert text_of("11 12 13", PatternRedactor([even])) == "11 [REDACTED:even] 13"


def test_a_check_that_fails_keeps_the_event_from_passing():  # RED-09
    broken = Pattern("broken", r"\d+", check=lambda match: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        text_of("11", PatternRedactor([broken]))


@pytest.mark.parametrize("name", ["", " ", "a]b", "a[b", "a\nb", "x" * 65])
def test_a_pattern_has_a_name_that_fits_into_its_mask(name):  # RED-09
    with pytest.raises(ConfigurationError, match="name"):
        Pattern(name, "x")


def test_a_pattern_for_bytes_is_refused():  # RED-09
    with pytest.raises(ConfigurationError, match="bytes"):
        Pattern("b", re.compile(rb"x"))  # type: ignore[arg-type]


def test_something_else_than_a_pattern_is_refused():  # RED-08
    with pytest.raises(TypeError, match="Pattern"):
        PatternRedactor(["x"])  # type: ignore[list-item]


def test_an_own_pattern_takes_no_mask_apart():  # RED-01, RED-03
    letters = PatternRedactor([*DEFAULT_PATTERNS, Pattern("word", r"\w+")])
    once = letters.scrub_text(f"{EMAIL} abc")
    assert once == "[REDACTED:email] [REDACTED:word]"
    assert letters.scrub_text(once) == once


def test_an_own_pattern_that_cuts_into_a_mask_takes_all_of_it():  # RED-01, RED-03
    line = PatternRedactor([EMAIL_PATTERN, Pattern("line", r"from .*RED")])
    assert text_of(f"x from {EMAIL} y", line) == "x [REDACTED:line] y"


def test_an_own_pattern_that_never_comes_to_rest_takes_the_whole_text():  # RED-01
    last = PatternRedactor([Pattern("last", r"1(?=\W)")])
    assert last.scrub_text("a1 11") == "a[REDACTED:last] 11"
    assert last.scrub_text("1" * 100 + ".") == "[REDACTED:last]"


def test_an_expression_that_matches_nothing_at_all_changes_nothing():  # RED-03
    assert text_of("abc", PatternRedactor([Pattern("empty", "z*")])) == "abc"


def test_a_built_in_pattern_shows_a_plain_form_for_use_in_an_own_one():  # RED-09
    mine = PatternRedactor([Pattern("mail", EMAIL_PATTERN.regex, lambda match: match[0].endswith(".org"))])
    assert text_of("a@b.com c@d.org", mine) == "a@b.com [REDACTED:mail]"
    assert SECRET.regex.search(VENDOR_KEYS["github"])
    assert BEARER.regex.search("Bearer abcdef")


@pytest.mark.parametrize(
    "text", ["+1 212 555 0123", "DE89" + "370400440532013000", "Passport No. 912345678", "/home/bobby/x"]
)
def test_personal_patterns_are_found_when_asked_for_and_only_then(text):  # RED-04
    personal = PatternRedactor((*DEFAULT_PATTERNS, *PERSONAL_PATTERNS))
    assert text_of(text) == text
    assert "[REDACTED:" in text_of(text, personal)


def test_the_value_of_a_secret_key_is_replaced_at_any_depth_and_in_lists():  # RED-10
    data = {"a": [{"b": ({"password": "x"}, 1)}], "token": "y", "keep": "z"}
    assert redacted(data, KEYS) == {
        "a": [{"b": ({"password": "[REDACTED]"}, 1)}],
        "token": "[REDACTED]",
        "keep": "z",
    }


def test_the_replacement_can_be_chosen():  # RED-10
    mine = KeyRedactor(replacement="gone")
    once = mine.redact(Event(type="app.note", data={"token": "x"}))
    assert once.data == {"token": "gone"}
    assert mine.redact(once) is once


def test_a_header_named_beside_its_value_counts_as_a_key():  # RED-10
    data = {"headers": [("Authorization", "x1"), (b"Cookie", b"x2"), {"name": "X-Api-Key", "value": "x3"}]}
    assert redacted(data, KEYS) == {
        "headers": [
            ("Authorization", "[REDACTED]"),
            (b"Cookie", "[REDACTED]"),
            {"name": "X-Api-Key", "value": "[REDACTED]"},
        ]
    }


@pytest.mark.parametrize("key", ["API-Key", "api_key", "Api Key", "APIKEY", "api.key"])
def test_case_and_punctuation_of_a_key_do_not_matter(key):  # RED-11
    assert redacted({key: "x"}, KEYS) == {key: "[REDACTED]"}
    assert redacted({key: "x"}, KeyRedactor(["api_key"])) == {key: "[REDACTED]"}


@pytest.mark.parametrize("key", ["prompt_tokens", "max_tokens", "tokenizer", "secretary", "author", "session_id"])
def test_a_key_that_only_contains_a_secret_word_stays(key):  # RED-11, DEC-09
    assert redacted({key: "plain"}, KEYS) == {key: "plain"}


def test_own_keys_match_as_a_whole_and_replace_the_built_in_ones():  # RED-11
    mine = KeyRedactor(["Badge No", "session_id"])
    data = {"badge_no": "x", "my_badge_no": "y", "password": "z", "sessionId": "s"}
    assert redacted(data, mine) == {
        "badge_no": "[REDACTED]",
        "my_badge_no": "y",
        "password": "z",
        "sessionId": "[REDACTED]",
    }


def test_own_keys_can_be_added_to_the_built_in_ones():  # RED-11, DEC-09
    mine = KeyRedactor({*SECRET_KEYS, "badge"})
    assert redacted({"badge": 1, "db_password": "x", "secretary": "y"}, mine) == {
        "badge": "[REDACTED]",
        "db_password": "[REDACTED]",
        "secretary": "y",
    }


def test_a_key_without_letters_and_digits_is_refused():  # RED-11
    with pytest.raises(ConfigurationError, match=r"keys\[1\]"):
        KeyRedactor(["a", "-"])


@pytest.mark.parametrize(
    "key",
    words(
        "password passwd secret client_secret api_key x-api-key access_token refresh_token id_token auth_token token"
        " authorization proxy-authorization cookie set-cookie private_key sessionid otp pin githubToken"
    ),
)
def test_built_in_keys_name_secrets_in_every_spelling(key):  # RED-12, DEC-09
    for spelling in (key, key.upper(), key.title()):
        assert redacted({"deep": {spelling: "x"}}, KEYS) == {"deep": {spelling: "[REDACTED]"}}


@pytest.mark.parametrize("value", ["x", {"a": 1}, ["a", "b"], 1234, 1.5, b"x", ""])
def test_the_value_of_a_secret_key_is_replaced_as_a_whole(value):  # RED-13, DEC-09
    assert redacted({"password": value}, KEYS) == {"password": "[REDACTED]"}


@pytest.mark.parametrize("value", [None, True, False])
def test_whether_a_secret_is_set_can_still_be_seen(value):  # RED-13
    event = Event(type="app.note", data={"password": value})
    assert KEYS.redact(event) is event


def test_a_bare_key_is_the_key_of_a_map_unless_its_value_looks_like_a_secret():  # RED-12
    assert redacted({"key": "favourite colour", "value": "blue"}) == {"key": "favourite colour", "value": "blue"}
    assert redacted({"key": "a1B2" * 7}, KEYS) == {"key": "[REDACTED]"}


@pytest.mark.parametrize(
    ("only", "skip", "event_type", "touched"),
    [
        (("*",), (), "app.note", True),
        (("app.*",), (), "app.note", True),
        (("app.*",), (), "other.note", False),
        (("app.?ote", "b"), (), "app.note", True),
        (("*",), ("app.*",), "app.note", False),
        (("app.note",), ("app.note",), "app.note", False),
        (("APP.*",), (), "app.note", False),
        ((), (), "app.note", False),
        ("app.*", "x", "app.note", True),
    ],
)
@pytest.mark.parametrize("make", [PatternRedactor, KeyRedactor, standard_redactor])
def test_only_and_skip_choose_by_event_type_and_skip_wins(make, only, skip, event_type, touched):  # RED-14
    event = Event(type=event_type, data={"password": EMAIL})
    assert (make(only=only, skip=skip).redact(event) is not event) is touched


def test_only_and_skip_may_be_read_once():  # RED-14
    event = Event(type="a", data={"password": "x", "to": EMAIL})
    assert standard_redactor(only=iter(["a"]), skip=iter(["b"])).redact(event).data == {
        "password": "[REDACTED]",
        "to": "[REDACTED:email]",
    }


def test_a_chain_applies_its_redactors_from_left_to_right():  # RED-15
    class Appends:
        def __init__(self, mark: str) -> None:
            self.mark = mark

        def redact(self, event: Event) -> Event:
            return event.with_(data={"text": event.data["text"] + self.mark})

    assert text_of("", ChainRedactor(Appends("a"), Appends("b"), Appends("c"))) == "abc"


def test_a_chain_of_none_returns_the_event():  # RED-15
    event = Event(type="app.note", data={"password": "x"})
    assert ChainRedactor().redact(event) is event


def test_a_chain_refuses_what_cannot_redact():  # RED-15
    with pytest.raises(TypeError, match="NoneType"):
        ChainRedactor(None)  # type: ignore[arg-type]


def test_the_parts_of_a_chain_keep_their_own_event_types():  # RED-14, RED-15
    chain = ChainRedactor(KeyRedactor(only=("a",)), PatternRedactor(only=("b",)))
    data = {"password": "x", "to": EMAIL}
    assert chain.redact(Event(type="a", data=data)).data == {"password": "[REDACTED]", "to": EMAIL}
    assert chain.redact(Event(type="b", data=data)).data == {"password": "x", "to": "[REDACTED:email]"}


def test_the_standard_redactor_is_key_redaction_followed_by_the_default_patterns():  # RED-16
    first, second = STANDARD.redactors
    assert isinstance(STANDARD, ChainRedactor)
    assert isinstance(first, KeyRedactor)
    assert isinstance(second, PatternRedactor)
    assert redacted({"password": EMAIL, "to": EMAIL}) == {"password": "[REDACTED]", "to": "[REDACTED:email]"}


@pytest.mark.parametrize("field", sorted(PROTECTED_KEYS | {"role", "tool_call_id"}))
@pytest.mark.parametrize("value", [EMAIL, f"x {VENDOR_KEYS['openai']}", 4111_1111_1111_1111])
def test_a_routing_field_at_the_top_is_never_rewritten(field, value):  # RED-17, DEC-09
    event = Event(type="app.note", data={field: value}, meta={field: value})
    assert STANDARD.redact(event) is event


@pytest.mark.parametrize("field", sorted(PROTECTED_KEYS | {"role", "tool_call_id"}))
def test_the_same_name_deeper_down_is_user_data(field):  # RED-17, RED-18, DEC-09
    assert redacted({"a": {field: EMAIL}}) == {"a": {field: "[REDACTED:email]"}}


def test_a_mapping_under_the_name_of_a_routing_field_is_user_data():  # DEC-09
    assert redacted({"user": {"mail": EMAIL, "name": EMAIL}}) == {
        "user": {"mail": "[REDACTED:email]", "name": "[REDACTED:email]"}
    }


@pytest.mark.parametrize("field", sorted(NESTED_PROTECTED_KEYS - {"role", "tool_call_id"}))
def test_numbers_of_the_event_s_own_accounts_stay(field):  # RED-17, DEC-09
    number = int(CARD)
    event = Event(type="app.note", data={field: {"token": number, "deep": {"pin": 5, "n": float(number)}}})
    assert STANDARD.redact(event) is event
    assert STANDARD.redact(event.with_(data={field: number})).data == {field: number}


@pytest.mark.parametrize("field", sorted(NESTED_PROTECTED_KEYS - {"role", "tool_call_id"}))
def test_texts_in_the_accounts_are_redacted_and_so_are_accounts_deeper_down(field):  # DEC-09
    assert redacted({field: {"by": EMAIL, "token": "x"}}) == {field: {"by": "[REDACTED:email]", "token": "[REDACTED]"}}
    assert redacted({"a": {field: {"token": 5, "n": int(CARD)}}}) == {
        "a": {field: {"token": "[REDACTED]", "n": "[REDACTED:card]"}}
    }


def test_numbers_of_an_account_stay_beside_a_key_that_is_masked_and_in_mappings_below():  # DEC-09
    assert redacted({"usage": {EMAIL: 1, "token": 2, "deep": {EMAIL: {"pin": 3}}, "password": {"a": 4}}}) == {
        "usage": {
            "[REDACTED:email]": 1,
            "token": 2,
            "deep": {"[REDACTED:email]": {"pin": 3}},
            "password": "[REDACTED]",
        }
    }


def test_a_header_in_an_account_is_redacted():  # DEC-09, RED-10
    pair = {"name": "Authorization", "value": "x"}
    assert redacted({"usage": pair}) == {"usage": {"name": "Authorization", "value": "[REDACTED]"}}


def test_an_account_that_stands_elsewhere_too_is_redacted_there():  # DEC-09
    shared = {"token": 5}
    assert redacted({"usage": shared, "a": shared}) == {"usage": {"token": 5}, "a": {"token": "[REDACTED]"}}


def test_a_field_called_name_below_the_top_is_redacted():  # RED-18
    assert redacted({"name": EMAIL, "who": {"name": EMAIL}}) == {"name": EMAIL, "who": {"name": "[REDACTED:email]"}}


@pytest.mark.parametrize("identifier", IDENTIFIERS.values(), ids=IDENTIFIERS)
def test_identifiers_stay_wherever_they_stand(identifier):  # DEC-10
    event = Event(type="app.note", data={"text": identifier, "a": [{"tool_call_id": identifier}], "run_id": identifier})
    assert STANDARD.redact(event) is event


def test_an_opaque_identifier_stays_where_its_place_says_that_it_is_one():  # DEC-10
    opaque = "call_00_" + alnum(40)
    event = Event(type="app.note", data={"m": [{"tool_call_id": opaque}, {"tool_calls": [{"id": opaque}]}]})
    assert STANDARD.redact(event) is event
    assert redacted({"a": {"id": VENDOR_KEYS["github"], "tool_call_id": EMAIL}}) == {
        "a": {"id": "[REDACTED:secret]", "tool_call_id": "[REDACTED:email]"}
    }


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"a": [1, 2.5, None, True, float("nan"), float("inf"), 10**400, -(10**20)], "b": {"c": "text"}},
        {"time": 1_760_000_000_000_000, "nanos": 1_760_000_000_000_000_000, "order": int(CARD) + 1},
        {1: {2: "x"}, None: 3, 2.5: 4, False: 5},
    ],
)
def test_an_event_in_which_nothing_is_found_is_the_same_object(data):  # RED-19
    event = Event(type="app.note", data=data, meta={"n": 1, "who": "me"})
    assert STANDARD.redact(event) is event


def test_parts_in_which_nothing_is_found_are_the_same_objects():  # RED-19
    untouched = {"a": [1]}
    result = redacted({"x": untouched, "to": EMAIL})
    assert result["x"] is untouched


@pytest.mark.parametrize("number", [int(CARD), float(CARD), [int(CARD)], {"a": int(CARD)}])
def test_a_number_is_rewritten_when_it_is_a_card(number):  # DEC-09
    assert CARD not in json.dumps(redacted({"n": number}))
    assert "[REDACTED:card]" in json.dumps(redacted({"n": number}))


def test_without_the_card_pattern_numbers_stay():  # DEC-09, RED-08
    event = Event(type="app.note", data={"n": int(CARD)})
    assert PatternRedactor([EMAIL_PATTERN]).redact(event) is event
    assert KEYS.redact(event) is event


BODY = "QUtJ" + "QVFXRVJUWVVJT1AyMzQ1Njc4YWJjZGVmZ2hpamtsbW5vcA=="


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image", "media_type": "image/png", "data": BODY},
        {"type": "base64", "media_type": "text/plain", "data": CARD},
        {"uri": "file:x", "mimeType": "application/octet-stream", "blob": BODY},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{BODY}"}},
    ],
)
def test_the_base64_body_of_an_attachment_is_left_alone(part):  # RED-20
    event = Event(type="app.note", data={"messages": [{"role": "user", "content": [part]}]})
    assert STANDARD.redact(event) is event


@pytest.mark.parametrize("body", [EMAIL, f"key {VENDOR_KEYS['openai']}", VENDOR_KEYS["github"]])
def test_what_is_no_base64_is_no_attachment(body):  # RED-20
    part = {"media_type": "text/plain", "data": body}
    assert redacted({"part": part})["part"]["data"] != body
    assert redacted({"part": {"url": f"data:text/plain;base64,{body}"}})["part"]["url"] != part["data"]


def test_base64_without_a_media_type_is_no_attachment():  # RED-20
    assert redacted({"part": {"data": CARD}}) == {"part": {"data": "[REDACTED:card]"}}


def test_redactors_are_redactors():  # RED-01
    assert all(isinstance(each, Redactor) for each in (STANDARD, PATTERNS, KEYS))


def mime(size: int) -> list[str]:
    """Base64 in lines as mail has them."""
    text = base64.encodebytes(random.Random(size).randbytes(size)).decode()
    return text.splitlines()


@pytest.mark.parametrize("size", [57, 114, 130, 57 * 16, 57 * 40 + 20])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_base64_in_lines_is_replaced_and_the_lines_around_it_stay(size, line_end):  # RED-03, RED-04
    lines = mime(size)
    result = text_of(line_end.join(["first line", *lines, "done", "f" * 64]))
    assert result.startswith(f"first line{line_end}")
    assert result.endswith(f"done{line_end}{'f' * 64}")
    assert not any(line[-40:] in result for line in lines if len(line) > 40)


def test_scrub_text_redacts_a_text_alone():  # RED-03
    assert PATTERNS.scrub_text(f"to {EMAIL}") == "to [REDACTED:email]"
