"""What was acknowledged is there, once, whatever happens to the collector, and it tells (design: decision 1)."""

from __future__ import annotations

import contextlib
import random
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from support.asking import Asker
from support.ledger import WAYS, Sender, hold_against_store, stop_all
from support.otlp import chat_spans
from support.processes import COMMAND, CollectorProcess, clean_environment, free_port, wait_for
from support.profile import SOAK

KILLS = 60 if SOAK else 6
MILLION = 1_000_000


class Scene:
    """Collectors and senders of one test; none outlives it."""

    def __init__(self) -> None:
        self.collectors: list[CollectorProcess] = []
        self.senders: list[Sender] = []

    def collector(self, data_dir: Path) -> tuple[CollectorProcess, dict[str, str]]:
        """A collector that runs, and where each way leads."""
        port = free_port()
        collector = CollectorProcess(data_dir, None, "--grpc-port", str(port))
        self.collectors.append(collector)
        collector.start()
        return collector, {"http": collector.url, "grpc": f"127.0.0.1:{port}", "events": collector.url}

    def send(self, *senders: Sender) -> list[Sender]:
        """Start senders."""
        self.senders.extend(senders)
        for sender in senders:
            sender.start()
        return list(senders)


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    for sender in made.senders:
        sender.stopping.set()
    for collector in made.collectors:
        collector.kill()


def acknowledged(senders: list[Sender]) -> int:
    return sum(len(sender.acknowledged) for sender in senders)


def progress(senders: list[Sender], requests: int) -> None:
    """Wait until each sender had so many more requests acknowledged."""
    wanted = [len(sender.acknowledged) + requests for sender in senders]
    wait_for(
        lambda: all(len(sender.acknowledged) >= count for sender, count in zip(senders, wanted, strict=True)),
        within_s=60,
        what="progress of every sender",
    )


def test_killed_at_any_moment_it_loses_and_doubles_nothing_of_any_way_in(tmp_path: Path, scene: Scene) -> None:  # FR-25
    collector, leads = scene.collector(tmp_path / "data")
    senders = scene.send(*(Sender(way, leads[way], MILLION * place) for place, way in enumerate(WAYS * 2)))
    moments = random.Random(20261129)
    for _ in range(KILLS):
        target = acknowledged(senders) + moments.randrange(3, 40)
        wait_for(lambda target=target: acknowledged(senders) >= target, what="progress")
        collector.kill()
        collector.start()
    progress(senders, 1)
    stop_all(senders)
    collector.stop()
    story = hold_against_store(senders, tmp_path / "data")
    assert [event["cause"] for event in story if event["type"] == "gap"] == [
        "first_start",
        *["killed_or_crashed"] * KILLS,
    ]
    assert [event["type"] for event in story][-1] == "stopped"


def test_it_loses_and_doubles_nothing_of_fifty_senders(tmp_path: Path, scene: Scene) -> None:
    collector, leads = scene.collector(tmp_path / "data")
    senders = scene.send(*(Sender(WAYS[n % 3], leads[WAYS[n % 3]], MILLION * n, requests=6) for n in range(50)))
    for sender in senders:
        sender.join(100)
    assert [len(sender.acknowledged) for sender in senders] == [6] * 50
    collector.stop()
    hold_against_store(senders, tmp_path / "data")


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    """A file system of its own of that size; left out where it may not be mounted."""
    folder.mkdir(mode=0o700)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700", "tmpfs", str(folder)],
        capture_output=True, check=False,
    )  # fmt: skip
    if mounted.returncode:
        pytest.skip("no small file system can be mounted here; the test of a file size limit stands for it")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a tmpfs")
def test_a_full_disk_loses_nothing_and_is_a_pause_that_ends_with_the_room(tmp_path: Path, scene: Scene) -> None:
    folder = tmp_path / "data"
    with small_disk(folder, 32):
        collector, leads = scene.collector(folder)
        senders = scene.send(*(Sender(way, leads[way], MILLION * place, each=200) for place, way in enumerate(WAYS)))
        progress(senders, 1)
        filler = folder / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(b"\0" * 65536)
        wait_for(lambda: all(sender.refused for sender in senders), within_s=60, what="a refusal of every sender")
        assert {status for sender in senders for status in sender.refused} <= {503, 14}
        filler.unlink()
        progress(senders, 2)
        stop_all(senders)
        collector.stop()
        story = hold_against_store(senders, folder)
    (pause,) = [event for event in story if event["type"] == "pause"]
    assert pause["cause"] == "disk_full"
    assert pause["refused"] == sum(len(sender.refused) for sender in senders)
    assert [event["type"] for event in story][-1] == "stopped"


