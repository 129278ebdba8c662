"""What points to a person: e-mail addresses, phone numbers, account names in paths, numbers of papers that say so."""

from __future__ import annotations

import re
from typing import Final

from tracehold.privacy.detector import Detector, Where

_LOCAL_CHARS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.!#$%&*+_-~^"
_AUTHORITY_MAX: Final = 256
_PHONE_MIN: Final = 8
_PHONE_MAX: Final = 15
_AUTHORITY_END: Final = re.compile(r"[\s/\"'<>]")
_SEPARATED_WORD: Final = r"[\w.+-]{1,64}+"


def _is_mailbox(match: re.Match[str]) -> bool:
    """Refuse the `git@host:path` of a source repository, and the user information of a URL, which is masked alone."""
    text, start = match.string, match.start()
    scheme_end = text.rfind("://", start - _AUTHORITY_MAX if start > _AUTHORITY_MAX else 0, start)
    if scheme_end >= 0 and _AUTHORITY_END.search(text, scheme_end + 3, start) is None:
        return False
    return not (text[start - 3 : start] == "git" and text[match.end() : match.end() + 1] in {":", "/"})


PEOPLE: Final = (
    Detector(
        name="email",
        # At most eight labels of 63 characters (RFC 1035 section 2.3.4); the local part stands before the hint.
        pattern=re.compile(r"@(?:[^\W_][\w-]{0,62}+\.){1,8}[^\W\d_][\w-]{1,23}"),
        hints=("@",),
        check=_is_mailbox,
        where=Where.AT_HINT,
        before=_LOCAL_CHARS,
    ),
    Detector(
        name="email",
        pattern=re.compile(
            rf"(?<![\w.+-]){_SEPARATED_WORD}[ ]?[\[(](?:at|AT)[\])][ ]?[\w-]{{1,63}}"
            r"(?:[ ]?(?:[\[(](?:dot|DOT)[\])]|\.)[ ]?[\w-]{2,63}){1,5}"
        ),
        hints=("[at]", "(at)"),
        requires=("[", "("),
    ),
    Detector(
        name="home",
        pattern=re.compile(
            r"(?:/mnt/[a-z]|(?<![\w.-]))/(?:home|Users)/(?!Shared\b|\*)([^/\s\\\"'`<>:;,|()\[\]{}?#*]{1,64})"
        ),
        hints=("/home/", "/users/"),
        requires=("/",),
        group=1,
    ),
    Detector(
        name="home",
        pattern=re.compile(r"[A-Za-z]:\\{1,4}Users\\{1,4}(?!Public\b|\*)([^/\s\\\"'`<>:;,|()\[\]{}?#*]{1,64})"),
        hints=(":\\users\\", ":\\\\users\\\\", ":\\\\\\\\users"),
        requires=("\\",),
        group=1,
    ),
    Detector(
        name="phone",
        pattern=re.compile(
            # Class first, look-behind second: the engine then skips to the next such character by itself.
            r"[(1-9](?<![\w+.-][(1-9])(?:(?<=\()[2-9]\d\d\)[ .-]?|(?<=[2-9])\d\d[ .-]|(?<=1)[ .-]\(?[2-9]\d\d\)?[ .-])"
            r"[2-9]\d\d[ .-]\d{4}(?![\w-])",
        ),
        shapes=("000-0000", "000 0000", "000.0000"),
    ),
    Detector(
        name="phone",
        # ITU-T E.164: at most 15 digits after the plus.
        pattern=re.compile(r"\+(?<![\w+/=.]\+)[1-9]\d{0,2}(?:[ .\-]{0,2}\(?\d{1,5}\)?){2,6}(?![\w=/+])"),
        hints=("+",),
        where=Where.AT_HINT,
        check=lambda match: _PHONE_MIN <= sum(map(str.isdigit, match[0])) <= _PHONE_MAX,
    ),
    Detector(
        name="passport",
        pattern=re.compile(
            r"(?i)passport(?:[ _]?(?:no|num|number|nr|id)\b\.?)?[\"'\s:=#]{0,6}(?:is\s)?([A-Z]{0,2}\d{6,9})\b"
        ),
        hints=("passport",),
        shapes=("0000",),
        where=Where.AT_HINT,
        group=1,
    ),
    Detector(
        name="bank_account",
        pattern=re.compile(
            r"(?i)(?:account|acct|routing)[ _.]?(?:no|num|number|nr)?\b[.\"']{0,2}[\s:=#]{0,4}(?:is\s)?"
            r"(\d[\d -]{4,20}\d)\b"
        ),
        hints=("account", "acct", "routing"),
        shapes=("0000",),
        where=Where.AT_HINT,
        check=lambda match: "n" in match[0][7:12].lower() or "routing" in match[0].lower(),
        group=1,
    ),
    Detector(
        name="bank_account",
        pattern=re.compile(r"(?i)sort[ _-]?code[\s:=\"']{0,5}(\d{2}[ -]?\d{2}[ -]?\d{2})\b"),
        hints=("sort code", "sort_code", "sortcode", "sort-code"),
        shapes=("0000",),
        where=Where.AT_HINT,
        group=1,
    ),
)
