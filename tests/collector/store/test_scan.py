"""What was erased is found wherever it is left, and what is looked for is told to nobody."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold_collector.core.errors import StoreError
from tracehold_collector.store import scan as module
from tracehold_collector.store.database import Database
from tracehold_collector.store.scan import Finding, Scanned, files_under, scan, scan_apart

NEEDLE = bytes(range(100, 132))


def test_each_file_tells_what_is_in_it_where_and_how_often(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"..." + NEEDLE + b"," + NEEDLE + b"second needle")
    two.write_bytes(b"nothing of it here")
    found = scan([one, two], [NEEDLE, b"second needle", b"not there"])
    assert found.findings == (Finding(0, str(one), 3, 2), Finding(1, str(one), 68, 1))
    assert (found.files, found.bytes_read, found.unread) == (2, 81 + 18, ())


@pytest.mark.parametrize("offset", [0, 1, 31, 32, 33, 95, 96, 97, 160])
def test_what_lies_across_two_reads_is_found_once(tmp_path: Path, offset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 32)
    file = tmp_path / "file"
    file.write_bytes(b"\0" * offset + NEEDLE + b"\0" * 50)
    assert scan([file], [NEEDLE, NEEDLE + b"\0"]).findings == (
        Finding(0, str(file), offset, 1),
        Finding(1, str(file), offset, 1),
    )


@given(
    pieces=st.lists(st.binary(max_size=40), max_size=8),
    needles=st.lists(st.one_of(st.binary(min_size=8, max_size=20), st.just(b"aaaaaaaa")), min_size=1, max_size=6),
    chosen=st.lists(st.integers(0, 5), max_size=6),
    chunk=st.integers(8, 64),
)
def test_a_scan_finds_what_a_plain_search_finds(
    tmp_path_factory: pytest.TempPathFactory,
    pieces: list[bytes],
    needles: list[bytes],
    chosen: list[int],
    chunk: int,
) -> None:
    put_in = [needles[place % len(needles)] for place in chosen]
    data = b"".join(a + b for a, b in zip(pieces + [b""] * len(put_in), put_in + [b""] * len(pieces), strict=True))
    file = tmp_path_factory.getbasetemp() / "any"
    file.write_bytes(data)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "_CHUNK", chunk)
        found = {finding.needle: finding for finding in scan([file], needles).findings}
    for number, needle in enumerate(needles):
        times = sum(data.startswith(needle, place) for place in range(len(data)))
        assert (found[number].times if number in found else 0) == times
        assert not times or found[number].offset == data.find(needle)


def test_a_short_string_is_refused_without_being_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="fewer than 8 bytes") as refused:
        scan_apart([tmp_path], [b"secret"])
    assert "secret" not in str(refused.value)


def test_what_is_gone_or_cannot_be_read_is_told_apart(tmp_path: Path) -> None:
    found = scan([tmp_path / "gone", tmp_path], [NEEDLE])
    assert found == Scanned((), 0, 0, (str(tmp_path),))


def test_a_folder_is_read_with_all_below_it_but_no_link_out_of_it(tmp_path: Path) -> None:
    inner = tmp_path / "data" / "store.tmp"
    inner.mkdir(parents=True)
    (inner / "spilled").write_bytes(NEEDLE)
    (tmp_path / "outside").write_bytes(NEEDLE)
    (inner / "link").symlink_to(tmp_path / "outside")
    assert [Path(finding.path).name for finding in scan(files_under(tmp_path / "data"), [NEEDLE]).findings] == [
        "spilled"
    ]


def test_a_scan_of_the_live_store_keeps_its_lock(database: Database) -> None:  # FR-51
    assert database.path is not None
    database.connection.execute("CREATE TABLE said AS SELECT 'what nobody must find any more' AS text")
    found = scan_apart([database.path, database.path.with_name(f"{database.path.name}.wal")], [b"must find any more"])
    assert [Path(finding.path).name for finding in found.findings] == [f"{database.path.name}.wal"]
    code = f"import duckdb\ntry: duckdb.connect({str(database.path)!r})\nexcept duckdb.IOException: print('locked')"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert other.stdout.strip() == "locked"


def test_a_search_that_fails_is_not_taken_for_one_that_found_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.sys, "executable", "/bin/false")
    with pytest.raises(StoreError, match="search for what was erased failed"):
        scan_apart([tmp_path], [NEEDLE])
