"""The folder of unsent events: nothing is lost, whatever happens to writers, readers and files."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule
from tracehold.observability.exporters.collector.spool import Spool, SpoolFullError

MIB = 1024 * 1024
A, B, C = b'{"n":1}', b'{"n":2}', b'{"n":3}'


@pytest.fixture
def spool(tmp_path):
    return Spool(tmp_path / "spool", max_bytes=MIB)


def drain(spool):
    """Take and acknowledge everything that waits."""
    found = []
    for name in spool.names():
        claim = spool.claim(name)
        if claim:
            found.extend(claim.lines)
            claim.ack()
    return found


def test_what_is_written_comes_back_oldest_first(spool):
    spool.write([A, B])
    spool.write([C])
    assert drain(spool) == [A, B, C]
    assert drain(spool) == []


def test_nothing_is_made_before_the_first_write(spool):
    assert spool.names() == []
    assert not spool.path.exists()


def test_folder_and_files_are_for_their_owner_only(spool):
    name = spool.write([A])
    assert stat.S_IMODE(spool.path.stat().st_mode) == 0o700
    assert stat.S_IMODE((spool.path / name).stat().st_mode) == 0o600


def test_a_folder_open_to_others_is_closed(spool):
    spool.path.mkdir(mode=0o755)
    spool.write([A])
    assert stat.S_IMODE(spool.path.stat().st_mode) == 0o700


def test_a_link_in_place_of_the_folder_is_refused(spool, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    spool.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="belongs"):
        spool.write([A])


def test_what_does_not_fit_is_refused_and_leaves_the_rest(tmp_path):
    spool = Spool(tmp_path / "spool", max_bytes=20)
    spool.write([A, B])
    with pytest.raises(SpoolFullError, match="20 bytes"):
        spool.write([C])
    assert drain(spool) == [A, B]
    spool.write([C])


def test_files_of_other_processes_count(tmp_path):
    Spool(tmp_path / "spool", max_bytes=MIB).write([A, B])
    with pytest.raises(SpoolFullError):
        Spool(tmp_path / "spool", max_bytes=20).write([C])


def test_a_claimed_file_is_nobody_elses_until_released(spool):
    name = spool.write([A])
    other = Spool(spool.path, max_bytes=MIB)
    claim = spool.claim(name)
    assert claim is not None
    assert other.claim(name) is None
    claim.release()
    claim.release()
    assert drain(other) == [A]
    assert spool.claim(name) is None


def test_the_lock_of_a_killed_process_is_taken_over(spool):
    name = spool.write([A])
    source = f"""
