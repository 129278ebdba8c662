"""DEC-09: keys, dataclasses, named tuples, bytes and hostile structures."""

from __future__ import annotations

import collections
import dataclasses
import enum
import sys
import threading
from decimal import Decimal
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from privacy_samples import CARD, EMAIL, PASSWORD, VENDOR_KEYS
from tracehold.events.event import Event
from tracehold.privacy.redactors import KeyRedactor, PatternRedactor, Redactor, standard_redactor

STANDARD = standard_redactor()


def redacted(value: Any, redactor: Redactor = STANDARD) -> Any:
    return redactor.redact(Event(type="app.note", data={"v": value})).data["v"]


@dataclasses.dataclass(frozen=True)
class Account:
    owner: str
    password: str
    n: int = 1


@dataclasses.dataclass(slots=True)
class Slotted:
    owner: str


class Login(NamedTuple):
    owner: str
    password: str


class Colour(enum.Enum):
    MAIL = EMAIL
    RED = "red"


class Model:
    """What a pydantic model looks like from outside."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def model_dump(self) -> dict[str, Any]:
        return dict(self._fields)


def test_keys_are_redacted():  # DEC-09
    assert redacted({EMAIL: 1, f"to {EMAIL}": 2, "plain": 3}) == {
        "[REDACTED:email]": 1,
        "to [REDACTED:email]": 2,
        "plain": 3,
    }


def test_two_masked_keys_never_collide_and_keep_their_order():  # DEC-09
    result = redacted({"a@b.co": 1, "[REDACTED:email]": 2, "c@d.co": 3, "[REDACTED:email]#2": 4})
    assert sorted(result.values()) == [1, 2, 3, 4]
    assert list(result.values()) == [1, 2, 3, 4]


def test_many_masked_keys_cost_one_step_each():  # RED-21, DEC-09
    result = redacted({f"a{n}@b.co": n for n in range(20_000)})
    assert list(result.values()) == list(range(20_000))


@pytest.mark.parametrize("key", [f"token {EMAIL}", f"{EMAIL} password"])
def test_a_key_that_holds_a_secret_still_names_one(key):  # DEC-09, RED-01
    once = redacted({key: "x"})
    assert list(once.values()) == ["[REDACTED]"]
    assert redacted(once) == once


def test_the_mask_of_a_secret_in_a_key_names_none():  # RED-01
    once = redacted({VENDOR_KEYS["openai"]: "x"})
    assert once == {"[REDACTED:secret]": "x"}
    assert redacted(once) == once


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (int(CARD), "[REDACTED:card]"),
        (EMAIL.encode(), b"[REDACTED:email]"),
        ((EMAIL, 1), ("[REDACTED:email]", 1)),
        (frozenset([EMAIL]), frozenset(["[REDACTED:email]"])),
        (Login(EMAIL, "x"), Login("[REDACTED:email]", "[REDACTED]")),
        (5, 5),
        (None, None),
    ],
)
def test_keys_of_other_types_are_redacted_too(key, expected):  # DEC-09
    assert list(redacted({key: "x"})) == [expected]


def test_a_secret_name_in_bytes_is_a_secret_name():  # DEC-09
    assert redacted({b"password": "x"}) == {b"password": "[REDACTED]"}


def test_a_dataclass_keeps_its_type():  # DEC-09
    assert redacted(Account(EMAIL, "x")) == Account("[REDACTED:email]", "[REDACTED]")
    assert redacted(Slotted(EMAIL)) == Slotted("[REDACTED:email]")


def test_what_a_dataclass_holds_beside_its_fields_is_redacted():  # DEC-09
    account = Account("me", "x")
    object.__setattr__(account, "note", EMAIL)
    assert redacted(account).__dict__["note"] == "[REDACTED:email]"
    assert account.__dict__["note"] == EMAIL


def test_a_dataclass_that_cannot_be_copied_becomes_its_fields():  # DEC-09
    @dataclasses.dataclass
    class Stubborn:
        owner: str

        def __copy__(self) -> Stubborn:
            raise RuntimeError

    assert redacted(Stubborn(EMAIL)) == {"owner": "[REDACTED:email]"}


def test_a_named_tuple_keeps_its_type_and_its_fields_are_keys():  # DEC-09
    assert redacted(Login("me", PASSWORD), KeyRedactor()) == Login("me", "[REDACTED]")
    assert type(redacted(Login("me", PASSWORD))) is Login


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_bytes_stay_bytes(kind):  # DEC-09
    assert redacted(kind(b"\xff to " + EMAIL.encode())) == b"\xff to [REDACTED:email]"
    assert type(redacted(kind(EMAIL.encode()))) is kind


def test_a_view_of_memory_becomes_bytes_when_something_is_found():  # DEC-09
    assert redacted(memoryview(EMAIL.encode())) == b"[REDACTED:email]"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((EMAIL, 1, 2), ("[REDACTED:email]", 1, 2)),
        ({EMAIL, "x"}, {"[REDACTED:email]", "x"}),
        (frozenset([EMAIL]), frozenset(["[REDACTED:email]"])),
        (collections.OrderedDict(a=EMAIL), {"a": "[REDACTED:email]"}),
        (MappingProxyType({"a": EMAIL}), {"a": "[REDACTED:email]"}),
        (Colour.MAIL, "[REDACTED:email]"),
        (Decimal(CARD), "[REDACTED:card]"),
        (Exception(f"to {EMAIL}"), "to [REDACTED:email]"),
        (PurePosixPath("/srv") / EMAIL, "/srv/[REDACTED:email]"),
        (Model(password="x", n=1), {"password": "[REDACTED]", "n": 1}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_values_are_looked_into(value, expected):  # DEC-09
    assert redacted(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        Account("me", None),  # type: ignore[arg-type]
        Slotted("me"),
        ("a", 1),
        {"x"},
        b"\xff",
        Colour.RED,
        Decimal("1.5"),
        Exception("x"),
        collections.deque([1]),
        MappingProxyType({"a": 1}),
        Model(n=1),
        int,
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_of_any_type_in_which_nothing_is_found_is_the_same_object(value):  # RED-19
    event = Event(type="app.note", data={"v": value})
    assert STANDARD.redact(event) is event


class LyingDict(dict):  # type: ignore[type-arg]
    """Says that it is empty; JSON writers do not ask."""

    def items(self) -> Any:
        return ()


def test_a_dict_that_hides_its_items_hides_nothing():  # DEC-09
    assert redacted(LyingDict(a=EMAIL)) == {"a": "[REDACTED:email]"}


def test_a_value_that_holds_itself_ends():  # RED-21
    loop: list[Any] = [EMAIL]
    loop.append(loop)
    assert redacted(loop) == ["[REDACTED:email]", "[REDACTED:cycle]"]


@pytest.mark.parametrize("wrap", [lambda x: [x, x], lambda x: {"a": x, "b": x}, lambda x: (x, x), Slotted])
@pytest.mark.parametrize("place", ["v", "usage"])
def test_parts_that_share_each_other_are_walked_through_once(wrap, place):  # RED-21
    value: Any = {"password": PASSWORD, "to": EMAIL}
    for _ in range(60):
        value = wrap(value)
    result = STANDARD.redact(Event(type="app.note", data={place: value})).data[place]
    for _ in range(60):
        result = result.owner if isinstance(result, Slotted) else result["a"] if isinstance(result, dict) else result[0]
    assert result == {"password": "[REDACTED]", "to": "[REDACTED:email]"}


def test_two_hundred_levels_are_redacted_and_kept():  # DEC-09
    value: Any = EMAIL
    for _ in range(198):
        value = {"a": value}
    result = redacted(value)
    for _ in range(198):
        result = result["a"]
    assert result == "[REDACTED:email]"


def test_what_is_nested_deeper_is_left_out():  # RED-21
    value: Any = EMAIL
    for _ in range(100_000):
        value = [value]
    result = redacted(value)
    while isinstance(result, list):
        (result,) = result
    assert result == "[REDACTED:too deep]"


def test_little_stack_left_costs_depth_and_not_the_event():  # RED-01
    value: Any = EMAIL
    for _ in range(100):
        value = [value]

    def deep_call(levels: int) -> Any:
        return deep_call(levels - 1) if levels else redacted(value)

    frame, depth = sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1  # type: ignore[assignment]
    result = deep_call(sys.getrecursionlimit() - depth - 60)
    while isinstance(result, list):
        (result,) = result
    assert result == "[REDACTED:too deep]"


@pytest.mark.parametrize("odd", ["\ud800", "\x00", "\u200b" * 50, "\n"])
def test_odd_characters_do_no_harm(odd):  # RED-03
    assert redacted(odd) == odd
    assert redacted(f"{odd} {EMAIL} {odd}") == f"{odd} [REDACTED:email] {odd}"


def test_a_cache_keeps_no_secret_alive():  # RED-01
    redactor = PatternRedactor()
    redactor.redact(Event(type="app.note", data={EMAIL: [VENDOR_KEYS["github"]], "v": EMAIL}))
    held = repr([getattr(redactor._walk, slot) for slot in type(redactor._walk).__slots__])
    held += repr(redactor._rules.known_clean)
    assert EMAIL not in held
    assert VENDOR_KEYS["github"] not in held


def test_threads_share_a_redactor():  # RED-01
    results: list[bool] = []

    def work(n: int) -> None:
        own = [f"user{n}.{i}@example.com" for i in range(200)]
        data = {address: {"k" + str(i): address} for i, address in enumerate(own)}
        result = repr(STANDARD.redact(Event(type=f"t.{n}", data=data)).data)
        results.append(not any(address in result for address in own))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 8
