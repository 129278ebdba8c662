"""Numbers with a checksum or a range that can be tested: cards, social security numbers, IBANs."""

from __future__ import annotations

import re
from typing import Final

from tracehold.privacy.checks import IBAN_PATTERN, digits_of, is_card_number, is_iban, is_ssn
from tracehold.privacy.detector import Detector, Where

NUMBERS: Final = (
    Detector(
        name="card",
        pattern=re.compile(
            r"\d(?<![\w.]\d)(?:\d{12,18}+|\d{3}([ .-])(?:\d{4}\1\d{4}\1\d{1,7}|\d{6}\1\d{4,5}))(?!\d|[.]\d|[A-Za-z_])"
        ),
        shapes=(
            "0000000000000",
            *(f"0000{separator}0000{separator}0000{separator}0" for separator in " -."),
            *(f"0000{separator}000000{separator}0000" for separator in " -."),
        ),
        check=lambda match: is_card_number(digits_of(match[0])),
        where=Where.AT_SHAPE,
    ),
    Detector(
        name="ssn",
        pattern=re.compile(r"\d(?<![\w.-]\d)\d\d([ -])\d\d\1\d{4}(?![\w-])"),
        shapes=("000-00-0000", "000 00 0000"),
        check=lambda match: is_ssn(digits_of(match[0])),
        where=Where.AT_SHAPE,
    ),
    Detector(
        name="ssn",
        pattern=re.compile(
            r"(?i)(?:ssn|social security (?:no\.?|number|#)?)[\"'\s:=#]{0,6}(?:is\s)?(\d{9}|\d{3}-\d{2}-\d{4})\b"
        ),
        hints=("ssn", "social security"),
        shapes=("0000",),
        where=Where.AT_HINT,
        group=1,
    ),
    Detector(
        name="iban",
        pattern=re.compile(rf"(?<!\w)(?:{IBAN_PATTERN})(?![A-Za-z0-9])"),
        shapes=("AA00",),
        check=lambda match: is_iban(match[0]),
        where=Where.AT_SHAPE,
    ),
    Detector(
        name="national_insurance",
        # UK: HMRC's rules for the letters.
        pattern=re.compile(
            r"(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z](?<!\w\w)[A-CEGHJ-NPR-TW-Z] ?\d\d ?\d\d ?\d\d ?[A-D](?!\w)"
        ),
        shapes=("AA000000A", "AA 000000 A"),
        where=Where.AT_SHAPE,
    ),
)