from pathlib import Path
from tracehold.observability.exporters.collector.spool import Spool
claim = Spool(Path({str(spool.path)!r}), max_bytes=1).claim({name!r})
print(len(claim.lines), flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "1\n"
        assert spool.claim(name) is None
        process.kill()
    assert drain(spool) == [A]


def test_a_child_that_forgets_a_claim_leaves_it_to_its_parent(spool):
    name = spool.write([A])
    source = f"""
import os
from pathlib import Path
from tracehold.observability.exporters.collector.spool import Spool
spool = Spool(Path({str(spool.path)!r}), max_bytes=1)
claim = spool.claim({name!r})
if os.fork() == 0:
    claim.forget()
    os._exit(0 if spool.claim({name!r}) is None else 1)
assert os.wait()[1] == 0
assert spool.claim({name!r}) is None
claim.release()
assert spool.claim({name!r}) is not None
"""
    subprocess.run([sys.executable, "-c", source], check=True)
    assert drain(spool) == [A]


def test_a_half_written_file_of_a_dead_writer_gives_its_whole_lines(spool, caplog):
    name = spool.write([A, B, C])
    path = spool.path / name
    path.with_name(name + ".part").write_bytes(path.read_bytes()[:-3])
    path.unlink()
    assert drain(spool) == [A, B]
    assert [entry.name for entry in spool.path.iterdir()] == [name + ".bad"]
    assert str(spool.path / (name + ".bad")) in caplog.text


def test_the_file_of_a_living_writer_is_left_alone(spool, monkeypatch):
    seen = []
    other = Spool(spool.path, max_bytes=MIB)
    sync = os.fsync

    def look_and_sync(fd):
        seen.append(other.names())
        sync(fd)

    monkeypatch.setattr(os, "fsync", look_and_sync)
    name = spool.write([A])
    assert seen[0] == []
    assert other.names() == [name]


def test_an_empty_temporary_file_goes_when_it_is_old(spool):
    spool.write([A])
    young, old = spool.path / "1.ndjson.part", spool.path / "2.ndjson.part"
    young.touch()
    old.touch()
    os.utime(old, (0, 0))
    assert len(spool.names()) == 1
    assert young.exists()
    assert not old.exists()


@pytest.mark.parametrize("junk", [b"", b"\x00" * 100, b"not json\n", b'{"n":1', b"[1]\n", b'{"n":\n'])
def test_a_damaged_file_never_stops_the_rest(spool, caplog, junk):
    spool.write([A])
    (spool.path / f"{0:020d}-1-1.ndjson").write_bytes(junk)
    spool.write([B])
    assert drain(spool) == [A, B]
    assert drain(spool) == []
    assert len(caplog.records) == 1


def test_what_is_no_plain_file_is_put_aside(spool, tmp_path):
    spool.write([A])
    (spool.path / "1.ndjson").mkdir()
    (spool.path / "2.ndjson").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(spool.path / "3.ndjson")
    assert drain(spool) == [A]
    assert drain(spool) == []
    assert len(list(spool.path.glob("*.bad"))) == 3


def test_few_damaged_files_are_kept(spool):
    spool.write([A])
    for number in range(40):
        (spool.path / f"{number:020d}-1-1.ndjson").write_bytes(b"junk\n")
    assert drain(spool) == [A]
    assert len(list(spool.path.glob("*.bad"))) == 16


def test_a_failed_write_leaves_nothing_behind(spool, monkeypatch):
    spool.write([A])
    monkeypatch.setattr(os, "fsync", lambda _fd: (_ for _ in ()).throw(OSError(5, "made up")))
    with pytest.raises(OSError, match="made up"):
        spool.write([B])
    monkeypatch.undo()
    assert drain(spool) == [A]
    assert list(spool.path.iterdir()) == []


class SpoolMachine(RuleBasedStateMachine):
    """Writers, readers and crashes in any order: what was written is delivered, twice only after a crash."""

    claims = Bundle("claims")

    @initialize()
    def begin(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "spool"
        self.spools = [Spool(self.path, max_bytes=MIB) for _ in range(2)]
        self.number = 0
        self.written: set[bytes] = set()
        self.delivered: Counter[bytes] = Counter()
        self.resent: Counter[bytes] = Counter()
        self.held: set[str] = set()

    def lines(self, count):
        self.number += count
        return [b'{"n":%d}' % number for number in range(self.number - count, self.number)]

    @rule(who=st.integers(0, 1), count=st.integers(1, 5))
    def write(self, who, count):
        lines = self.lines(count)
        self.spools[who].write(lines)
        self.written.update(lines)

    @rule(count=st.integers(1, 5), cut=st.integers(1, 30))
    def crash_in_write(self, count, cut):
        lines = self.lines(count)
        body = (b"\n".join(lines) + b"\n")[:-cut]
        self.path.mkdir(exist_ok=True)
        (self.path / f"{self.number:020d}-9-9.ndjson.part").write_bytes(body)
        self.written.update(body.split(b"\n")[:-1])

    @rule(target=claims, who=st.integers(0, 1), pick=st.integers(0, 9))
    def claim(self, who, pick):
        names = self.spools[who].names()
        if not names:
            return None
        name = names[pick % len(names)]
        claim = self.spools[who].claim(name)
        assert claim is None or name not in self.held
        if claim:
            self.held.add(name)
        return claim

    @rule(claim=consumes(claims))
    def send_and_ack(self, claim):
        if claim:
            self.delivered.update(claim.lines)
            claim.ack()
            self.held.discard(claim.name)

    @rule(claim=consumes(claims))
    def fail_to_send(self, claim):
        if claim:
            claim.release()
            self.held.discard(claim.name)

    @rule(claim=consumes(claims))
    def crash_after_sending(self, claim):
        if claim:
            self.delivered.update(claim.lines)
            self.resent.update(claim.lines)
            claim.forget()
            self.held.discard(claim.name)

    @invariant()
    def nothing_unknown_was_delivered(self):
        # A cut line may by chance be whole, and is then rightly delivered; nothing else may appear.
        assert all(line.startswith(b'{"n":') and line.endswith(b"}") for line in self.delivered)

    def teardown(self):
        fresh = Spool(self.path, max_bytes=MIB)
        for name in list(self.held):
            assert fresh.claim(name) is None
        # Everybody dies: the kernel drops their locks, as closing the last descriptor does.
        for claim in [each for values in self.bundles.values() for each in self._values(values)]:
            claim.release()
        self.delivered.update(drain(fresh))
        assert self.written <= set(self.delivered)
        for line in self.written:
            assert self.delivered[line] == 1 + self.resent[line]
        self.folder.cleanup()

    def _values(self, references):
        values = (self.names_to_values.get(reference.name) for reference in references)
        return [value for value in values if value is not None]


SpoolMachine.TestCase.settings = settings(stateful_step_count=30, deadline=None)
test_any_order_of_writes_claims_and_crashes_loses_nothing = SpoolMachine.TestCase
