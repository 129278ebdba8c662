"""A name and its value in text: JSON (escaped too), `.env` and YAML lines, query strings, connection strings, code.

The literals below find the places, the name in front of the separator decides (by the rules for keys, so that text
and data agree), and the value may still turn out to be a placeholder, a type or a word of prose.
"""

from __future__ import annotations

import re
from typing import Final

from tracehold.privacy.detector import Detector, Where
from tracehold.privacy.detectors.values import is_code_reference, is_placeholder, verdict_on
from tracehold.privacy.keys import KeyVerdict
from tracehold.privacy.randomness import is_hex_identifier, looks_generated

_NAME_CHARS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
_NAME_MAX: Final = 48
_CODE_MAX: Final = 8
_CREDENTIAL_MIN: Final = 6
_WORD_MAX: Final = 20

_OPEN: Final = r"(?:(?P<escaped>\\{1,15}[\"'])|(?P<double>[fbru]?\")|(?P<single>[fbru]?')|(?P<tick>`))?"
# A few equals signs may stand in a bare value; without that bound `a=a=a=...` would be read again from each place.
_BARE: Final = r"[^\s\"'`<>(){}\[\]\\,;&=]"
_VALUE: Final = (
    r"(?P<secret>(?(escaped)(?:[^\"'\\]|\\{1,15}[^\"'\\]){1,4096}+"
    r"|(?(double)(?:[^\"\\\r\n]|\\.){1,4096}+"
    r"|(?(single)(?:[^'\\\r\n]|\\.){1,4096}+"
    r"|(?(tick)[^`]{1,4096}+"
    rf"|{_BARE}{{1,512}}+(?:=+{_BARE}{{0,512}}+){{0,3}})))))"
)
_ANNOTATION: Final = r"(?:str|bytes|SecretStr|string|String|Text|Optional\[str\]|str \| None)"
_SEPARATOR: Final = (
    r"(?:\\{0,15}[\"'`]\]?)?[ \t]{0,8}+"
    rf"(?:(?P<colon>:)(?:[ ]?{_ANNOTATION}[ ]?=(?!=))?(?![:/])"
    r"|=>|:=|={1,3}|>(?=[^<\s]{1,256}</))\s{0,8}+"
)
_SCHEMA: Final = re.compile(r"[\"'](?:type|\$ref|description|anyOf|enum|title)\\{0,15}[\"']")

# Names that mean other things as well: in text, unlike in a key, the value must look like a credential.
_COMMON: Final = frozenset({"key", "auth", "token", "pass", "pwd", "pin", "secret", "cookie", "bearer", "credentials"})
_NUMERIC: Final = frozenset({"pin", "otp", "totp", "cvv", "cvc", "cvv2", "cvc2", "passcode"})
_SCHEMES: Final = frozenset({"bearer", "basic", "digest", "token", "negotiate", "apikey", "aws4-hmac-sha256"})


def _is_assigned_secret(match: re.Match[str]) -> bool:
    name = _whole_name(match)
    verdict = verdict_on(name)
    if verdict is KeyVerdict.PLAIN:
        return False
    value = match["secret"]
    lower = name.lower()
    if is_placeholder(value) or (lower.endswith("authorization") and value.lower().rstrip() in _SCHEMES):
        return False
    if lower in _NUMERIC and value.isdigit():
        return len(value) <= _CODE_MAX
    if verdict is KeyVerdict.WEAK_KEY:
        return looks_generated(value) or is_hex_identifier(value)
    if lower in _COMMON or verdict is not KeyVerdict.SECRET:
        return _has_substance(value)
    quoted = match["escaped"] or match["double"] or match["single"] or match["tick"]
    return bool(quoted) or not _is_code_or_prose(match)


def _is_code_or_prose(match: re.Match[str]) -> bool:
    value = match["secret"]
    following = match.string[match.end() : match.end() + 1]
    if following in {"(", "["} or is_code_reference(value):
        return True
    # "Password: must be ..." is a sentence; "password: hunter" at the end of a line is a setting.
    return bool(match["colon"]) and value.isalpha() and value.islower() and following == " "


def _is_secret_object(match: re.Match[str]) -> bool:
    return verdict_on(_whole_name(match)) is KeyVerdict.SECRET and _SCHEMA.search(match["secret"]) is None


def _is_environment_line(match: re.Match[str]) -> bool:
    value = match["secret"]
    return (
        verdict_on(match["name"]) is KeyVerdict.SECRET
        and "(" not in value
        and not is_placeholder(value)
        and not is_code_reference(value)
    )


