"""Credentials in URLs: user information and signed query parameters; host and path stay (FR-39)."""

from __future__ import annotations

import re
from typing import Final

from tracehold.privacy.detector import Detector, Where
from tracehold.privacy.detectors.values import is_placeholder


def _is_user_info(match: re.Match[str]) -> bool:
    user_info = match["secret"]
    # `git@` is the fixed account of source repositories, and no secret.
    return user_info != "git" and not is_placeholder(user_info.rpartition(":")[2])


URLS: Final = (
    Detector(
        name="url_credentials",
        pattern=re.compile(
            r"://(?P<secret>[^\s/\"'<>@`]{0,256}+(?:@[^\s/\"'<>@`]{0,256}+){0,3}(?=@(?<!@@))|[^\s/\"'<>@`]{1,256}+)@"
        ),
        hints=("://",),
        requires=("@",),
        check=_is_user_info,
        group="secret",
        where=Where.AT_HINT,
    ),
    Detector(
        name="url_signature",
        pattern=re.compile(
            r"(?i)(?:sig|signature|credential|security-token|googleaccessid|code|hmac|hash|key|sid|state|nonce|assertion)"
            r"=(?P<secret>[^&\s\"'#<>\\;]{8,1024}+)"
        ),
        hints=("sig=", "signature=", "credential=", "code=", "key=", "assertion=", "security-token="),
        requires=("?", "&", "#"),
        check=lambda match: _is_parameter(match) and not is_placeholder(match["secret"]),
        group="secret",
        where=Where.AT_HINT,
    ),
)


def _is_parameter(match: re.Match[str]) -> bool:
    """Return whether a name stands in a query or fragment, and its value is no plain word."""
    text, start = match.string, match.start()
    name_start = start - (len(window := text[max(0, start - 24) : start]) - len(window.rstrip(_NAME_CHARS)))
    value = match["secret"]
    return name_start > 0 and text[name_start - 1] in "?&#" and (any(map(str.isdigit, value)) or not value.islower())


_NAME_CHARS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.%"
