"""Time stamps by an authority: OpenSSL's, over HTTP, as in life."""

from __future__ import annotations

import http.server
import subprocess
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.evidence import World, an_event, filled_world
from tracehold_collector.audit.time_stamps import make_request, open_response
from tracehold_collector.core.errors import AuditError
from tracehold_collector.heads.stamps import StampKeeper

CONFIG = """
[tsa]
serial = {folder}/serial
crypto_device = builtin
signer_cert = {folder}/tsa.pem
signer_key = {folder}/tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256, sha512
accuracy = secs:1
clock_precision_digits = 0
ess_cert_id_alg = sha256
"""


def openssl(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["openssl", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


class Authority:
    """A time stamp authority.

    Attributes:
        answers: what to send instead of a true answer, one after the other.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.answers: list[bytes] = []
        self.asked = 0
        (folder / "serial").write_text("01\n", encoding="ascii")
        (folder / "tsa.cnf").write_text(CONFIG.format(folder=folder), encoding="ascii")
        openssl(
            folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "tsa.key", "-out", "tsa.pem",
            "-subj", "/CN=An authority", "-days", "3650", "-addext", "extendedKeyUsage=critical,timeStamping",
        )  # fmt: skip

    def reply(self, query: bytes) -> bytes:
        self.asked += 1
        if self.answers:
            return self.answers.pop(0)
        (self.folder / "query.tsq").write_bytes(query)
        openssl(
            self.folder, "ts", "-reply", "-config", "tsa.cnf", "-section", "tsa", "-queryfile", "query.tsq",
            "-out", "reply.tsr",
        )  # fmt: skip
        return (self.folder / "reply.tsr").read_bytes()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    pytest.importorskip("rfc3161_client", reason="no rfc3161-client: pip install '.[timestamps]'")
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def url(authority: Authority) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.headers["content-type"] == "application/timestamp-query"
            reply = authority.reply(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200 if reply else 503)
            self.send_header("content-type", "application/timestamp-reply")
            self.send_header("content-length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/tsa?secret=1"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def own_world(tmp_path: Path) -> Iterator[World]:
    made = filled_world(tmp_path / "own")
    yield made
    made.writer.close()
    made.database.close()


def test_stamp_of_a_tree_head_goes_with_the_evidence_and_openssl_verifies_it(
    own_world: World, url: str, authority: Authority, tmp_path: Path
) -> None:
    keeper = StampKeeper(own_world.database, url, 3_600)
    assert keeper.look() == 2  # two tenants
    with zipfile.ZipFile(own_world.bundle(tmp_path / "b.zip")) as bundle:
        bundle.extractall(tmp_path / "b")
    folder = tmp_path / "b"
    check = ["ts", "-verify", "-in", "stamps/700.tsr", "-CAfile", str(authority.folder / "tsa.pem")]
    assert "Verification: OK" in openssl(folder, *check, "-data", "heads/700.txt")
    (folder / "other.txt").write_bytes((folder / "heads/700.txt").read_bytes() + b" ")
    with pytest.raises(AssertionError, match="imprint"):
        openssl(folder, *check, "-data", "other.txt")
    assert "secret" not in (folder / "evidence.json").read_text(encoding="utf-8")


def test_log_is_stamped_again_when_it_grew_and_the_time_has_come(own_world: World, url: str) -> None:
    keeper = StampKeeper(own_world.database, url, 60)
    assert (keeper.look(), keeper.look()) == (2, 0)
    head = own_world.heads[2]
    own_world.add([an_event(900)])
    own_world.sign(at=head.signed_at + 59_000_000_000)
    assert keeper.look() == 0
    own_world.add([an_event(901)])
    own_world.sign(at=head.signed_at + 60_000_000_000)
    assert keeper.look() == 1


def test_answer_that_is_no_stamp_of_what_was_asked_is_refused_and_stays_due(
    own_world: World, url: str, authority: Authority
) -> None:
    other = authority.reply(make_request(b"something else").body)
    keeper = StampKeeper(own_world.database, url, 60)
    for answer, why in [(other, "something else"), (b"no", "is no time stamp"), (b"", "no time stamp from")]:
        authority.answers.append(answer)
        with pytest.raises(AuditError, match=why):
            keeper.look()
    assert keeper.look() == 2


def test_answer_to_an_earlier_request_for_the_same_text_is_refused(authority: Authority) -> None:
    first, second = make_request(b"a head"), make_request(b"a head")
    reply = authority.reply(first.body)
    assert open_response(reply, first) > 1_700_000_000_000_000_000
    with pytest.raises(AuditError, match="something else"):
        open_response(reply, second)


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda _data: b"x" * 300_000], ids=["cut", "huge"])
def test_damaged_answer_is_refused(authority: Authority, change: Callable[[bytes], bytes]) -> None:
    request = make_request(b"a head")
    with pytest.raises(AuditError, match="no time stamp"):
        open_response(change(authority.reply(request.body)), request)