def _whole_name(match: re.Match[str]) -> str:
    """Return the whole name that a match found the end of."""
    text, start = match.string, match.start()
    window = text[max(0, start - _NAME_MAX) : start]
    return (window[len(window.rstrip(_NAME_CHARS)) :] + match["name"]).strip("-._")


def _has_substance(value: str) -> bool:
    """Return whether a value is longer than words are, holds letters and digits, or is a code of digits alone."""
    if len(value) >= _WORD_MAX:
        return True
    digits = any(map(str.isdigit, value))
    return digits and len(value) >= _CREDENTIAL_MIN and (any(map(str.isalpha, value)) or len(value) <= _CODE_MAX)


def _not_placeholder(match: re.Match[str]) -> bool:
    return not is_placeholder(match["secret"])


_STEMS: Final = ("pass", "pwd", "secret", "token", "key", "auth", "cred", "sess", "jwt", "mnemonic")
_NUMERIC_STEMS: Final = ("otp", "pin", "cvv", "cvc", "ssn")

ASSIGNMENTS: Final = (
    Detector(
        name="assignment",
        pattern=re.compile(rf"(?P<name>[A-Za-z][A-Za-z0-9_.\-]{{0,{_NAME_MAX}}}+){_SEPARATOR}{_OPEN}{_VALUE}"),
        hints=(*_STEMS, *_NUMERIC_STEMS),
        requires=("=", ":", "<"),
        check=_is_assigned_secret,
        group="secret",
        where=Where.AT_HINT,
    ),
    Detector(
        name="assignment",
        # A JSON object or array as a whole (TRC-03), but not the description of a parameter in a tool's schema.
        pattern=re.compile(
            rf"(?P<name>[A-Za-z][A-Za-z0-9_.\-]{{0,{_NAME_MAX}}}+)\\{{0,15}}[\"']\s{{0,8}}+:\s{{0,8}}+"
            r"(?P<secret>\{[^{}]{2,4096}+\}?|\[[^\[\]]{2,4096}+\]?)"
        ),
        hints=("pass", "secret", "token", "key", "auth", "cred", "cookie"),
        requires=("{", "["),
        check=_is_secret_object,
        group="secret",
        where=Where.AT_HINT,
    ),
    Detector(
        name="assignment",
        # A line of an environment file: the value is the whole rest, whatever it holds.
        pattern=re.compile(
            r"^[ \t]{0,8}(?:export |set |ENV |- )?(?P<name>[A-Za-z][A-Za-z0-9_]{2,48}+)="
            r"[\"']?(?P<secret>[^\s\"']{3,1024}+)[\"']?[ \t]{0,8}$",
            re.MULTILINE,
        ),
        hints=("pass", "secret", "token", "key", "pwd"),
        requires=("=",),
        check=_is_environment_line,
        group="secret",
    ),
    Detector(
        name="assignment",
        # "the password is hunter2": only a value that no sentence would hold.
        pattern=re.compile(
            r"(?i:password|passcode|passphrase|secret|pin|api key|token)[\"']? (?:is|was|are)(?: now| set to|:)? "
            r"[\"'`]?(?P<secret>(?=[^\s\"'`]{0,64}\d)[^\s\"'`,]{4,256}+)"
        ),
        hints=("pass", "secret", "pin ", "api key", "token"),
        requires=(" is ", " was ", " are "),
        check=_not_placeholder,
        group="secret",
        where=Where.AT_HINT,
    ),
    Detector(
        name="assignment",
        # "your verification code is 482913"
        pattern=re.compile(
            r"code(?<=(?:cation|curity|.login|access|.-time|..time|factor|...mfa|...otp|..auth|...sms) code)"
            r"(?: is|:| =)?[ ]{0,2}[\"'`]?(?P<secret>\d{4,8})\b"
        ),
        hints=("code",),
        shapes=("0000",),
        group="secret",
        where=Where.AT_HINT,
    ),
    Detector(
        name="assignment",
        # SQL: IDENTIFIED BY '...', WITH PASSWORD '...'
        pattern=re.compile(r"(?i:identified by|password)\s{1,4}'(?P<secret>[^'\n]{1,256}+)'"),
        hints=("identified by '", "password '"),
        requires=("'",),
        check=_not_placeholder,
        group="secret",
        where=Where.AT_HINT,
    ),
)
