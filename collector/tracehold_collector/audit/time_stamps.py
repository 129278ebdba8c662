"""Time stamps of tree heads by an authority that is not ours (RFC 3161).

What is stamped is the signed note as it stands, so that anybody can check a stamp with the file at hand:

    openssl ts -verify -data heads/700.txt -in stamps/700.tsr -CAfile AUTHORITY.pem
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from tracehold.core.errors import ConfigurationError

from tracehold_collector.core.errors import AuditError

if TYPE_CHECKING:
    from rfc3161_client import TimeStampRequest

MAX_RESPONSE_BYTES: Final = 256 * 1024
_SHA256: Final = "2.16.840.1.101.3.4.2.1"
_GRANTED: Final = (0, 1)
_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class StampRequest:
    """A request under way.

    Attributes:
        data: what is to be stamped.
        body: the request in DER, with a fresh nonce and a wish for the certificate.
    """

    data: bytes
    body: bytes
    parsed: TimeStampRequest


def make_request(data: bytes) -> StampRequest:
    """Return a request for a stamp of SHA-256(data) (RFC 3161 section 2.4.1).

    Raises:
        ConfigurationError: the library for it is not installed.
    """
    client = _library()
    request = client.TimestampRequestBuilder(data, client.HashAlgorithm.SHA256).build()
    return StampRequest(data, request.as_bytes(), request)


def open_response(response: bytes, request: StampRequest) -> int:
    """Return the moment that a response says, UTC nanoseconds (RFC 3161 section 2.4.2).

    That it answers this request is checked, and not whose certificate signed it: whom to believe is for the reader of a
    bundle to say.

    Raises:
        AuditError: it is none, was not granted, or is a stamp of something else.
    """
    if len(response) > MAX_RESPONSE_BYTES:
        raise AuditError(f"the time stamp authority answered with {len(response)} bytes; that is no time stamp")
    try:
        answer = _library().decode_timestamp_response(response)
        if answer.status not in _GRANTED:
            raise AuditError(f"the time stamp authority did not grant a stamp: status {answer.status}")
        info = answer.tst_info
        imprint = info.message_imprint
        moment: int = round(info.gen_time.timestamp()) * _NS
        same = imprint.message == sha256(request.data).digest() and imprint.hash_algorithm.dotted_string == _SHA256
        answers = info.nonce == request.parsed.nonce
    except (ValueError, OverflowError) as error:
        raise AuditError(f"the time stamp authority's answer is no time stamp ({type(error).__name__})") from error
    if not same or not answers:
        raise AuditError("the time stamp authority stamped something else than what it was given")
    return moment


def _library() -> Any:
    try:
        import rfc3161_client  # noqa: PLC0415 - an optional extra
    except ModuleNotFoundError:
        raise ConfigurationError(
            "time stamps need the package rfc3161-client: pip install '.[timestamps]', or leave time_stamp_url out"
        ) from None
    return rfc3161_client
