"""The log's key file: made once, for its owner alone, rotated without losing what was signed."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest
from tracehold_collector.audit.notes import open_note
from tracehold_collector.audit.signing import SIGNING_FILE, Signer
from tracehold_collector.audit.tree_heads import open_tree_head
from tracehold_collector.core.errors import NoteError, StoreError

NOW = 1_796_000_000_000_000_000
ROOT = bytes(32)


def test_head_of_a_tenant_verifies_with_the_keys_handed_out_for_it(tmp_path):
    signer = Signer(tmp_path, NOW, name="log.example")
    opened = open_tree_head(signer.sign_head("acme", 7, ROOT, NOW), signer.verifier_keys("acme"))
    assert (opened.head.origin, opened.head.size, opened.signed_at) == ("log.example/acme", 7, NOW // 10**9)
    with pytest.raises(NoteError):
        open_tree_head(signer.sign_head("acme", 7, ROOT, NOW), signer.verifier_keys("other"))


def test_key_file_is_for_its_owner_alone_and_is_the_same_at_the_next_start(tmp_path):
    first = Signer(tmp_path, NOW)
    assert stat.S_IMODE((tmp_path / SIGNING_FILE).stat().st_mode) == 0o600
    second = Signer(tmp_path, NOW + 5)
    assert (first.name, first.keys) == (second.name, second.keys)
    assert first.name.startswith("tracehold.internal/")


def test_many_who_start_at_once_end_with_one_key(tmp_path):
    with ThreadPoolExecutor(16) as pool:
        signers = list(pool.map(lambda _: Signer(tmp_path, NOW), range(16)))
    assert len({(signer.name, signer.keys) for signer in signers}) == 1
    assert [path.name for path in tmp_path.iterdir()] == [SIGNING_FILE]


def test_rotation_keeps_the_retired_public_key_with_its_dates_and_never_its_private_half(tmp_path):
    signer = Signer(tmp_path, NOW)
    before = json.loads((tmp_path / SIGNING_FILE).read_text(encoding="ascii"))
    old = signer.sign_head("acme", 1, ROOT, NOW)
    signer.rotate(NOW + 60 * 10**9)
    written = (tmp_path / SIGNING_FILE).read_text(encoding="ascii")
    assert before["private_key"] not in written
    retired, current = signer.keys
    assert (retired.since, retired.until) == (NOW, NOW + 60 * 10**9)
    assert (current.since, current.until) == (NOW + 60 * 10**9, None)
    new = signer.sign_head("acme", 2, ROOT, NOW)
    keys = signer.verifier_keys("acme")
    assert open_tree_head(old, keys).key == keys[1]
    assert open_tree_head(new, keys).key == keys[0]
    assert stat.S_IMODE((tmp_path / SIGNING_FILE).stat().st_mode) == 0o600


def test_rotation_by_another_process_is_seen_before_the_next_signature(tmp_path):
    running = Signer(tmp_path, NOW)
    Signer(tmp_path, NOW).rotate(NOW + 1_000)
    assert open_tree_head(running.sign_head("acme", 1, ROOT, NOW), running.verifier_keys("acme")[:1]).head.size == 1
    assert len(running.keys) == 2


def test_rotations_at_the_same_time_lose_no_key(tmp_path):
    signers = [Signer(tmp_path, NOW) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda signer: signer.rotate(NOW + 1_000).public, signers))
    keys = [key.public for key in Signer(tmp_path, NOW).keys]
    assert len(keys) == len(set(keys)) == 5
    assert set(made) <= set(keys)


def test_statement_verifies_and_cannot_pass_for_a_tree_head_or_a_cosignature(tmp_path):
    signer = Signer(tmp_path, NOW)
    note, _ = open_note(signer.sign_statement('{"erasure": 1}\n'), signer.verifier_keys())
    assert note.text == '{"erasure": 1}\n'
    head = open_note(signer.sign_head("acme", 1, ROOT, NOW), signer.verifier_keys("acme"))[0].text
    for text in (head, f"cosignature/v1\ntime 5\n{head}"):
        with pytest.raises(NoteError, match="must not look like"):
            signer.sign_statement(text)


@pytest.mark.parametrize("damage", ["", "{}", '{"version": 2}', "\u00e4"], ids=["empty", "object", "newer", "no ASCII"])
def test_damaged_key_file_is_reported_and_left_alone(tmp_path, damage):
    Signer(tmp_path, NOW)
    (tmp_path / SIGNING_FILE).write_text(damage, encoding="utf-8")
    with pytest.raises(StoreError, match="Restore it from a backup"):
        Signer(tmp_path, NOW)
    assert (tmp_path / SIGNING_FILE).read_text(encoding="utf-8") == damage


def test_key_file_whose_private_key_belongs_to_another_public_one_is_refused(tmp_path):
    (tmp_path / "a").mkdir()
    Signer(tmp_path, NOW)
    Signer(tmp_path / "a", NOW)
    mine = json.loads((tmp_path / SIGNING_FILE).read_text(encoding="ascii"))
    theirs = json.loads((tmp_path / "a" / SIGNING_FILE).read_text(encoding="ascii"))
    mine["private_key"] = theirs["private_key"]
    (tmp_path / SIGNING_FILE).write_text(json.dumps(mine), encoding="ascii")
    with pytest.raises(StoreError, match="is damaged"):
        Signer(tmp_path, NOW)


def test_name_that_no_key_can_have_is_refused_before_a_file_is_made(tmp_path):
    with pytest.raises(NoteError):
        Signer(tmp_path, NOW, name="my log")
    assert list(tmp_path.iterdir()) == []
