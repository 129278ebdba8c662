"""Tree heads: the signed root of a log at one size (https://c2sp.org/tlog-checkpoint), and when it was signed.

A checkpoint says no time. The time stands beside the log's signature as one more, of type cosignature/v1
(https://c2sp.org/tlog-cosignature), made with the same key: who knows no more than checkpoints ignores it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tracehold_collector.audit.merkle import HASH_BYTES, MAX_SIZE
from tracehold_collector.audit.notes import (
    COSIGNATURE_V1,
    SIGNATURE_BYTES,
    Note,
    NoteSignature,
    VerifierKey,
    by_identity,
    check_name,
    known_signers,
    parse_note,
    sign_text,
)
from tracehold_collector.core.errors import NoteError

_TIME_BYTES: Final = 8
_MAX_TIME: Final = (1 << 63) - 1
_SIZE: Final = re.compile("0|[1-9][0-9]{0,18}", re.ASCII)
_LINES: Final = 3


@dataclass(frozen=True, slots=True)
class TreeHead:
    """What a tree head says.

    Attributes:
        origin: which log; see `origin_of`.
        size: how many leaves.
        root: the root over them, 32 bytes.
        extensions: further lines, which this product never writes.
    """

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the text that is signed."""
        lines = [self.origin, str(self.size), base64.b64encode(self.root).decode(), *self.extensions]
        return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True, slots=True)
class OpenedHead:
    """A tree head that its log signed.

    Attributes:
        head: what it says.
        signed_at: seconds since the epoch, UTC, as the log's key signed them; `None` when it signed no time.
        key: the key of the log that signed it.
        cosigners: other known keys that signed it, with the time each gave.
    """

    head: TreeHead
    signed_at: int | None
    key: VerifierKey
    cosigners: tuple[tuple[VerifierKey, int], ...] = ()


def origin_of(name: str, tenant: str) -> str:
    """Return the origin of a tenant's log: the name of the log, a slash and the tenant, percent-encoded as in a URL.

    Raises:
        NoteError: the name is none that a key can have.
    """
    check_name(name)
    return f"{name}/{quote(tenant, safe='')}"


def parse_tree_head(text: str) -> TreeHead:
    """Read the text of a tree head.

    Raises:
        NoteError: it is none.
    """
    lines = text.removesuffix("\n").split("\n")
    if not text.endswith("\n") or len(lines) < _LINES or not all(lines):
        raise NoteError("no tree head: it has an origin, a size, a root and no empty line, each ended by a newline")
    origin, size, root = lines[:_LINES]
    if not _SIZE.fullmatch(size) or int(size) > MAX_SIZE:
        raise NoteError("the second line of a tree head is its size, a decimal number without leading zeroes")
    return TreeHead(origin, int(size), _root(root), tuple(lines[_LINES:]))


def sign_tree_head(head: TreeHead, name: str, private: Ed25519PrivateKey, signed_at: int) -> str:
    """Return a signed note of a tree head: the log's signature, and its time as a cosignature.

    Args:
        head: its origin is the name of the log's key, as the specification recommends.
        name: the name of the key as a cosigner: one for all logs, since its signature does not say whose it is.
        private: the key.
        signed_at: seconds since the epoch, UTC.

    Raises:
        NoteError: a name or the time cannot stand in a note.
    """
    check_name(name)
    text = head.text()
    parse_tree_head(text)
    if not 0 <= signed_at <= _MAX_TIME:
        raise NoteError(f"{signed_at} is no time that can be signed: seconds since 1970")
    key = VerifierKey(name, COSIGNATURE_V1, private.public_key().public_bytes_raw())
    timed = signed_at.to_bytes(_TIME_BYTES, "big") + private.sign(_cosigned(text, signed_at))
    signatures = sign_text(text, head.origin, private), NoteSignature(name, key.key_id, timed)
    return str(Note(text, signatures))


def open_tree_head(data: bytes | str, keys: Iterable[VerifierKey], *, origin: str | None = None) -> OpenedHead:
    """Read a tree head and check who signed it.

    Args:
        data: the note.
        keys: those believed. One of type `ED25519` named as the origin must have signed. The same public key is also
            believed about the time, whatever name it cosigns under.
        origin: the log that it must be of, when known.

    Raises:
        NoteError: it is no tree head, or of another log, or its log's known key did not sign it, or a known key's
            signature is wrong.
    """
    keys = list(keys)
    note = parse_note(data)
    head = parse_tree_head(note.text)
    if origin is not None and head.origin != origin:
        raise NoteError(f"the tree head is of the log {head.origin}, not of {origin}")
    signer = next((key for key in known_signers(note, keys) if key.name == head.origin), None)
    if signer is None:
        raise NoteError(f"no known key of the log {head.origin} signed this tree head")
    own_times, others = [], []
    for key, moment in _cosigners(note, [*keys, *_as_cosigners(note, signer)]):
        if key.public == signer.public:
            own_times.append(moment)
        else:
            others.append((key, moment))
    return OpenedHead(head, min(own_times, default=None), signer, tuple(others))


def _as_cosigners(note: Note, signer: VerifierKey) -> list[VerifierKey]:
    """Return the log's key under each name that it cosigned with."""
    names = dict.fromkeys(line.name for line in note.signatures)
    return [VerifierKey(name, COSIGNATURE_V1, signer.public) for name in names]


def _cosigners(note: Note, keys: Iterable[VerifierKey]) -> list[tuple[VerifierKey, int]]:
    known = by_identity(key for key in keys if key.algorithm == COSIGNATURE_V1)
    found = []
    for line in note.signatures:
        key = known.pop((line.name, line.key_id), None)
        if key is None:
            continue
        moment = int.from_bytes(line.signature[:_TIME_BYTES], "big")
        whole = len(line.signature) == _TIME_BYTES + SIGNATURE_BYTES and moment <= _MAX_TIME
        if not whole or not key.verifies(_cosigned(note.text, moment), line.signature[_TIME_BYTES:]):
            raise NoteError(f"the cosignature of {line.name}+{line.key_id:08x} is wrong: the time was altered")
        found.append((key, moment))
    return found


def _cosigned(text: str, moment: int) -> bytes:
    return f"cosignature/v1\ntime {moment}\n{text}".encode()


def _root(text: str) -> bytes:
    try:
        root = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        root = b""
    if len(root) != HASH_BYTES:
        raise NoteError(f"the third line of a tree head is its root, {HASH_BYTES} bytes as base64")
    return root
