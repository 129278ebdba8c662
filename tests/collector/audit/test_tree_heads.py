"""Tree heads: checkpoints with a signed time that any reader of checkpoints takes."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from tracehold_collector.audit.notes import COSIGNATURE_V1, ED25519, VerifierKey, open_note
from tracehold_collector.audit.tree_heads import (
    TreeHead,
    open_tree_head,
    origin_of,
    parse_tree_head,
    sign_tree_head,
)
from tracehold_collector.core.errors import NoteError

PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = PRIVATE.public_key().public_bytes_raw()
HEAD = TreeHead("log.example/acme", 20_852_163, bytes(32))
KEY = VerifierKey("log.example/acme", ED25519, PUBLIC)
HEADS = st.builds(TreeHead, st.just("log.example/acme"), st.integers(0, 1 << 62), st.binary(min_size=32, max_size=32))


def test_text_is_the_one_of_the_specification():
    # c2sp.org/tlog-checkpoint, the example.
    root = base64.b64decode("CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=")
    text = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
    assert TreeHead("example.com/behind-the-sofa", 20_852_163, root).text() == text
    assert parse_tree_head(text + "later: more\n").extensions == ("later: more",)


@given(head=HEADS, signed_at=st.integers(0, (1 << 63) - 1))
def test_signed_head_is_read_back_with_its_time(head, signed_at):
    opened = open_tree_head(sign_tree_head(head, "log.example", PRIVATE, signed_at), [KEY], origin=head.origin)
    assert (opened.head, opened.signed_at, opened.key) == (head, signed_at, KEY)


def test_reader_who_knows_checkpoints_only_takes_it():
    note, signers = open_note(sign_tree_head(HEAD, "log.example", PRIVATE, 5), [KEY])
    assert (note.text, signers) == (HEAD.text(), (KEY,))


def test_time_cannot_be_altered():
    note = sign_tree_head(HEAD, "log.example", PRIVATE, 1_679_315_147)
    line = note.splitlines()[-1]
    signature = bytearray(base64.b64decode(line.split()[-1]))
    signature[11] ^= 1
    forged = note.replace(line.split()[-1], base64.b64encode(signature).decode())
    with pytest.raises(NoteError, match="time was altered"):
        open_tree_head(forged, [KEY])


def test_head_without_the_time_has_none():
    note = sign_tree_head(HEAD, "log.example", PRIVATE, 5)
    assert open_tree_head("".join(note.splitlines(keepends=True)[:-1]), [KEY]).signed_at is None


def test_cosignature_of_another_known_key_is_told_apart_from_the_logs_own_time():
    # Cosignature of a witness, as in c2sp.org/tlog-cosignature.
    witness = Ed25519PrivateKey.from_private_bytes(bytes(32))
    key = VerifierKey("witness.example", COSIGNATURE_V1, witness.public_key().public_bytes_raw())
    theirs = sign_tree_head(HEAD, "witness.example", witness, 9).splitlines(keepends=True)[-1]
    note = sign_tree_head(HEAD, "log.example", PRIVATE, 5) + theirs
    opened = open_tree_head(note, [KEY, key])
    assert (opened.signed_at, opened.cosigners) == (5, ((key, 9),))
    with pytest.raises(NoteError, match="no known key of the log"):
        open_tree_head(note, [key])


def test_head_of_another_log_or_of_another_key_is_refused():
    note = sign_tree_head(HEAD, "log.example", PRIVATE, 5)
    with pytest.raises(NoteError, match=r"not of log\.example/other"):
        open_tree_head(note, [KEY], origin="log.example/other")
    stranger = VerifierKey(KEY.name, ED25519, Ed25519PrivateKey.generate().public_key().public_bytes_raw())
    with pytest.raises(NoteError, match="no known key of the log"):
        open_tree_head(note, [stranger])
    # Signed by a known key, but by one of another name than the log's: any key could speak for any log otherwise.
    with pytest.raises(NoteError, match="no known key of the log"):
        open_tree_head(sign_tree_head(HEAD, "log.example", PRIVATE, 5), [VerifierKey("log.example", ED25519, PUBLIC)])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "o\n5\n",
        "o\n05\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "o\n-5\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "o\n\u0665\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "o\n5\nAAAA\n",
        "o\n5\n\u00c4\n",
        "\n5\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "o\n5\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\nx\n",
        "o\n5\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "o\n" + "9" * 5000 + "\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
    ],
    ids=["empty", "short", "zero", "minus", "arabic", "root", "no base64", "origin", "gap", "newline", "huge"],
)
def test_malformed_head_is_refused(text):
    with pytest.raises(NoteError):
        parse_tree_head(text)


@given(tenant=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_every_tenant_has_an_origin_of_its_own_that_can_name_a_key(tenant):
    head = TreeHead(origin_of("log.example", tenant), 1, bytes(32))
    key = VerifierKey(head.origin, ED25519, PUBLIC)
    assert open_tree_head(sign_tree_head(head, "log.example", PRIVATE, 1), [key]).head == head
    assert origin_of("log.example", tenant + "/x") == origin_of("log.example", tenant) + "%2Fx"
