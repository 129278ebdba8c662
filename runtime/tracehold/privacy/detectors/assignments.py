"""A name and its value in text: JSON (escaped too), `.env` and YAML lines, query strings, connection strings, code."""

from __future__ import annotations

import re
from typing import Final

from tracehold.privacy.detector import Detector, Where
from tracehold.privacy.detectors.values import is_code_reference, is_placeholder, verdict_on
from tracehold.privacy.keys import KeyVerdict

_NAME_CHARS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
_NAME_MAX: Final = 48

_OPEN: Final = r"(?:(?P<escaped>\\{1,15}[\"'])|(?P<double>[fbru]?\")|(?P<single>[fbru]?')|(?P<tick>`))?"
_VALUE: Final = (
    r"(?P<secret>(?(escaped)(?:[^\"'\\]|\\{1,15}[^\"'\\]){1,4096}+"
    r"|(?(double)(?:[^\"\\\r\n]|\\.){1,4096}+"
    r"|(?(single)(?:[^'\\\r\n]|\\.){1,4096}+"
    r"|(?(tick)[^`]{1,4096}+"
    r"|[^\s\"'`<>(){}\[\]\\|,;&][^\s\"'`<>(){}\[\]\\,;&]{0,2047}+)))))"
)
_SEPARATOR: Final = (
    r"\\{0,15}[\"'`]?\]?[ \t]{0,8}+"
    r"(?:(?P<colon>:)(?:[ ]?[A-Za-z_][\w\[\]|. ]{0,30}=(?!=))?(?![:/])|=>|:=|={1,3}|>(?=[^<\s]{1,256}</))\s{0,8}+"
)

# Names that mean other things as well: in text, unlike in a key, the value must look like a credential.
_COMMON: Final = frozenset({"key", "auth", "token", "pass", "pwd", "pin", "secret", "cookie", "bearer", "credentials"})
_NUMERIC: Final = frozenset({"pin", "otp", "totp", "cvv", "cvc", "cvv2", "cvc2", "passcode"})
_SCHEMA: Final = re.compile(r"[\"'](?:type|\$ref|description|anyOf|enum|title)\\{0,15}[\"']")
_CODE_MAX: Final = 10
_SCHEMES: Final = frozenset({"bearer", "basic", "digest", "token", "negotiate", "apikey", "aws4-hmac-sha256"})


def _is_assigned_secret(match: re.Match[str]) -> bool:
    text = match.string
    name = _whole_name(match)
    value = match["secret"]
    verdict = verdict_on(name)
    if verdict is KeyVerdict.PLAIN or is_placeholder(value):
        return False
    quoted = match.lastgroup is not None and bool(match["escaped"] or match["double"] or match["single"] or match["tick"])
    lower = name.lower()
    if lower.endswith("authorization") and value.lower().rstrip() in _SCHEMES:
        return False
    if lower in _NUMERIC and value.isdigit():
        return len(value) <= _CODE_MAX
    if lower in _COMMON or verdict is not KeyVerdict.SECRET:
        return _has_substance(value)
    if quoted:
        return True
    if is_code_reference(value) or text[match.end() : match.end() + 1] in {"(", "["}:
        return False
    # "Password: must be ..." is a sentence; "password: hunter" at the end of a line is a setting.
    sentence = match["colon"] and value.isalpha() and value.islower() and text[match.end() : match.end() + 1] == " "
    return not sentence


def _is_secret_object(match: re.Match[str]) -> bool:
    body = match["secret"]
    return verdict_on(_whole_name(match)) is KeyVerdict.SECRET and _SCHEMA.search(body) is None


def _whole_name(match: re.Match[str]) -> str:
    """Return the whole name that a match found the end of."""
    text, start = match.string, match.start()
    window = text[max(0, start - _NAME_MAX) : start]
    return (window[len(window.rstrip(_NAME_CHARS)) :] + match["name"]).strip("-._")


def _has_substance(value: str) -> bool:
    digits = any(map(str.isdigit, value))
    letters = any(map(str.isalpha, value))
    return len(value) >= 6 and ((digits and letters) or len(value) >= 20 or (digits and len(value) <= 8))  # noqa: PLR2004


_PATTERN: Final = re.compile(rf"(?P<name>[A-Za-z_\"][A-Za-z0-9_.\-]{{0,{_NAME_MAX}}}+){_SEPARATOR}{_OPEN}{_VALUE}")

ASSIGNMENTS: Final = (
    Detector(
        name="assignment",
        pattern=_PATTERN,
        hints=("pass", "pwd", "secret", "token", "key", "auth", "cred", "sess", "jwt", "mnemonic", "otp", "pin", "cvv", "cvc", "ssn"),
        requires=("=", ":", "</"),
        check=_is_assigned_secret,
        group="secret",
        where=Where.AT_HINT,
    ),
    Detector(
        name="assignment",
        # A JSON object or array as a whole (TRC-03), but not the description of a parameter in a tool's schema.
        pattern=re.compile(
            r"(?P<name>[A-Za-z][A-Za-z0-9_.\-]{0,48}+)\\{0,15}[\"']\s{0,8}+:\s{0,8}+(?P<secret>\{[^{}]{2,4096}+\}?|\[[^\[\]]{2,4096}+\]?)"
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
            r"^[ \t]{0,8}(?:export |set |ENV |- )?(?P<name>[A-Za-z][A-Za-z0-9_]{2,48}+)=[\"']?(?P<secret>[^\s\"']{3,1024}+)[\"']?[ \t]{0,8}$",
            re.MULTILINE,
        ),
        hints=("pass", "secret", "token", "key", "pwd"),
        requires=("=",),
        check=lambda match: verdict_on(match["name"]) is KeyVerdict.SECRET
        and not is_placeholder(match["secret"])
        and not is_code_reference(match["secret"])
        and "(" not in match["secret"],
        group="secret",
    ),
    Detector(
        name="assignment",
        # "the password is hunter2": only a value that no sentence would hold.
        pattern=re.compile(
            r"(?i:password|passcode|passphrase|secret|pin|api key|token)[\"']? (?:is|was|are)(?: now| set to|:)? [\"'`]?"
            r"(?P<secret>(?=[^\s\"'`]{0,64}\d)[^\s\"'`,]{4,256}+)"
        ),
        hints=("pass", "secret", "pin ", "api key", "token"),
        requires=(" is ", " was ", " are "),
        check=lambda match: not is_placeholder(match["secret"]),
        group="secret",
        where=Where.AT_HINT,
    ),
    Detector(
        name="assignment",
        pattern=re.compile(
            r"code(?<=(?:cation|curity|.login|access|.-time|..time|factor|...mfa|...otp|..auth|...sms) code)(?: is|:| =)?[ ]{0,2}[\"'`]?(?P<secret>\d{4,8})\b"
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
        check=lambda match: not is_placeholder(match["secret"]),
        group="secret",
        where=Where.AT_HINT,
    ),
)
