"""Numbers with a checksum or a range that can be tested: cards, social security numbers, IBANs."""

from __future__ import annotations

import re
from typing import Final

from tracehold.privacy.checks import digits_of, is_card_number, is_iban, is_ssn
from tracehold.privacy.detector import Detector, Where

# Each pattern begins with a character class and looks back only then: the regular expression engine skips to the next
# such character by itself, which is several times faster than trying a look-behind everywhere.
_START: Final = r"(?<![\w.]\d)"

NUMBERS: Final = (
    Detector(
        name="card",
        pattern=re.compile(
            rf"\d{_START}(?:\d{{12,18}}+|\d{{3}}([ .-])(?:\d{{4}}\1\d{{4}}\1\d{{1,7}}|\d{{6}}\1\d{{4,5}}))(?![\d]|[.]\d|[A-Za-z_])"
        ),
        check=lambda match: is_card_number(digits_of(match[0])),
        where=Where.IN_DIGITS,
    ),
    Detector(
        name="ssn",
        pattern=re.compile(r"\d(?<![\w.-]\d)\d\d([ -])\d\d\1\d{4}(?![\w-])"),
        check=lambda match: is_ssn(digits_of(match[0])),
        where=Where.IN_DIGITS,
    ),
    Detector(
        name="ssn",
        pattern=re.compile(r"(?i)(?:ssn|social security (?:no\.?|number|#)?)[\"'\s:=#]{0,6}(?:is\s)?(\d{9}|\d{3}-\d{2}-\d{4})\b"),
        hints=("ssn", "social security"),
        where=Where.AT_HINT,
        group=1,
    ),
    Detector(
        name="iban",
        pattern=re.compile(
            r"[A-Z](?<![\w]\w)[A-Z]\d\d(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?(?![A-Za-z0-9])"
        ),
        check=lambda match: is_iban(match[0]),
        where=Where.IN_DIGITS,
    ),
)
