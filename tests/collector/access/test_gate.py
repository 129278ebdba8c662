"""What a shown key opens, and how soon a change of it counts."""

from __future__ import annotations

import hmac
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.keys import bearer, make_key
from support.processes import wait_for
from tracehold.core.clock import NS_PER_S, now_ns
from tracehold_collector.access import book as book_module
from tracehold_collector.access import gate as gate_module
from tracehold_collector.access.book import KeyBook
from tracehold_collector.access.gate import Gate, Refusal
from tracehold_collector.access.keys import KeyFile
from tracehold_collector.access.principal import Principal
from tracehold_collector.access.tokens import new_token, parse_token
from tracehold_collector.core.accessfile import FILE_NAME

OWN = "the-one-key-of-the-settings-0123456789"


@pytest.fixture
def gates(tmp_path: Path) -> Iterator[Callable[..., Gate]]:
    books: list[KeyBook] = []

    def make(api_key: str | None = None) -> Gate:
        books.append(KeyBook(tmp_path))
        return Gate(books[-1], api_key=api_key, tenant="home")

    yield make
    for book in books:
        book.close()


def ask(gate: Gate, key: str) -> Principal | Refusal:
    found = gate.admit(bearer(key)["Authorization"], "")
    assert gate.admit("", key) == found
    return found


def test_without_any_key_everyone_is_the_one_user_with_every_role(gates: Callable[..., Gate]) -> None:
    gate = gates()
    who = gate.admit("", "")
    assert isinstance(who, Principal)
    assert gate.keyless
    assert (who.tenants, who.first, who.owner) == (("home",), "home", True)
    assert all(who.may(role) for role in ("ingest", "read", "content", "audit", "admin"))  # type: ignore[arg-type]


def test_the_key_of_the_settings_has_every_role_beside_others(gates: Callable[..., Gate], tmp_path: Path) -> None:
    key = make_key(tmp_path, "read", name="ann", tenants=("acme",))
    gate = gates(OWN)
    own, other = ask(gate, OWN), ask(gate, key)
    assert isinstance(own, Principal)
    assert isinstance(other, Principal)
    assert (own.owner, own.tenants, own.may("content")) == (True, ("home",), True)
    assert (other.owner, other.name, other.tenants, other.roles) == (False, "ann", ("acme",), {"read"})


def test_a_made_key_in_the_settings_stays_what_it_is(gates: Callable[..., Gate], tmp_path: Path) -> None:
    key = make_key(tmp_path, "read")
    who = ask(gates(key), key)
    assert isinstance(who, Principal)
    assert who.roles == {"read"}
    stranger = new_token().reveal()
    assert isinstance(ask(gates(stranger), stranger), Refusal)


def test_a_key_made_elsewhere_in_the_settings_opens_nothing(gates: Callable[..., Gate]) -> None:
    stranger = new_token().reveal()
    gate = gates(stranger)
    assert (gate.shut, gate.keyless) == (True, False)
    assert isinstance(ask(gate, stranger), Refusal)
    assert isinstance(gate.admit("", ""), Refusal)


def test_wrong_and_unknown_keys_get_the_same_words(gates: Callable[..., Gate], tmp_path: Path) -> None:
    right = parse_token(make_key(tmp_path, "read"))
    assert right is not None
    gate = gates()
    wrong_secret = ask(gate, new_token(right.key_id).reveal())
    assert wrong_secret == ask(gate, new_token().reveal()) == ask(gate, "x") == gate.admit("", "")
    assert isinstance(wrong_secret, Refusal)


