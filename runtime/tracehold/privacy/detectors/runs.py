"""Long unbroken runs of token characters that nothing explains (TRC-05), with the exceptions of DEC-10."""

from __future__ import annotations

import re
from typing import Final

from tracehold.privacy.detector import Detector, Where
from tracehold.privacy.randomness import is_hex_identifier, looks_generated, mean_piece

_LONG: Final = 32
_UUID: Final = re.compile(
    r"(?:[\w-]{0,40}[-_])?[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}(?:-[0-9]{1,4})?\Z"
)
_ULID: Final = re.compile(r"(?:[A-Za-z][A-Za-z_-]{0,40}[-_])?[0-7][0-9A-HJKMNP-TV-Z]{25}\Z")
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}\Z")
# Identifiers that providers hand out: a word for the kind, perhaps one for the platform, and one unbroken part.
_PREFIXED_ID: Final = re.compile(
    r"(?:chatcmpl|cmpl|call|toolu|tool|msg|run|resp|thread|asst|step|file|batch|req|request|gen|ftjob|evt|event|rs|fc|ws"
    r"|ig|conv|conversation|session|sess|trace|span|task|job|user|usr|org|proj|project|acct|cus|pi|ch|in|sub|prod|price"
    r"|seti|item|vs|vsfc|snapshot|modelresp|modr|chat|completion|embd|srvtoolu|container|cntr|doc|chunk|node|wf|agent)"
    r"[_-](?:(?:vrtx|bdrk)_)?[A-Za-z0-9]{1,64}\Z"
)
_NAMES_A_SECRET_BEFORE: Final = re.compile(
    r"(?i)(?:secret|passw(?:or)?d|passphrase|token|(?:api|private|access)[ _-]?key|credentials?|bearer|seed)\b"
    r"[\"'`]?[ \t]{0,2}(?:is|was|:|=|->)?[ \t]{0,2}[\"'`(]?(?:0x)?\Z"
)
_CONTEXT: Final = 32
_CUT_MARKER: Final = "…[+"


def _is_credential_run(match: re.Match[str]) -> bool:
    run = match[0]
    text, start = match.string, match.start()
    before = text[max(0, start - _CONTEXT) : start]
    if _is_structural(run) or text.startswith(_CUT_MARKER, match.end()):
        return _NAMES_A_SECRET_BEFORE.search(before) is not None or _is_hex_text(run)
    body = run.strip("_-")
    return bool(body) and looks_generated(body)


def _is_structural(run: str) -> bool:
    """Return whether DEC-10 excepts a run: UUIDs, W3C ids, digests by length, identifiers with a known prefix."""
    if (
        is_hex_identifier(run)
        or _UUID.match(run)
        or _ULID.match(run)
        or _TRACEPARENT.match(run)
        or _PREFIXED_ID.match(run)
    ):
        return True
    head, _, tail = run.rpartition("-")
    return bool(head) and is_hex_identifier(tail) and not looks_generated(head)


def _is_hex_text(run: str) -> bool:
    """Return whether hexadecimal digits spell printable ASCII, which no digest does."""
    if len(run) % 2:
        return False
    try:
        decoded = bytes.fromhex(run[:512])
    except ValueError:
        return False
    return decoded.isascii() and decoded.decode().isprintable()


_SAMPLE: Final = 96
_BASE64_PIECE: Final = 2.6
"""The stretches of one letter case in base64 are 1.7 long on average, those in a path of words 4 and more."""
_B64_BODY: Final = re.compile(r"[A-Za-z0-9+/]{40,1024}+={0,2}")


def _is_base64_secret(match: re.Match[str]) -> bool:
    body = match[0]
    marks = body.count("+") + body.count("/")
    if not marks or marks > 2 + len(body) * 0.08:
        return False
    sample = body[:_SAMPLE]
    if sample.islower() or sample.isupper() or not any(map(str.isdigit, sample)):
        return False
    return mean_piece(sample) < _BASE64_PIECE


RUNS: Final = (
    Detector(
        name="base64",
        pattern=_B64_BODY,
        check=_is_base64_secret,
        where=Where.AT_RUN,
        by_look=True,
    ),
    Detector(
        name="long_run",
        pattern=re.compile(rf"[A-Za-z0-9_-]{{{_LONG},}}+={{0,2}}"),
        check=_is_credential_run,
        where=Where.AT_RUN,
        by_look=True,
    ),
)
