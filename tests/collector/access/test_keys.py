"""Keys at rest: how they are made, kept, changed and ended."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core.clock import NS_PER_S, now_ns
from tracehold.privacy import Cleaner
from tracehold_collector.access.file import SECRET_FILE, open_file, server_secret
from tracehold_collector.access.keys import KeyFile, KeyFileError, NewKey
from tracehold_collector.access.limits import Limit
from tracehold_collector.access.reading import Asked, read_log
from tracehold_collector.access.roles import MAY, ROLES, effective
from tracehold_collector.access.tokens import masked, new_token, parse_token, token_hash
from tracehold_collector.core.accessfile import FILE_NAME, holds_keys
from tracehold_collector.core.errors import StoreError, StoreTooNewError

READER = NewKey("reader", ["read"], ("acme",))


@pytest.fixture
def file(tmp_path: Path) -> Iterator[KeyFile]:
    with closing(KeyFile(tmp_path / "data", "a test")) as opened:
        yield opened


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_key_is_a_mark_a_public_id_and_256_bits() -> None:
    token = new_token()
    match = re.fullmatch(r"th_([0-9A-Za-z]{12})_([0-9A-Za-z]{43})", token.reveal())
    assert match is not None
    assert 62 ** len(match[2]) > 2**256
    assert parse_token(token.reveal()) == token
    assert new_token().secret != new_token().secret


@given(st.text(max_size=300))
def test_nothing_else_is_taken_for_a_key(text: str) -> None:
    assert parse_token(text) is None


def test_the_hash_depends_on_id_secret_and_server() -> None:
    token = new_token()
    hashes = {token_hash(secret, one) for secret in (b"a" * 32, b"b" * 32) for one in (token, new_token(token.key_id))}
    assert len(hashes) == 4
    assert all(len(hashed) == 32 for hashed in hashes)


def test_the_secret_is_kept_nowhere_and_shown_by_no_repr(file: KeyFile, tmp_path: Path) -> None:
    key, token = file.create(READER)
    _, second = file.rotate(key.id, NS_PER_S)
    kept = everything_in(tmp_path)
    for one in (token, second):
        assert one.secret.encode() not in kept
        assert one.secret not in repr(one) + str(one)
    assert key.hash.hex() not in repr(file.listed())
    assert repr(key.hash) not in repr(file.listed())


def test_files_of_keys_are_their_owners_alone(file: KeyFile, tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        with closing(KeyFile(tmp_path / "open", "a test")) as other:
            other.create(READER)
            for path in (tmp_path / "open").iterdir():
                assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
            assert {path.name for path in (tmp_path / "open").iterdir()} >= {FILE_NAME, SECRET_FILE}
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_root_makes_belongs_to_the_owner_of_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    os.chown(folder, 12_345, 12_345)
    with closing(KeyFile(folder, "a test")) as file:
        file.create(READER)
        assert {(path.name, path.stat().st_uid) for path in folder.iterdir()} == {
            (path.name, 12_345) for path in folder.iterdir()
        }


def test_a_key_can_be_made_before_any_collector_ran(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    assert not holds_keys(folder)
    with closing(KeyFile(folder, "a test")) as file:
        assert not holds_keys(folder)
        file.create(READER)
    assert holds_keys(folder)
    assert not list(folder.glob("*.duckdb"))


def test_a_file_that_cannot_be_read_counts_as_one_with_keys(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"no database at all, and long enough to be looked at")
    assert holds_keys(tmp_path)
    with pytest.raises(StoreError, match="Restore it"):
        open_file(tmp_path)


def test_a_newer_file_is_left_untouched(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreTooNewError, match="newer"):
        open_file(tmp_path)


def test_without_the_servers_secret_no_new_one_is_made_in_its_place(file: KeyFile, tmp_path: Path) -> None:
    file.create(READER)
    (tmp_path / "data" / SECRET_FILE).unlink()
    with pytest.raises(StoreError, match="no API key made so far"):
        file.create(NewKey("second", ["read"], ("acme",)))
    assert [key.name for key in file.listed()] == ["reader"]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (NewKey("", ["read"], ("a",)), "name"),
        (NewKey("a\0b", ["read"], ("a",)), "name"),
        (NewKey("n" * 65, ["read"], ("a",)), "name"),
        (NewKey("k", [], ("a",)), "one role or more"),
        (NewKey("k", ["root"], ("a",)), "no role 'root'"),  # type: ignore[list-item]
        (NewKey("k", ["content"], ("a",)), "role read"),
        (NewKey("k", ["read"], ()), "tenant"),
        (NewKey("k", ["read"], ("a", "a")), "twice"),
        (NewKey("k", ["read"], ("a b\n",)), "tenant"),
        (NewKey("k", ["read"], ("a",), expires_at=1), "past"),
        (NewKey("k", ["read"], ("a",), limit=Limit(requests_per_s=0)), "requests"),
        (NewKey("k", ["read"], ("a",), limit=Limit(requests_per_s=float("nan"))), "requests"),
        (NewKey("k", ["read"], ("a",), limit=Limit(events_per_day=0)), "events"),
    ],
)
def test_a_key_that_makes_no_sense_is_refused_with_the_reason(file: KeyFile, wanted: NewKey, said: str) -> None:
    with pytest.raises(KeyFileError, match=said):
        file.create(wanted)
    assert file.listed() == []


def test_two_keys_in_use_have_two_names(file: KeyFile) -> None:
    key, _ = file.create(READER)
    with pytest.raises(KeyFileError, match="there is a key named"):
        file.create(READER)
    file.revoke(key.id)
    assert file.create(READER)[0].id != key.id
    assert file.find("reader").revoked_at is None


def test_a_key_that_is_not_there_is_not_found_and_not_repeated_when_it_is_a_secret(file: KeyFile) -> None:
    token = new_token()
    with pytest.raises(KeyFileError, match="no key") as caught:
        file.revoke(token.reveal())
    assert token.secret not in str(caught.value)


def test_revoking_again_keeps_the_first_time(file: KeyFile) -> None:
    key, _ = file.create(READER)
    first = file.revoke(key.id)
    assert first.state(now_ns()) == "revoked"
    assert file.revoke(key.id).revoked_at == first.revoked_at
    with pytest.raises(KeyFileError, match="is revoked"):
        file.rotate(key.id, 0)


def test_every_change_of_a_key_leaves_a_line_and_no_change_leaves_none(file: KeyFile, tmp_path: Path) -> None:
    key, _ = file.create(READER)
    file.rotate("reader", 3600 * NS_PER_S)
    file.limit("reader", Limit(requests_per_s=5, events_per_day=100))
    file.revoke("reader")
    with pytest.raises(KeyFileError):
        file.revoke("nobody")
    lines = read_log(tmp_path / "data", Asked(), None)
    assert [line["what"] for line in lines] == ["keys revoke", "keys limit", "keys rotate", "keys create"]
    assert {(line["action"], line["who"], line["parameters"]["id"]) for line in lines} == {("admin", "a test", key.id)}
    assert lines[1]["parameters"]["events_per_day"] == 100


def test_a_change_that_fails_leaves_neither_key_nor_line(
    file: KeyFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise sqlite3.OperationalError("disk full")

    monkeypatch.setattr("tracehold_collector.access.keys.write_entries", full)
    with pytest.raises(StoreError, match="nothing was changed"):
        file.create(READER)
    assert file.listed() == []
    assert read_log(tmp_path / "data", Asked(), None) == []


def test_admin_is_everything_but_what_was_said() -> None:
    assert effective(["admin"]) == set(ROLES) - {"content"}
    assert effective(["admin", "content"]) == set(ROLES)
    assert effective(["ingest"]) == {"ingest"}
    assert set(MAY) == set(ROLES)


def test_what_looks_like_a_key_is_masked_in_texts() -> None:
    token = new_token()
    assert token.secret not in masked(f"?api_key={token.reveal()}&x=1")
    assert token.secret[:20] not in masked(token.reveal()[:-3])


def test_a_key_in_a_trace_is_masked_like_any_secret() -> None:
    token = new_token()
    assert token.secret not in Cleaner().clean(f"the key is {token.reveal()} now")


def test_the_servers_secret_is_made_once(tmp_path: Path) -> None:
    assert server_secret(tmp_path, may_create=True) == server_secret(tmp_path, may_create=True)