def test_the_holder_of_an_ended_key_is_told_so_and_nobody_else(
    gates: Callable[..., Gate], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = now_ns() + 3600 * NS_PER_S
    expired = make_key(tmp_path, "read", expires_at=end)
    revoked = make_key(tmp_path, "read", name="revoked")
    with closing(KeyFile(tmp_path, "a test")) as file:
        file.revoke("revoked")
    gate = gates()
    assert isinstance(ask(gate, expired), Principal)
    monkeypatch.setattr(gate_module, "now_ns", lambda: end)
    for key, word in ((expired, "expired"), (revoked, "revoked")):
        refusal = ask(gate, key)
        assert isinstance(refusal, Refusal)
        assert word in refusal.error
        token = parse_token(key)
        assert token is not None
        assert token.secret not in repr(refusal)
        other = ask(gate, new_token(token.key_id).reveal())
        assert isinstance(other, Refusal)
        assert word not in other.error


def test_after_a_rotation_both_secrets_open_until_the_grace_is_over(
    gates: Callable[..., Gate], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = make_key(tmp_path, "read", name="ann")
    with closing(KeyFile(tmp_path, "a test")) as file:
        new = file.rotate("ann", 60 * NS_PER_S)[1].reveal()
    gate = gates()
    assert isinstance(ask(gate, old), Principal)
    assert isinstance(ask(gate, new), Principal)
    later = now_ns() + 61 * NS_PER_S
    monkeypatch.setattr(gate_module, "now_ns", lambda: later)
    assert isinstance(ask(gate, new), Principal)
    refusal = ask(gate, old)
    assert isinstance(refusal, Refusal)
    assert "replaced" in refusal.error


def test_secrets_are_compared_in_constant_time_also_when_the_id_is_unknown(
    gates: Callable[..., Gate], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = make_key(tmp_path, "read")
    gate = gates()
    compared: list[int] = []
    real = hmac.compare_digest

    def counting(left: Any, right: Any) -> bool:
        compared.append(len(left))
        return real(left, right)

    monkeypatch.setattr(gate_module.hmac, "compare_digest", counting)
    for shown in (key, new_token().reveal()):
        compared.clear()
        gate.admit("", shown)
        assert compared == [32, 32]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(authorization=st.text(max_size=200), x_api_key=st.text(max_size=200))
def test_no_header_opens_by_accident(
    gates: Callable[..., Gate], tmp_path: Path, authorization: str, x_api_key: str
) -> None:
    if not (tmp_path / FILE_NAME).exists():
        make_key(tmp_path, "read")
    gate = gates()
    assert isinstance(gate.admit(authorization, x_api_key), Refusal)
    assert isinstance(gate.admit("Bearer " + authorization, x_api_key), Refusal)


@pytest.mark.parametrize("shown", ["\0", "\ud800" * 5, "th_" + "a" * 1_000_000, "th_" + "\0" * 12 + "_" + "a" * 43])
def test_hostile_keys_are_refused_like_any_other(gates: Callable[..., Gate], tmp_path: Path, shown: str) -> None:
    make_key(tmp_path, "read")
    assert isinstance(gates(OWN).admit(f"Bearer {shown}", shown), Refusal)


def test_changes_count_within_a_second_while_it_runs(gates: Callable[..., Gate], tmp_path: Path) -> None:
    gate = gates()
    assert gate.keyless
    key = make_key(tmp_path, "read", name="ann")
    wait_for(lambda: not gate.keyless, within_s=1, what="the end of keyless access")
    assert isinstance(ask(gate, key), Principal)
    assert isinstance(gate.admit("", ""), Refusal)
    with closing(KeyFile(tmp_path, "a test")) as file:
        file.revoke("ann")
    wait_for(lambda: isinstance(ask(gate, key), Refusal), within_s=1, what="the revocation")


def test_a_lost_file_opens_nothing_and_closes_nothing(gates: Callable[..., Gate], tmp_path: Path) -> None:
    key = make_key(tmp_path, "read", name="ann")
    gate = gates()
    for path in tmp_path.glob(FILE_NAME + "*"):
        path.unlink()
    with pytest.raises(Exception, match="no longer in"):
        gate._book.refresh()
    assert isinstance(ask(gate, key), Principal)
    with closing(KeyFile(tmp_path, "a test")) as file:
        assert file.listed() == []
    wait_for(lambda: not gate._book.keys, within_s=2, what="the new, empty file")
    assert not gate.keyless
    assert isinstance(ask(gate, key), Refusal)
    assert isinstance(gate.admit("", ""), Refusal)


def test_keys_whose_server_secret_is_gone_keep_a_collector_from_starting(tmp_path: Path) -> None:
    make_key(tmp_path, "read")
    (tmp_path / "access.key").unlink()
    with pytest.raises(Exception, match="Restore it from a backup"):
        KeyBook(tmp_path)


def test_last_use_is_written_at_the_end_and_not_on_the_way(gates: Callable[..., Gate], tmp_path: Path) -> None:
    key = make_key(tmp_path, "read", name="ann")
    gate = gates()
    before = now_ns()
    ask(gate, key)
    with closing(KeyFile(tmp_path, "a test")) as file:
        assert file.find("ann").last_used_at is None
        gate._book.close()
        assert (file.find("ann").last_used_at or 0) >= before


def test_last_use_is_written_once_a_minute(
    gates: Callable[..., Gate], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(book_module, "_NOTE_S", 0.0)
    key = make_key(tmp_path, "read", name="ann")
    ask(gates(), key)
    with closing(KeyFile(tmp_path, "a test")) as file:
        wait_for(lambda: file.find("ann").last_used_at is not None, within_s=5)


def test_a_copy_of_the_folder_takes_the_same_keys(tmp_path: Path) -> None:
    key = make_key(tmp_path / "data", "read")
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    with closing(KeyBook(tmp_path / "copy")) as book:
        assert isinstance(Gate(book, api_key=None, tenant="home").admit("", key), Principal)
