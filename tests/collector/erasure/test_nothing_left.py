"""What was erased can neither be found nor confirmed, wherever somebody looks who has every file and every guess."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.erasing import PSEUDONYMS, Store, opened
from support.records import make_record
from tracehold_collector.erasure.engine import Parts
from tracehold_collector.store.chunks import CHUNK_COLUMNS, Chunk, commitment_of, entries_of
from tracehold_collector.store.rewrite import Rewriter

_GUESSES = [f"{euros} EUR" for euros in range(10_000)]
_SALARY = "4711 EUR"


def _fill(store: Store) -> None:
    for n in range(40):
        user = PSEUDONYMS.user("alice" if n % 4 == 0 else "bob")
        said = {"text": _SALARY if n % 4 == 0 else f"{n} bananas"}
        store.add(make_record(n, f"run-{n}", user_ref=user, session_id=PSEUDONYMS.session(str(n)), content=said))


def _confirmed(store: Store, left: bytes) -> set[str]:
    """The guesses that anything left confirms: as text, or as a digest with any digest that is left as its salt."""
    found = {match.decode() for match in re.findall(rb"\d{1,4} EUR", left)}
    commitments = {bytes(row[0]) for row in store.rows("SELECT commitment FROM events WHERE commitment IS NOT NULL")}
    digests = commitments | {
        bytes(hashes[place : place + 32])
        for (hashes,) in store.rows("SELECT hashes FROM log_hashes")
        for place in range(0, len(hashes), 32)
    }
    salts = (b"", bytes(32), *commitments)
    for guess in _GUESSES:
        content = b'{"text":"%b"}' % guess.encode()
        if any(hashlib.sha256(salt + content).digest() in digests for salt in salts):
            found.add(guess)
    return found


@pytest.mark.parametrize("mode", ["scrub", "delete"])
def test_the_true_value_is_not_among_what_a_guesser_with_every_file_can_tell(tmp_path: Path, mode: str) -> None:
    with opened(tmp_path) as store:
        rewriter = Rewriter(store.database, store.writer)
        store.erasures.engine._parts = Parts(rewrite=rewriter.rewrite)
        _fill(store)
        kept = {bytes(row[0]) for row in store.rows("SELECT body FROM contents WHERE run_id = 'run-0'")}
        record = store.erase(scope="subject", value="alice", mode=mode, basis="gdpr-17-1-a")
        assert record.status == "bytes gone"
        with store.database.cursor() as cursor:
            cursor.execute("CHECKPOINT")
        left = _read_apart(tmp_path)
        assert all(body not in left for body in kept)
        assert _confirmed(store, left) == set()
        assert len(store.said()) == 30


def test_the_guesser_would_have_found_it_before(tmp_path: Path) -> None:
    """The search above is one that can find: of content that is not erased, each salt is there for who has the keys."""
    with opened(tmp_path) as store:
        _fill(store)
        rows = store.rows(f"SELECT {CHUNK_COLUMNS} FROM contents WHERE run_id = 'run-0'")  # noqa: S608
        (entry,) = entries_of(Chunk(*rows[0]), store.database.vault)
        assert entry.content == b'{"text":"%b"}' % _SALARY.encode()
        ((commitment,),) = store.rows("SELECT commitment FROM events WHERE run_id = 'run-0'")
        assert commitment_of(entry) == commitment


def _read_apart(folder: Path) -> bytes:
    """By another process: to close a file here would end the store's lock on it."""
    script = (
        "import sys, pathlib\n"
        "for path in sorted(pathlib.Path(sys.argv[1]).rglob('*')):\n"
        "    path.is_file() and sys.stdout.buffer.write(path.read_bytes())"
    )
    done: subprocess.CompletedProcess[Any] = subprocess.run(
        [sys.executable, "-c", script, str(folder)], check=True, capture_output=True
    )
    return bytes(done.stdout)
