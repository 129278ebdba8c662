"""Signed notes: the vectors of Go's sumdb/note and of C2SP, and notes that strangers wrote."""

from __future__ import annotations

import base64
import contextlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from tracehold_collector.audit.notes import (
    Note,
    open_note,
    parse_note,
    parse_verifier_key,
    sign_text,
)
from tracehold_collector.core.errors import NoteError

# golang.org/x/mod/sumdb/note, note_test.go (BSD-3-Clause).
PETER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
PETER_SEED = base64.b64decode("AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz")[1:]
ENOCH = "EnochRoot+af0cfe78+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop"
TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
PETER_LINE = (
    "\u2014 PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)
ENOCH_LINE = (
    "\u2014 EnochRoot rwz+eBzmZa0SO3NbfRGzPCpDckykFXSdeX+MNtCOXm2/5n2tiOHp+vAF1aGrQ5ovTG01oOTGwnWLox33WWd1RvMc+QQ=\n"
)


def test_published_note_is_signed_byte_for_byte():
    line = sign_text(TEXT, "PeterNeumann", Ed25519PrivateKey.from_private_bytes(PETER_SEED))
    assert str(Note(TEXT, (line,))) == TEXT + "\n" + PETER_LINE


@pytest.mark.parametrize(("known", "signers"), [([PETER], [PETER]), ([PETER, ENOCH], [PETER, ENOCH])], ids=["1", "2"])
def test_published_note_verifies_with_the_keys_one_knows(known, signers):
    note, found = open_note((TEXT + "\n" + PETER_LINE + ENOCH_LINE).encode(), map(parse_verifier_key, known))
    assert note.text == TEXT
    assert signers == list(map(str, found))


def test_note_that_no_known_key_signed_is_refused():
    for known in ([], [ENOCH]):
        with pytest.raises(NoteError, match="no known key"):
            open_note(TEXT + "\n" + PETER_LINE, map(parse_verifier_key, known))


def test_one_wrong_signature_of_a_known_key_makes_the_note_worthless():
    wrong = PETER_LINE[:60] + ("A" if PETER_LINE[60] != "A" else "B") + PETER_LINE[61:]
    with pytest.raises(NoteError, match=r"PeterNeumann\+c74f20a3 is wrong"):
        open_note(TEXT + "\n" + wrong + ENOCH_LINE, map(parse_verifier_key, [PETER, ENOCH]))


def test_verifier_key_is_read_back_as_written_and_no_altered_one_is_read():
    key = parse_verifier_key(PETER)
    assert str(key) == PETER
    for at, char in enumerate(PETER):
        with pytest.raises(NoteError):
            parse_verifier_key(PETER[:at] + chr(ord(char) + 1) + PETER[at + 1 :])
    for end in range(len(PETER)):
        with pytest.raises(NoteError):
            parse_verifier_key(PETER[:end])


@pytest.mark.parametrize(
    "key",
    [
        "PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY==",
        "PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "x" * 5000,
    ],
    ids=["wrong length", "unknown type", "no name", "huge"],
)
def test_verifier_key_of_another_kind_is_refused(key):
    with pytest.raises(NoteError):
        parse_verifier_key(key)


@pytest.mark.parametrize(
    "note",
    [
        TEXT,
        TEXT + "\n",
        TEXT + "\n" + PETER_LINE[:-1],
        "\x01" + TEXT + "\n" + PETER_LINE,
        b"\xff" + (TEXT + "\n" + PETER_LINE).encode(),
        TEXT + "\n" + PETER_LINE.replace("PeterNeumann", "Bad Name"),
        TEXT + "\n" + PETER_LINE.replace("PeterNeumann", "Bad+Name"),
        TEXT + "\n" + PETER_LINE + "Unexpected line.\n",
        TEXT + "\n" + PETER_LINE * 101,
        TEXT + "\n\u2014 PeterNeumann x08g\n",
        "\ud800" + TEXT + "\n" + PETER_LINE,
        "x" * 1_000_001,
    ],
    ids=["text", "gap", "no newline", "control", "no UTF-8", "space", "plus", "line", "101", "short", "half", "huge"],
)
def test_malformed_note_is_refused(note):
    with pytest.raises(NoteError):
        open_note(note, [parse_verifier_key(PETER)])


@given(text=st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.just("\n"), max_size=60))
def test_any_text_is_signed_and_read_back_and_an_empty_line_in_it_does_no_harm(text):
    private = Ed25519PrivateKey.from_private_bytes(PETER_SEED)
    line = sign_text(text + "\n", "PeterNeumann", private)
    note, _ = open_note(str(Note(text + "\n", (line,))), [parse_verifier_key(PETER)])
    assert note.text == text + "\n"


@given(data=st.binary(max_size=300) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_hostile_bytes_are_a_note_or_the_error_of_notes(data):
    for note in (data, (TEXT + "\n" + PETER_LINE).encode() + data, data + ("\n\n" + PETER_LINE).encode()):
        with contextlib.suppress(NoteError):
            parse_note(note)


@given(at=st.integers(0, len(TEXT + PETER_LINE)), bit=st.integers(0, 7))
def test_no_bit_of_a_signed_note_can_be_flipped(at, bit):
    data = bytearray((TEXT + "\n" + PETER_LINE).encode())
    data[at] ^= 1 << bit
    try:
        note, _ = open_note(bytes(data), [parse_verifier_key(PETER)])
    except NoteError:
        return
    # Base64 has spare bits at its end that say nothing: the same signature written otherwise.
    assert str(note) == TEXT + "\n" + PETER_LINE