@pytest.mark.skipif(sys.platform != "linux", reason="sets a limit of another process")
def test_killed_while_the_disk_is_full_it_opens_again_with_everything_acknowledged(
    tmp_path: Path, scene: Scene
) -> None:
    folder = tmp_path / "data"
    with small_disk(folder, 32):
        collector, leads = scene.collector(folder)
        senders = scene.send(*(Sender(way, leads[way], MILLION * place, each=200) for place, way in enumerate(WAYS)))
        progress(senders, 1)
        filler = folder / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(b"\0" * 65536)
        wait_for(lambda: all(sender.refused for sender in senders), within_s=60, what="a refusal of every sender")
        collector.kill()
        filler.unlink()
        collector.start()
        progress(senders, 1)
        stop_all(senders)
        collector.stop()
        story = hold_against_store(senders, folder)
    assert "killed_or_crashed" in [event["cause"] for event in story]


@pytest.mark.skipif(sys.platform != "linux", reason="sets a limit of another process")
def test_a_file_that_may_not_grow_loses_nothing_and_is_a_pause(tmp_path: Path, scene: Scene) -> None:
    folder = tmp_path / "data"
    collector, leads = scene.collector(folder)
    assert collector.process is not None
    senders = scene.send(*(Sender(way, leads[way], MILLION * place, each=200) for place, way in enumerate(WAYS)))
    progress(senders, 1)
    grown = max(file.stat().st_size for file in folder.iterdir())
    _, hard = resource.prlimit(collector.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(collector.process.pid, resource.RLIMIT_FSIZE, (grown + 100_000, hard))
    wait_for(lambda: all(sender.refused for sender in senders), within_s=60, what="a refusal of every sender")
    resource.prlimit(collector.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
    progress(senders, 2)
    stop_all(senders)
    collector.stop()
    story = hold_against_store(senders, folder)
    assert [event["cause"] for event in story if event["type"] == "pause"] == ["store_failed"]


def test_a_request_whose_answer_was_cut_off_is_stored_once_and_its_resend_is_a_success(
    tmp_path: Path, scene: Scene
) -> None:
    # FR-25
    body = chat_spans(0, 40).SerializeToString()
    head = (
        "POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-protobuf\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    collector, _ = scene.collector(tmp_path / "data")
    for again in range(3):
        with socket.create_connection(("127.0.0.1", collector.port)) as cut:
            cut.sendall(head.encode() + body)
        asker = Asker(collector.url)
        wait_for(lambda asker=asker: asker.row("overview")["events"] == 40, what="the commit")
        answer = httpx.post(
            f"{collector.url}/v1/traces", content=body, headers={"Content-Type": "application/x-protobuf"},
            trust_env=False,
        )  # fmt: skip
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["tracehold-duplicates"] == "40"
        (spend,) = asker.rows("spend")
        assert (spend["calls"], spend["input_tokens"]) == (40, 280), again
        asker.close()
        collector.kill() if again else collector.stop()
        collector.start()
    collector.stop()


def test_a_store_that_another_process_has_open_is_named_and_stays_as_it_is(
    tmp_path: Path, scene: Scene
) -> None:  # FR-51
    collector, _ = scene.collector(tmp_path / "data")
    (sender,) = scene.send(Sender("http", collector.url, 0, requests=3))
    second = subprocess.run(
        [COMMAND, "collect", "--port", "0", "--data-dir", str(tmp_path / "data")],
        env=clean_environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert second.returncode == 1
    assert "is open in another process" in second.stderr
    sender.join(30)
    collector.kill()
    hold = "import duckdb, sys; held = duckdb.connect(sys.argv[1]); print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path / "data" / "tracehold.duckdb")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as holder:  # fmt: skip
        assert holder.stdout is not None
        assert holder.stdout.readline() == "1\n"
        with pytest.raises(AssertionError, match="is open in another process"):
            collector.start()
        collector.stop()
        holder.communicate("\n", timeout=30)
    collector.start()
    collector.stop()
    story = hold_against_store([sender], tmp_path / "data")
    assert [event["type"] for event in story] == ["gap", "started", "gap", "started", "stopped"]
