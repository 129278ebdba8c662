"""Checks that tell a real secret from a look-alike: checksums, number ranges, randomness."""

from __future__ import annotations

import re
from typing import Final

_DIGITS: Final = frozenset("0123456789")
_LUHN_DOUBLED: Final = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)

# Issuer ranges by ISO/IEC 7812 prefix, with the lengths in use. A range keeps one Luhn-valid number in ten, such
# as an epoch in microseconds or an order number, from being taken for a card.
_CARD: Final = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|(?:5[1-5]|2(?:22[1-9]|2[3-9]|[3-6]|7[01]|720))\d*|3[47]\d{13}"
    r"|3(?:0[0-5]|[68]\d)\d{11}|35(?:2[89]|[3-8]\d)\d{12}|6(?:011|5\d\d|4[4-9]\d|2\d\d)\d{12,15}"
    r"|(?:5018|5020|5038|58\d\d|6304|6759|676[1-3])\d{8,15}"
)
_MASTERCARD_LENGTH: Final = 16
_CARD_FLOOR: Final = 10**12
_CARD_CEILING: Final = 10**19
_CARD_MIN: Final = 13
_CARD_MAX: Final = 19
# ISO 13616 registry: how many characters an IBAN of each country has.
_IBAN_COUNTRIES: Final = {
    15: "NO",
    16: "BE",
    18: "DK FI FO GL NL SD",
    19: "MK SI",
    20: "AT BA EE KZ LT LU MN XK",
    21: "CH CR HR LI LV",
    22: "BG BH DE GB GE IE ME RS VA",
    23: "AE GI IL IQ OM SO TL",
    24: "AD CZ ES MD PK RO SA SE SK TN VG",
    25: "LY PT ST",
    26: "IS TR",
    27: "BI DJ FR GR IT MC MR SM",
    28: "AL AZ BY CY DO GT HU LB NI PL SV",
    29: "BR EG PS QA UA",
    30: "JO KW MU YE",
    31: "MT SC",
    32: "LC",
    33: "RU",
}
IBAN_PATTERN: Final = "|".join(
    rf"(?:{countries.replace(' ', '|')})\d\d(?:[ -]?[A-Z0-9]){{{length - 4}}}"
    for length, countries in _IBAN_COUNTRIES.items()
)
"""Matches the form of an IBAN, compact or in groups; `is_iban` then tests its check digits."""


def digits_of(text: str) -> str:
    """Return the ASCII digits of `text`."""
    return "".join(char for char in text if char in _DIGITS)


def passes_luhn(digits: str) -> bool:
    """Return whether ASCII `digits` pass the Luhn check (ISO/IEC 7812-1 annex B)."""
    odd = sum(map(int, digits[-1::-2]))
    even = sum(_LUHN_DOUBLED[int(char)] for char in digits[-2::-2])
    return (odd + even) % 10 == 0


def is_card_number(digits: str) -> bool:
    """Return whether ASCII `digits` are a payment card number: an issuer's range, its length, Luhn (RED-04, RED-05)."""
    if not _CARD_MIN <= len(digits) <= _CARD_MAX or not _CARD.fullmatch(digits):
        return False
    if digits[0] in "25" and digits[:2] not in {"50", "58"} and len(digits) != _MASTERCARD_LENGTH:
        return False
    return passes_luhn(digits) and len(set(digits)) > 1


def is_card_value(number: object) -> bool:
    """Return whether a number, of any kind, is a payment card number (DEC-09)."""
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if isinstance(number, int) and not _CARD_FLOOR <= number < _CARD_CEILING:
        return False  # a number of thousands of digits cannot even be written as text
    return is_card_number(str(number))


def is_iban(text: str) -> bool:
    """Return whether ASCII `text` (spaces and hyphens allowed) passes the check of ISO 13616: mod 97 is 1."""
    compact = text.replace(" ", "").replace("-", "").upper()
    return compact.isalnum() and int("".join(str(int(char, 36)) for char in compact[4:] + compact[:4])) % 97 == 1


def is_ssn(digits: str) -> bool:
    """Return whether nine digits can be a US social security number (RED-06): no area 000, 666, 9xx, no zero group."""
    area, group, serial = digits[:3], digits[3:5], digits[5:]
    return area not in {"000", "666"} and area[0] != "9" and group != "00" and serial != "0000"
