from __future__ import annotations

import random
import string

import pytest
from privacy_samples import IDENTIFIERS, hexits
from tracehold.privacy.checks import is_card_number, is_card_value, is_iban, is_ssn, passes_luhn
from tracehold.privacy.randomness import looks_generated

ISSUED = {
    "visa": "4111111111111111",
    "visa of 13 digits": "4222222222222",
    "mastercard": "5555555555554444",
    "mastercard 2-series": "2223003122003222",
    "american express": "378282246310005",
    "discover": "6011111111111117",
    "diners": "30569309025904",
    "jcb": "3566002020360505",
}


@pytest.mark.parametrize("number", ISSUED.values(), ids=ISSUED)
def test_a_number_in_an_issuer_s_range_that_passes_luhn_is_a_card(number):  # RED-04
    assert is_card_number(number)


@pytest.mark.parametrize("number", ISSUED.values(), ids=ISSUED)
def test_one_wrong_digit_makes_it_none(number):  # RED-05
    assert not is_card_number(number[:-1] + str((int(number[-1]) + 1) % 10))


def test_a_number_outside_every_issuer_s_range_is_no_card_though_it_passes_luhn():
    number = next(str(n) for n in range(1_700_000_000_000_000, 1_700_000_000_000_010) if passes_luhn(str(n)))
    assert not is_card_number(number)


@pytest.mark.parametrize("value", [4111111111111111, 4111111111111111.0])
def test_a_number_of_any_kind_can_be_a_card(value):  # DEC-09
    assert is_card_value(value)


@pytest.mark.parametrize(
    "value", [0, -4111111111111111, 10**5000, 1.5, float("nan"), float("inf"), 2 + 3j], ids=range(7)
)
def test_numbers_that_cannot_be_cards_are_none_and_raise_nothing(value):
    assert not is_card_value(value)


@pytest.mark.parametrize(
    "text", ["DE89370400440532013000", "GB29 NWBK 6016 1331 9268 19", "FR1420041010050500013M02606"]
)
def test_an_iban_passes_its_checksum_in_any_grouping(text):
    assert is_iban(text)


def test_an_iban_with_a_wrong_check_digit_is_none():
    assert not is_iban("DE88370400440532013000")


@pytest.mark.parametrize("digits", ["000123456", "666123456", "900123456", "123006789", "123450000"])
def test_an_impossible_social_security_number_is_none(digits):  # RED-06
    assert not is_ssn(digits)


@pytest.mark.parametrize("length", [32, 36, 43, 64, 100])
def test_letters_and_digits_drawn_at_random_look_generated(length):  # TRC-05
    draw = random.Random(length)
    texts = ["".join(draw.choices(string.ascii_letters + string.digits, k=length)) for _ in range(2000)]
    # By shape alone not every one can be told: about one in a thousand of the shortest reads like words.
    assert sum(not looks_generated(text) for text in texts) <= 6


@pytest.mark.parametrize("name", ["kebab name", "snake name", "camel name", "model", "path", "uuid", "traceparent"])
def test_names_that_people_wrote_do_not_look_generated(name):  # DEC-10, FR-43
    assert not looks_generated(IDENTIFIERS[name].replace(IDENTIFIERS["trace id"], hexits(16)))
