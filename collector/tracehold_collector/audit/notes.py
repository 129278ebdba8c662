"""Signed notes: a text that one or more keys signed (https://c2sp.org/signed-note)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tracehold_collector.core.errors import NoteError

ED25519: Final = 0x01
"""Signature type: Ed25519 over the text of the note (section "Signature types")."""
COSIGNATURE_V1: Final = 0x04
"""Signature type: Ed25519 over a time and the text of a checkpoint (https://c2sp.org/tlog-cosignature)."""
PUBLIC_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64

_DASH: Final = "\u2014 "
_VERIFIER_KEY: Final = re.compile(r"([^+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)")


@dataclass(frozen=True, slots=True)
class NoteLimits:
    """What a note from a stranger may cost.

    Attributes:
        max_bytes: of the whole note, signatures included.
        max_signatures: the specification asks for at least 16.
        max_key_chars: of a verifier key.
    """

    max_bytes: int = 1_000_000
    max_signatures: int = 100
    max_key_chars: int = 4_096


LIMITS: Final = NoteLimits()


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public key with its name, as verifiers are told it: `name+id+base64(type || key)`.

    Attributes:
        name: not empty, without spaces and plus signs.
        algorithm: the signature type, `ED25519` or `COSIGNATURE_V1`.
        public: the Ed25519 public key, 32 bytes (RFC 8032).
    """

    name: str
    algorithm: int
    public: bytes

    @property
    def key_id(self) -> int:
        """The key's id: the first four bytes of SHA-256(name || newline || type || key), big-endian."""
        material = self.name.encode() + b"\n" + bytes([self.algorithm]) + self.public
        return int.from_bytes(sha256(material).digest()[:4], "big")

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Whether this key made the Ed25519 signature of the message; the caller builds what its type signs."""
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True

    def __str__(self) -> str:
        """Return the key as text."""
        return f"{self.name}+{self.key_id:08x}+{_base64(bytes([self.algorithm]) + self.public)}"


def parse_verifier_key(text: str) -> VerifierKey:
    """Read a verifier key.

    Raises:
        NoteError: it is none, or of a type that is not read here, or its id is not that of its name and key.
    """
    text = text.strip()
    found = _VERIFIER_KEY.fullmatch(text) if len(text) <= LIMITS.max_key_chars else None
    if found is None:
        raise NoteError("no verifier key: one looks like name+1a2b3c4d+AbCd..., see c2sp.org/signed-note")
    name, key_id, encoded = found.groups()
    check_name(name)
    material = _from_base64(encoded, "the verifier key")
    if len(material) != 1 + PUBLIC_BYTES or material[0] not in {ED25519, COSIGNATURE_V1}:
        raise NoteError("the verifier key is no Ed25519 key (type 1 or 4, 32 bytes)")
    key = VerifierKey(name, material[0], material[1:])
    if f"{key.key_id:08x}" != key_id:
        raise NoteError(f"the verifier key {name}+{key_id} is damaged: its id should be {key.key_id:08x}")
    return key


def check_name(name: str) -> None:
    """Check the name of a key (section "Format").

    Raises:
        NoteError: it is empty, or holds a space, a control character or a plus sign.
    """
    if not name or any(char == "+" or char.isspace() or not char.isprintable() for char in name):
        raise NoteError("the name of a key is not empty, and has no spaces, control characters or plus signs")


@dataclass(frozen=True, slots=True)
class NoteSignature:
    """One line of signature.

    Attributes:
        name: the key's.
        key_id: the key's.
        signature: what follows the id; for `COSIGNATURE_V1` eight bytes of time come first.
    """

    name: str
    key_id: int
    signature: bytes

    def __str__(self) -> str:
        """Return the line, with its newline."""
        return f"{_DASH}{self.name} {_base64(self.key_id.to_bytes(4, 'big') + self.signature)}\n"


@dataclass(frozen=True, slots=True)
class Note:
    """A text and its signatures, none of which need be true: see `open_note`.

    Attributes:
        text: ends in a newline; valid UTF-8 without control characters.
        signatures: in the order of the note.
    """

    text: str
    signatures: tuple[NoteSignature, ...] = ()

    def __str__(self) -> str:
        """Return the whole note.

        Raises:
            NoteError: the text is none that a note can hold.
        """
        check_text(self.text)
        return self.text + "\n" + "".join(map(str, self.signatures))


def check_text(text: str) -> None:
    """Check what a note is to say.

    Raises:
        NoteError: it does not end in a newline, or holds a control character or half a surrogate pair.
    """
    if not text.endswith("\n"):
        raise NoteError("the text of a note ends in a newline")
    if any(char < " " and char != "\n" for char in text) or not _is_utf8(text):
        raise NoteError("the text of a note is UTF-8 without control characters other than newlines")


def parse_note(data: bytes | str) -> Note:
    """Take a note apart, without looking at whether its signatures are true.

    Raises:
        NoteError: it is no signed note, or over a limit.
    """
    text = _decoded(data)
    body, gap, lines = text.rpartition("\n\n")
    if not gap or not lines.endswith("\n"):
        raise NoteError("no signed note: a text, an empty line and lines of signatures, each ended by a newline")
    signatures = lines[:-1].split("\n")
    if len(signatures) > LIMITS.max_signatures:
        raise NoteError(f"a note may have {LIMITS.max_signatures} signatures; this one has {len(signatures)}")
    return Note(body + "\n", tuple(map(_parse_signature, signatures)))


def open_note(data: bytes | str, keys: Iterable[VerifierKey]) -> tuple[Note, tuple[VerifierKey, ...]]:
    """Take a note apart and check the signatures of known keys of type `ED25519`; others are left alone.

    Section "Signatures": one signature of a known key that is wrong makes the whole note worthless.

    Returns:
        The note, and which keys signed it, at least one.

    Raises:
        NoteError: it is no signed note, or a known key's signature is wrong, or no known key signed it.
    """
    note = parse_note(data)
    signers = tuple(known_signers(note, keys))
    if not signers:
        raise NoteError("no known key signed this note")
    return note, signers


def known_signers(note: Note, keys: Iterable[VerifierKey]) -> list[VerifierKey]:
    """Return which of the keys of type `ED25519` signed the note, each once.

    Raises:
        NoteError: a known key's signature is wrong, or two of the keys have the same name and id.
    """
    known = by_identity(key for key in keys if key.algorithm == ED25519)
    message = note.text.encode()
    signers = []
    for line in note.signatures:
        key = known.pop((line.name, line.key_id), None)
        if key is None:
            continue
        if not key.verifies(message, line.signature):
            raise NoteError(f"the signature of {line.name}+{line.key_id:08x} is wrong: the note was altered")
        signers.append(key)
    return signers


def by_identity(keys: Iterable[VerifierKey]) -> dict[tuple[str, int], VerifierKey]:
    """Return keys by name and id.

    Raises:
        NoteError: two different ones have both in common.
    """
    known: dict[tuple[str, int], VerifierKey] = {}
    for key in keys:
        if known.setdefault((key.name, key.key_id), key) != key:
            raise NoteError(f"two verifier keys are called {key.name}+{key.key_id:08x}")
    return known


def sign_text(text: str, name: str, private: Ed25519PrivateKey) -> NoteSignature:
    """Return the signature line of type `ED25519` for a text.

    Raises:
        NoteError: the text or the name is none that a note can hold.
    """
    check_text(text)
    check_name(name)
    key = VerifierKey(name, ED25519, private.public_key().public_bytes_raw())
    return NoteSignature(name, key.key_id, private.sign(text.encode()))


def _parse_signature(line: str) -> NoteSignature:
    name, gap, encoded = line.removeprefix(_DASH).partition(" ")
    if not line.startswith(_DASH) or not gap:
        raise NoteError("a line of signature is an em dash, a name and base64, with one space between")
    check_name(name)
    material = _from_base64(encoded, "a signature")
    if len(material) <= 4:  # noqa: PLR2004 - the key's id and at least one byte
        raise NoteError("a signature is too short to be one")
    return NoteSignature(name, int.from_bytes(material[:4], "big"), material[4:])


def _decoded(data: bytes | str) -> str:
    if len(data) > LIMITS.max_bytes:
        raise NoteError(f"a note may have {LIMITS.max_bytes} bytes; this one has {len(data)} or more")
    try:
        text = data.decode() if isinstance(data, bytes) else data
    except UnicodeDecodeError as error:
        raise NoteError(f"the note is no UTF-8 (at byte {error.start})") from None
    if any(char < " " and char != "\n" for char in text) or not _is_utf8(text):
        raise NoteError("the note holds a control character other than newline")
    return text


def _is_utf8(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _from_base64(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        raise NoteError(f"{what} is no base64") from None
