"""Second places of tree heads: a file that is only appended to, and a receiver of somebody else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from tracehold.core.errors import ConfigurationError
from tracehold_collector.core.errors import StoreError
from tracehold_collector.heads.copies import (
    LOCAL_FILE,
    FileCopies,
    ObjectCopies,
    WebhookCopies,
    open_places,
    read_copies,
    read_notes,
)
from tracehold_collector.store.tree_heads import StoredHead


def head(size: int, tenant: str = "default") -> StoredHead:
    return StoredHead(tenant, size, bytes(32), 1_796_000_000_000_000_000, f"log/{tenant}\n{size}\n\n— log/{tenant} x\n")


class Receiver(BaseHTTPRequestHandler):
    status: ClassVar[int] = 204
    got: ClassVar[list[tuple[str | None, bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append((self.headers["X-Tracehold-Tenant"], body))
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def receiver() -> Iterator[str]:
    Receiver.got.clear()
    Receiver.status = 204
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://who:secret@127.0.0.1:{server.server_port}/heads?token=hidden"
    server.shutdown()
    server.server_close()
    thread.join()


def test_heads_are_appended_to_a_file_that_its_owner_alone_reads(tmp_path: Path) -> None:
    place = FileCopies(tmp_path)
    place.put(head(1))
    place.put(head(2, "a/b"))
    assert read_copies(tmp_path) == [("default", head(1).note), ("a/b", head(2, "a/b").note)]
    assert (tmp_path / LOCAL_FILE).stat().st_mode & 0o777 == 0o600


def test_a_line_that_was_cut_short_spoils_no_other(tmp_path: Path) -> None:
    place = FileCopies(tmp_path)
    place.put(head(1))
    with (tmp_path / LOCAL_FILE).open("ab") as file:
        file.write(b'{"tenant":"default","si')
    place.put(head(2))
    assert read_notes(tmp_path / LOCAL_FILE) == [head(1).note, head(2).note]


@pytest.mark.parametrize("content", [b"\xff\xfe", b"nonsense\n", b"[]\n", b'{"tenant": 1}\n', b""])
def test_a_file_that_holds_no_heads_gives_none_or_says_so(tmp_path: Path, content: bytes) -> None:
    (tmp_path / LOCAL_FILE).write_bytes(content)
    if content.startswith(b"\xff"):
        with pytest.raises(StoreError, match="cannot read tree heads"):
            read_copies(tmp_path)
    else:
        assert read_copies(tmp_path) == []


def test_a_note_is_read_from_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "head.txt").write_text(head(7).note, encoding="utf-8")
    assert read_notes(tmp_path / "head.txt") == [head(7).note]


def test_a_folder_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"file/heads\.jsonl"):
        FileCopies(tmp_path / "file" / "heads.jsonl").put(head(1))


def test_a_receiver_gets_the_note_and_whose_it_is(receiver: str) -> None:
    WebhookCopies(receiver).put(head(3, "a b"))
    assert Receiver.got == [("a%20b", head(3, "a b").note.encode())]


def test_a_receiver_that_refuses_is_asked_again_and_its_secrets_are_not_shown(receiver: str) -> None:
    Receiver.status = 500
    place = WebhookCopies(receiver)
    with pytest.raises(StoreError, match="it answered 500") as raised:
        place.put(head(3))
    assert "secret" not in f"{raised.value}{place.name}"
    assert "hidden" not in f"{raised.value}{place.name}"


def test_a_receiver_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot copy a tree head to http://127\.0\.0\.1/"):
        WebhookCopies("http://127.0.0.1:9/").put(head(1))


def test_an_object_is_written_for_each_head(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()  # an object store has no folders
    place = ObjectCopies(f"file://{tmp_path}")
    place.put(head(3, "a"))
    assert (tmp_path / "a" / f"{3:020d}.txt").read_text() == head(3, "a").note


def test_places_are_told_apart_by_their_addresses(tmp_path: Path) -> None:
    places = open_places(f" {tmp_path} , https://w.example/heads,", tmp_path / "data")
    assert [type(place) for place in places] == [FileCopies, FileCopies, WebhookCopies]
    assert places[2].name == "https://w.example/heads"
    with pytest.raises(ConfigurationError, match="ftp://"):
        open_places("ftp://nowhere/x", tmp_path)
