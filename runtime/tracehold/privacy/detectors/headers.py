"""Credentials in HTTP headers, as they stand in logs, `curl` commands and JSON."""

from __future__ import annotations

import re
from typing import Final

from tracehold.privacy.detector import Detector, Where
from tracehold.privacy.detectors.values import is_placeholder
from tracehold.privacy.vocabulary import words

_COLON: Final = r"\\{0,3}[\"']?[ \t]{0,4}[:=][ \t]{0,4}+(?:\\{0,3}[\"'])?+[ \t]?+"

_CREDENTIAL_MIN: Final = 6
_LONGER_THAN_WORDS: Final = 20
# Words that follow "Bearer" or "Basic" in sentences about them.
_PROSE: Final = words(
    "token tokens auth authentication authorization authorisation scheme schemes header headers credential credentials"
    " is was of the and or in for with based format type types realm error access method prefix string value values not"
    " missing required must should be has have to as a an bond bonds share shares certificate security support"
    " information usage example examples concepts needs need plan tier setup html auth0 rate case cases test tests"
    " functionality operations knowledge understanding skills english math rules level version"
)


def _is_bearer(match: re.Match[str]) -> bool:
    word = match["secret"]
    if word.isalpha() and word.isascii():
        capital = match[0][0] == "B"
        return len(word) >= _LONGER_THAN_WORDS or (
            capital and len(word) >= _CREDENTIAL_MIN and word.lower() not in _PROSE
        )
    prose = word.rstrip(".,:;").lower() in _PROSE
    return len(word) >= _CREDENTIAL_MIN and not prose and not is_placeholder(word)


def _is_basic(match: re.Match[str]) -> bool:
    word = match["secret"]
    return any(char.isdigit() or char.isupper() or char == "=" for char in word[1:])


def _is_header_value(match: re.Match[str]) -> bool:
    value = match["secret"]
    first = value.split(None, 1)[0].strip(".,;").lower() if value.strip() else ""
    return bool(first) and first not in _PROSE and not is_placeholder(value)


HEADERS: Final = (
    Detector(
        name="bearer",
        pattern=re.compile(r"(?i:bearer)(?:[ \t]{1,4}|%20|\+|\\{0,2}u0020)(?P<secret>[A-Za-z0-9._~+/=-]{4,}+)"),
        hints=("bearer",),
        check=_is_bearer,
        group="secret",
        where=Where.AT_HINT,
    ),
    Detector(
        name="basic",
        pattern=re.compile(r"(?i:basic)[ \t]{1,4}(?P<secret>[A-Za-z0-9+/_-]{8,2048}+={0,2})(?![\w.])"),
        hints=("basic ",),
        check=_is_basic,
        group="secret",
        where=Where.AT_HINT,
    ),
    Detector(
        name="authorization",
        pattern=re.compile(
            rf"(?i:authorization){_COLON}(?!(?i:bearer)\b)(?:(?i:basic|digest|token|apikey|api-key|negotiate|ntlm|hawk|dpop"
            r"|aws4-hmac-sha256|sharedkey|sharedaccesssignature|splunk|genie[Kk]ey|hmac-[\w-]{1,20})[ \t]{1,3})?"
            r"(?P<secret>[^\r\n\"'\\]{3,1024}+)"
        ),
        hints=("authorization",),
        requires=(":", "="),
        check=_is_header_value,
        group="secret",
        where=Where.AT_HINT,
    ),
    Detector(
        name="cookie",
        pattern=re.compile(rf"(?i:set-cookie2?){_COLON}(?P<secret>[^\s\"'\\=;]{{1,128}}+=[^\r\n\"'\\;]{{1,4096}}+)"),
        hints=("set-cookie",),
        requires=(":", "="),
        group="secret",
        where=Where.AT_HINT,
    ),
    Detector(
        name="cookie",
        pattern=re.compile(
            rf"(?i:cookie)(?<!-.{{6}}){_COLON}(?P<secret>[^\s\"'\\=;]{{1,128}}+=[^\r\n\"'\\]{{1,8192}}+)"
        ),
        hints=("cookie",),
        requires=(":", "="),
        group="secret",
        where=Where.AT_HINT,
    ),
)
