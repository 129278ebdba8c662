"""Evidence over HTTP: bundles, and the log as C2SP lays it out, each for who may have it."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.evidence import an_event, check_bundle, other_python
from support.keys import bearer, make_key
from tracehold_collector.access.journal import Entry
from tracehold_collector.access.reading import Asked, read_log
from tracehold_collector.audit.merkle import leaf_hash, root_of, verify_consistency, verify_inclusion
from tracehold_collector.audit.notes import parse_verifier_key
from tracehold_collector.audit.tiles import parse_bundle
from tracehold_collector.audit.tree_heads import open_tree_head
from tracehold_collector.serve import CollectorServer

Serve = Callable[..., CollectorServer]
EVENTS = 300


def get(server: CollectorServer, path: str, key: str | None = None, **params: Any) -> httpx.Response:
    headers = bearer(key) if key else {}
    return httpx.get(f"{server.url}{path}", params=params, headers=headers, timeout=60, trust_env=False)


def key_of(server: CollectorServer, tenant: str = "default") -> str:
    logs = get(server, "/api/v1/log").json()["logs"]
    return str(next(log["keys"][0] for log in logs if log["tenant"] == tenant))


@pytest.fixture
def filled(serve: Serve) -> CollectorServer:
    server = serve()
    for low in range(0, EVENTS, 100):
        server.writer.submit([an_event(n) for n in range(low, low + 100)]).result(10)
    server.heads.look(all_of_it=True)
    return server


def test_bundle_covers_what_was_committed_a_moment_ago_and_verifies(filled: CollectorServer, tmp_path: Path) -> None:
    filled.writer.submit([an_event(EVENTS)]).result(10)
    answer = get(filled, "/api/v1/export/evidence", with_content="true")
    assert answer.headers["content-type"] == "application/zip"
    assert (answer.headers["x-tracehold-events"], answer.headers["x-tracehold-population"]) == ("16", "16")
    assert answer.headers["content-disposition"] == 'attachment; filename="tracehold-evidence-denials.zip"'
    (tmp_path / "b.zip").write_bytes(answer.content)
    found = check_bundle(tmp_path / "b.zip", "--key", key_of(filled))
    assert (found.code, found.counts) == (0, {"verified": 16})


def test_sample_completeness_and_an_earlier_tree_head_are_parameters(filled: CollectorServer, tmp_path: Path) -> None:
    early = get(filled, "/api/v1/log/default/checkpoint").text
    (tmp_path / "mine.txt").write_text(early, encoding="utf-8")
    filled.writer.submit([an_event(n) for n in range(EVENTS, EVENTS + 100)]).result(10)
    asked = {"question": "events", "sample": 7, "seed": "a seed", "complete": "true", "tree_head": EVENTS}
    (tmp_path / "b.zip").write_bytes(get(filled, "/api/v1/export/evidence", **asked).content)
    found = check_bundle(tmp_path / "b.zip", "--key", key_of(filled), "--tree-head", str(tmp_path / "mine.txt"))
    assert (found.code, found.counts, found.said["population"]) == (0, {"verified": 7}, EVENTS + 100)


def test_evidence_is_for_the_role_audit_with_content_only_for_the_role_content_and_noted_as_an_export(
    serve: Serve, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    reader, auditor = make_key(data, "read"), make_key(data, "audit", name="an auditor")
    seer, other = make_key(data, "audit", "read", "content"), make_key(data, "audit", tenants=("other",))
    server = serve()
    server.writer.submit([an_event(n) for n in range(40)]).result(10)
    asked = {"path": "/api/v1/export/evidence"}
    assert get(server, key=reader, **asked).status_code == 403
    assert get(server, key=auditor, **asked).status_code == 200
    assert get(server, key=auditor, **asked, with_content="true").status_code == 403
    assert b"content.jsonl" in get(server, key=seer, **asked, with_content="true").content
    assert get(server, key=other, **asked, tenant="default").status_code == 400
    assert get(server, key=other, **asked).status_code == 400
    server._access_log.add(Entry("read", "the end", None, "a test")).result(10)
    noted = [line for line in read_log(data, Asked(), None) if line["who"] == "an auditor" and line["status"] == 200]
    assert [(line["action"], line["rows"], line["tenants"]) for line in noted] == [("export", 2, ["default"])]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"question": "dreams"}, "there is no question"),
    ({"color": "red"}, "there is no parameter 'color'"),
    ({"sample": "5"}, "sample and seed go together"),
    ({"sample": "5", "seed": ""}, "seed takes"),
    ({"complete": "yes"}, "complete is true or false"),
    ({"tree_head": "-1"}, "tree_head takes the size"),
    ({"tree_head": ["1"] * 17}, "16 times"),
    ({"since": ["2026-01-01", "2026-01-02"]}, "given twice"),
    ({"question": "run"}, "needs run_id"),
    ({"tenant": "nobody"}, "no log of tenant"),
]


def test_request_that_cannot_be_answered_is_refused_with_what_to_do(filled: CollectorServer) -> None:
    for params, why in REFUSED:
        answer = get(filled, "/api/v1/export/evidence", **params)
        assert answer.status_code == 400, params
        assert why in answer.json()["error"], params


def test_log_is_served_as_c2sp_lays_it_out(filled: CollectorServer) -> None:
    base = "/api/v1/log/default"
    checkpoint = get(filled, f"{base}/checkpoint")
    assert checkpoint.headers["content-type"] == "text/plain; charset=utf-8"
    head = open_tree_head(checkpoint.content, [parse_verifier_key(key_of(filled))]).head
    assert head.size == EVENTS
    tiles = [get(filled, f"{base}/tile/0/{path}") for path in ("000", f"001.p/{EVENTS - 256}")]
    leaves = b"".join(tile.content for tile in tiles)
    assert root_of(leaves) == head.root
    assert get(filled, f"{base}/tile/1/000.p/1").content == root_of(leaves[: 256 * 32])
    entries = parse_bundle(get(filled, f"{base}/tile/entries/000").content)
    entries += parse_bundle(get(filled, f"{base}/tile/entries/001.p/{EVENTS - 256}").content, EVENTS - 256)
    assert b"".join(map(leaf_hash, entries)) == leaves
    assert {tile.headers["content-type"] for tile in tiles} == {"application/octet-stream"}
    assert "immutable" in tiles[0].headers["cache-control"]
    for path in ("tile/0/001", "tile/0/001.p/45", "tile/2/000.p/1", "tile/entries/002.p/1", "tile/0/1", "tile/x/000"):
        assert get(filled, f"{base}/{path}").status_code == 404, path
    # Narrower partial tiles than the newest are those of earlier tree heads.
    assert get(filled, f"{base}/tile/0/001.p/5").content == leaves[256 * 32 : 261 * 32]


def test_proofs_made_here_verify(filled: CollectorServer) -> None:
    base = "/api/v1/log/default"
    key = parse_verifier_key(key_of(filled))
    event_id = str(an_event(77).event_id.hex())
    found = get(filled, f"{base}/proof", event_id=event_id).json()
    assert found == get(filled, f"{base}/proof", leaf_index=found["leaf_index"]).json()
    head = open_tree_head(found["tree_head"], [key]).head
    proof = [base64.b64decode(step) for step in found["proof"]]
    verify_inclusion(base64.b64decode(found["leaf_hash"]), found["leaf_index"], head.size, proof, head.root)
    leaves = b"".join(get(filled, f"{base}/tile/0/{path}").content for path in ("000", f"001.p/{EVENTS - 256}"))
    grown = get(filled, f"{base}/consistency", **{"from": 123}).json()
    steps = [base64.b64decode(step) for step in grown["proof"]]
    verify_consistency(123, EVENTS, steps, root_of(leaves[: 123 * 32]), head.root)
    for path, params, status in [
        ("proof", {}, 400),
        ("proof", {"event_id": event_id, "leaf_index": 3}, 400),
        ("proof", {"event_id": "x"}, 400),
        ("proof", {"event_id": "f" * 32}, 404),
        ("proof", {"leaf_index": EVENTS}, 404),
        ("consistency", {}, 400),
        ("consistency", {"from": EVENTS + 1}, 400),
        ("consistency", {"from": 5, "to": 4}, 400),
    ]:
        assert get(filled, f"{base}/{path}", **params).status_code == status, (path, params)


def test_log_of_another_tenant_is_as_one_that_does_not_exist(serve: Serve, tmp_path: Path) -> None:
    data = tmp_path / "data"
    mine, reader = make_key(data, "audit", tenants=("ann/eu",)), make_key(data, "read", tenants=("ann/eu",))
    server = serve()
    server.writer.submit([an_event(n, tenant=tenant) for n in range(3) for tenant in ("ann/eu", "bob")]).result(10)
    server.heads.look(all_of_it=True)
    for path, params in [
        ("checkpoint", {}),
        ("tile/0/000.p/3", {}),
        ("tile/entries/000.p/3", {}),
        ("proof", {"leaf_index": 0}),
        ("consistency", {"from": 1}),
    ]:
        assert get(server, f"/api/v1/log/ann%2Feu/{path}", mine, **params).status_code == 200
        assert get(server, f"/api/v1/log/ann/eu/{path}", mine, **params).status_code == 200
        assert get(server, f"/api/v1/log/ann%2Feu/{path}", reader, **params).status_code == 403
        theirs, none = (get(server, f"/api/v1/log/{tenant}/{path}", mine, **params) for tenant in ("bob", "cyd"))
        assert theirs.status_code == none.status_code == 404
        assert theirs.text.replace("bob", "cyd") == none.text


def test_entries_with_a_deleted_event_are_gone_and_their_leaf_hashes_are_not(filled: CollectorServer) -> None:
    before = get(filled, "/api/v1/log/default/tile/0/000").content
    with filled.database.cursor() as cursor:
        cursor.execute("DELETE FROM events WHERE leaf_index = 7")
    gone = get(filled, "/api/v1/log/default/tile/entries/000")
    assert gone.status_code == 404
    assert "the event of leaf 7 is not there any more" in gone.json()["error"]
    assert get(filled, "/api/v1/log/default/tile/0/000").content == before


def test_another_implementation_reads_the_log_over_http_and_finds_it_whole(filled: CollectorServer) -> None:
    python = other_python()
    check = (
        "import json, sys\n"
        "from aics_tlog import HttpTileReader, VerifiedTileReader, audit_tiles, verify_checkpoint\n"
        "from aics_tlog import parse_checkpoint, parse_note, parse_vkey\n"
        "base, key = json.load(sys.stdin)\n"
        "reader = HttpTileReader([base], proxies={})\n"
        "note = parse_note(reader.read_checkpoint())\n"
        "found = verify_checkpoint(note, parse_vkey(key))\n"
        "assert found.ok, found.error\n"
        "head = parse_checkpoint(note.text)\n"
        "audit_tiles(reader, head.size, head.root)\n"
        "entry = VerifiedTileReader(reader, head.size, head.root).entry(7)\n"
        "json.dump([head.size, len(entry)], sys.stdout)\n"
    )
    given = json.dumps([f"{filled.url}/api/v1/log/default/", key_of(filled)])
    done = subprocess.run([python, "-c", check], input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [EVENTS, 58]


def test_command_writes_a_bundle_that_verifies(
    filled: CollectorServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracehold_collector.cli.app import app  # noqa: PLC0415
    from typer.testing import CliRunner  # noqa: PLC0415

    for name in [name for name in os.environ if name.startswith("TRACEHOLD_")]:
        monkeypatch.delenv(name)
    (tmp_path / "mine.txt").write_text(get(filled, "/api/v1/log/default/checkpoint").text, encoding="utf-8")
    arguments = ["export", "evidence", "--url", filled.url, "--tree-head", str(tmp_path / "mine.txt"), "--sample", "5"]
    done = CliRunner().invoke(app, [*arguments, "--seed", "Q3", "-o", str(tmp_path / "q3.zip")])
    assert done.exit_code == 0, done.output
    assert "5 records, 15 events answer the question" in done.output
    assert check_bundle(tmp_path / "q3.zip", "--key", key_of(filled)).counts == {"verified": 5}
