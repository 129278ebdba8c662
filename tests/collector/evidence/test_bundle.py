"""Bundles of evidence, and that the verifier in Python finds everything that is wrong with one."""

from __future__ import annotations

import ast
import base64
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from support.evidence import NOW, OFFLINE, an_event, edit_json, edit_line, erase, tampered
from support.records import START
from tracehold_collector.audit.leaves import FIELDS
from tracehold_collector.audit.notes import ED25519, VerifierKey
from tracehold_collector.audit.tree_heads import TreeHead, sign_tree_head
from tracehold_collector.core.errors import QueryError
from tracehold_collector.core.times import iso_utc
from tracehold_collector.evidence.sample import draw

DENIALS = 35


@pytest.fixture(scope="module")
def denials(world, tmp_path_factory) -> Path:
    return world.bundle(tmp_path_factory.mktemp("denials") / "denials.zip", with_content=True)


@pytest.fixture
def copied(denials, tmp_path) -> Path:
    """A copy of the bundle beside which a tampered one may be written."""
    path = tmp_path / "bundle.zip"
    path.write_bytes(denials.read_bytes())
    return path


def lines(path: Path, name: str = "records.jsonl") -> list[dict]:
    with zipfile.ZipFile(path) as bundle:
        return [json.loads(line) for line in bundle.read(name).splitlines()]


def manifest(path: Path) -> dict:
    with zipfile.ZipFile(path) as bundle:
        return json.loads(bundle.read("evidence.json"))


def test_bundle_of_denials_verifies_with_the_key_that_the_reader_brings(world, denials, check):
    found = check(denials, "--key", world.key())
    assert (found.code, found.said["verdict"], found.said["fails"]) == (0, "verified", [])
    assert found.counts == {"verified": DENIALS}
    assert found.said["population"] == DENIALS
    assert f"what was said: {DENIALS} of {DENIALS} as recorded, 0 erased" in found.said["holds"]


def test_bundle_verifies_as_a_program_of_its_own_on_a_path_without_tracehold(world, denials, tmp_path):
    with zipfile.ZipFile(denials) as bundle:
        (tmp_path / "verify_evidence.py").write_bytes(bundle.read("verify_evidence.py"))
    done = subprocess.run(
        [sys.executable, "-I", "verify_evidence.py", str(denials), "--key", world.key()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Verdict     VERIFIED" in done.stdout


def test_verifier_is_the_one_of_the_sources_shares_no_code_and_is_python_3_9(denials):
    with zipfile.ZipFile(denials) as bundle:
        source = bundle.read("verify_evidence.py")
    assert source == (OFFLINE / "verify_evidence.py").read_bytes()
    tree = ast.parse(source, feature_version=(3, 9))
    imported = {
        (node.module or "").partition(".")[0] if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert imported - set(sys.stdlib_module_names) == {"cryptography"}


def test_without_a_key_of_the_readers_own_it_says_that_the_keys_are_unconfirmed(denials, check):
    found = check(denials)
    assert (found.code, found.said["verdict"]) == (3, "unconfirmed keys")


def test_another_key_than_the_logs_proves_nothing(denials, check):
    public = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    found = check(denials, "--key", str(VerifierKey("log.example/default", ED25519, public)))
    assert found.code == 1
    assert "no tree head in the bundle is signed by a key you gave" in found.said["fails"][-1]


def test_after_a_rotation_the_new_key_is_enough_and_the_old_one_is_not(own_world, check, tmp_path):
    old = own_world.key()
    own_world.signer.rotate(NOW)
    own_world.add([an_event(720)])
    own_world.sign(at=NOW + 1_000_000_000)
    path = own_world.bundle(tmp_path / "b.zip", sizes=(700,))
    new = own_world.key()
    found = check(path, "--key", new)
    assert (found.code, found.counts) == (0, {"verified": DENIALS + 1})
    assert any("the tree head of size 700" in line and "left aside" in line for line in found.said["notes"])
    assert any("the log only grew since" in line for line in check(path, "--key", new, "--key", old).said["holds"])
    assert check(path, "--key", old).code == 1


@pytest.mark.parametrize("field", [*FIELDS, "received_at", "event_id", "commitment", "has_content", "leaf_index"])
def test_each_part_of_a_record_is_proven(copied, world, check, field):
    def change(record: dict) -> None:
        envelope = record["envelope"]
        if field == "has_content":
            record[field] = False
        elif field == "leaf_index":
            record[field] += 1
        elif field == "received_at":
            record[field] = str(int(record[field]) - 1)
        elif field == "event_id":
            record[field] = record[field][:-1] + "f"
        elif field == "commitment":
            record[field] = base64.b64encode(bytes(32)).decode()
        elif field == "cost_usd":
            envelope[field] = 1.5
        elif isinstance(envelope.get(field), str) and envelope[field].isdigit():
            envelope[field] = str(int(envelope[field]) + 1)
        elif field in FIELDS[:8]:
            envelope[field] = "0"  # unknown is not 0
        else:
            envelope[field] = envelope.get(field, "") + "x"

    found = check(tampered(copied, {"records.jsonl": edit_line(3, change)}), "--key", world.key())
    assert found.code == 1
    assert found.counts["altered"] >= 1
    assert found.counts["verified"] == DENIALS - 1
    wrong = next(record for record in found.said["records"] if record["state"] == "altered")
    assert wrong["event_id"] == lines(copied)[3]["event_id"] or field == "event_id"


def test_unknown_field_that_becomes_an_empty_text_is_found(copied, world, check):
    edits = {"records.jsonl": edit_line(0, lambda record: record["envelope"].update(error_type=""))}
    assert check(tampered(copied, edits), "--key", world.key()).counts == {"verified": DENIALS - 1, "altered": 1}


def test_record_left_out_of_the_bundle_is_missed(copied, world, check):
    edits = {"records.jsonl": lambda data: data.partition(b"\n")[2]}
    found = check(tampered(copied, edits), "--key", world.key())
    assert found.code == 1
    assert f"the bundle says the population is {DENIALS}, but it has {DENIALS - 1}" in found.said["fails"]


def test_true_record_that_does_not_answer_the_question_is_found(copied, world, check, tmp_path):
    other = lines(world.bundle(tmp_path / "events.zip", "events"))[1]
    edits = {"records.jsonl": lambda data: data + json.dumps(other).encode() + b"\n"}
    found = check(tampered(copied, edits), "--key", world.key())
    assert found.why("altered") == {"it is true, but does not answer the question"}


def test_record_that_stands_there_twice_is_found(copied, world, check):
    edits = {"records.jsonl": lambda data: data + data.splitlines(keepends=True)[0]}
    assert check(tampered(copied, edits), "--key", world.key()).why("altered") == {"it stands in the bundle twice"}


def test_content_that_was_changed_is_found(copied, world, check):
    edits = {"content.jsonl": edit_line(2, lambda line: line.update(content=line["content"] + " "))}
    found = check(tampered(copied, edits), "--key", world.key())
    assert found.why("altered") == {"what was said is not what the log recorded"}
    assert found.counts["altered"] == 1


def test_content_that_is_missing_is_found_and_content_said_to_be_erased_is_counted(copied, world, check):
    found = check(tampered(copied, {"content.jsonl": lambda data: data.partition(b"\n")[2]}), "--key", world.key())
    assert "what 1 records said is missing from the bundle" in found.said["fails"]
    edits = {"content.jsonl": edit_line(0, lambda line: line.update(state="erased", salt=None, content=None))}
    found = check(tampered(copied, edits), "--key", world.key())
    assert found.code == 0
    assert f"what was said: {DENIALS - 1} of {DENIALS - 1} as recorded, 1 erased" in found.said["holds"]


@pytest.mark.parametrize("name", ["leaves.bin", "nodes.txt"])
def test_damaged_proof_proves_nothing(world, check, name, tmp_path):
    path = world.bundle(tmp_path / "run.zip", "run", given={"run_id": "run-3"})

    def flip(data: bytes) -> bytes:
        if name == "leaves.bin":
            return data[:40] + bytes([data[40] ^ 1]) + data[41:]
        node = data.split()[2]
        other = bytes([base64.b64decode(node)[0] ^ 1]) + base64.b64decode(node)[1:]
        return data.replace(node, base64.b64encode(other))

    assert check(path, "--key", world.key()).code == 0
    found = check(tampered(path, {name: flip}), "--key", world.key())
    assert found.code == 1
    assert any("damaged or made up" in line for line in found.said["fails"])
    assert found.counts["unproven"] > 0


def test_log_made_up_whole_with_another_key_is_found(copied, world, check):
    forger = Ed25519PrivateKey.generate()

    def forge(data: bytes) -> bytes:
        origin, size, root = data.decode().splitlines()[:3]
        head = TreeHead(origin, int(size), base64.b64decode(root))
        return sign_tree_head(head, "log.example", forger, NOW // 10**9).encode()

    names = manifest(copied)["heads"]
    found = check(tampered(copied, dict.fromkeys(names, forge)), "--key", world.key())
    assert found.code == 1
    assert found.counts == {}


def test_signed_time_cannot_be_moved(copied, world, check):
    def move(data: bytes) -> bytes:
        *rest, last = data.decode().splitlines()
        name, encoded = last.rsplit(" ", 1)
        blob = bytearray(base64.b64decode(encoded))
        blob[11] ^= 1
        return "\n".join([*rest, f"{name} {base64.b64encode(blob).decode()}\n"]).encode()

    names = manifest(copied)["heads"]
    found = check(tampered(copied, dict.fromkeys(names, move)), "--key", world.key())
    assert "the time in a tree head was altered" in found.said["fails"]


def test_tree_head_that_the_auditor_brings_is_one_of_the_same_log(denials, world, check, tmp_path):
    for head in world.heads[:3]:
        (tmp_path / "mine.txt").write_text(head.note, encoding="utf-8")
        found = check(denials, "--key", world.key(), "--tree-head", str(tmp_path / "mine.txt"))
        assert found.code == 0, found.said
        assert any("you brought" in line for line in found.said["holds"])


def test_tree_head_of_a_log_that_was_rewritten_since_is_found(denials, world, check, tmp_path):
    early = world.heads[0]
    forged = world.signer.sign_head("default", early.size, bytes(32), early.signed_at)
    (tmp_path / "mine.txt").write_text(forged, encoding="utf-8")
    found = check(denials, "--key", world.key(), "--tree-head", str(tmp_path / "mine.txt"))
    assert found.code == 1
    assert any("the log was rewritten since the tree head you brought" in line for line in found.said["fails"])
    same = world.signer.sign_head("default", world.heads[2].size, bytes(32), NOW)
    (tmp_path / "mine.txt").write_text(same, encoding="utf-8")
    found = check(denials, "--key", world.key(), "--tree-head", str(tmp_path / "mine.txt"))
    assert any("two roots for one size" in line for line in found.said["fails"])


def test_tree_head_beyond_the_reach_of_a_bundle_is_said_to_be_so_and_a_bundle_made_for_it_reaches_it(
    world, check, tmp_path
):
    given = {"run_id": "run-3"}
    late = {"since": iso_utc(START + 650_000_000)}
    (tmp_path / "mine.txt").write_text(world.heads[1].note, encoding="utf-8")
    brought = ["--key", world.key(), "--tree-head", str(tmp_path / "mine.txt")]
    odd = world.bundle(tmp_path / "odd.zip", "run", given={**given, **late})
    plain = check(tampered(odd, {"evidence.json": edit_json(lambda item: item.update(consistency=[]))}), *brought)
    assert any("--tree-head" in line for line in plain.said["fails"])
    reaching = world.bundle(tmp_path / "r.zip", "run", given=given | late, sizes=(world.heads[1].size,))
    assert check(reaching, *brought).code == 0


def test_made_up_nodes_cannot_give_a_forged_tree_head_its_root(world, check, tmp_path):
    forged = base64.b64encode(bytes(range(32))).decode()
    note = world.signer.sign_head("default", 256, base64.b64decode(forged), NOW)
    (tmp_path / "mine.txt").write_text(note, encoding="utf-8")
    path = world.bundle(tmp_path / "late.zip", "run", given={"run_id": "run-3", "since": iso_utc(START + 600_000_000)})
    edits = {
        "evidence.json": edit_json(lambda item: item.update(consistency=[])),
        "nodes.txt": lambda data: data + f"8 0 {forged}\n".encode(),
    }
    found = check(tampered(path, edits), "--key", world.key(), "--tree-head", str(tmp_path / "mine.txt"))
    assert found.code == 1
    assert not any("you brought" in line for line in found.said["holds"])


def test_sample_is_the_one_that_its_seed_draws_and_no_other(world, check, tmp_path):
    path = world.bundle(tmp_path / "sample.zip", sample=("2026-Q3", 5))
    found = check(path, "--key", world.key())
    assert (found.code, found.counts, found.said["population"]) == (0, {"verified": 5}, DENIALS)
    assert "the sample of 5 is the one that the seed '2026-Q3' draws" in found.said["holds"]
    other = tampered(path, {"evidence.json": edit_json(lambda item: item["sample"].update(seed="another"))})
    found = check(other, "--key", world.key())
    assert found.code == 1
    assert found.counts["missing"] >= 1
    fewer = tampered(path, {"population.jsonl": lambda data: data.partition(b"\n")[2]})
    assert check(fewer, "--key", world.key()).code == 1
    made_up = tampered(path, {"population.jsonl": edit_line(7, lambda line: line.update(event_id="0" * 32))})
    assert "1 of the population are no leaves of the log" in check(made_up, "--key", world.key()).said["fails"]


def test_sample_does_not_depend_on_the_order_of_the_population():
    ids = [number.to_bytes(16, "big") for number in range(50)]
    drawn = {ids[place] for place in draw("a seed", 7, ids)}
    assert drawn == {ids[::-1][place] for place in draw("a seed", 7, ids[::-1])}
    assert drawn != {ids[place] for place in draw("another", 7, ids)}
    assert draw("a seed", 100, ids) == list(range(50))


def test_complete_bundle_accounts_for_every_leaf_of_its_range(world, check, tmp_path):
    path = world.bundle(tmp_path / "whole.zip", complete=True, given={"since": iso_utc(START)})
    found = check(path, "--key", world.key())
    assert found.code == 0, found.said
    assert (
        "every leaf of the range is accounted for: nothing that answers the question is left out"
        in (found.said["holds"])
    )

    def move(name: str) -> bytes:
        with zipfile.ZipFile(path) as bundle:
            return bundle.read(name)

    # A denial that the answer leaves out must be among the others, or its leaf is accounted for by nothing.
    first = move("records.jsonl").splitlines(keepends=True)[0]
    hidden = {"records.jsonl": lambda data: data.partition(b"\n")[2], "content.jsonl": lambda data: data}
    fewer = edit_json(lambda item: item["population"].update(count=DENIALS - 1))
    gone = tampered(path, {"records.jsonl": hidden["records.jsonl"], "evidence.json": fewer})
    assert any("not accounted for" in line for line in check(gone, "--key", world.key()).said["fails"])
    among = tampered(
        path,
        {
            "records.jsonl": hidden["records.jsonl"],
            "evidence.json": fewer,
            "others.jsonl": lambda data: data + first,
        },
    )
    assert check(among, "--key", world.key()).why("missing") == {
        "it answers the question, and the answer leaves it out"
    }


def test_each_question_is_answered(world, check, tmp_path):
    for question, given, count in [
        ("events", {}, 700),
        ("events", {"since": iso_utc(START + 600_000_000)}, 100),
        ("events", {"until": iso_utc(START + 100_000_000)}, 100),
        ("run", {"run_id": "run-3"}, 100),
        ("subject", {"user_ref": f"u_{2:016x}"}, 140),
        ("denials", {"rule": "no-deletes", "agent": "nobody"}, 0),
        ("denials", {"decision": "denied", "since": iso_utc(START + 350_000_000)}, 17),
    ]:
        found = check(world.bundle(tmp_path / "q.zip", question, given=given), "--key", world.key())
        assert (found.code, found.said["population"], found.said["fails"]) == (0, count, []), (question, given)


def test_bundle_of_another_tenant_has_nothing_of_this_one(world, check, tmp_path):
    path = world.bundle(tmp_path / "other.zip", "events", "another")
    assert check(path, "--key", world.key("another")).counts == {"verified": 14}
    assert check(path, "--key", world.key()).code == 1
    with zipfile.ZipFile(path) as bundle:
        assert b"word 21" not in b"".join(bundle.read(name) for name in bundle.namelist())


def test_what_was_said_is_in_a_bundle_only_when_it_was_asked_for(world, denials, tmp_path):
    path = world.bundle(tmp_path / "plain.zip")
    with zipfile.ZipFile(path) as bundle, zipfile.ZipFile(denials) as with_content:
        assert "content.jsonl" not in bundle.namelist()
        assert not any(b"word 20" in bundle.read(name) for name in bundle.namelist())
        assert b"word 20" in with_content.read("content.jsonl")


def test_what_was_erased_is_told_as_erased_and_its_record_still_verifies(own_world, check, tmp_path):
    erase(own_world, "erasure-1", "run-0", delete=False)
    path = own_world.bundle(tmp_path / "e.zip", with_content=True)
    found = check(path, "--key", own_world.key())
    assert (found.code, found.counts) == (0, {"verified": DENIALS})
    assert f"what was said: {DENIALS - 5} of {DENIALS - 5} as recorded, 5 erased" in found.said["holds"]
    assert [line["erasure_id"] for line in lines(path, "content.jsonl") if line["state"] == "erased"] == [
        "erasure-1"
    ] * 5


def test_deleted_records_are_told_as_erased_with_their_leaves_and_a_complete_bundle_accounts_for_them(
    own_world, check, tmp_path
):
    erase(own_world, "erasure-1", "run-0", delete=True)
    found = check(own_world.bundle(tmp_path / "e.zip", complete=True), "--key", own_world.key())
    assert (found.code, found.counts) == (0, {"verified": DENIALS - 5, "erased": 100}), found.said["fails"]
    assert found.why("erased") == {"erased under erasure-1; its leaf stays in the log"}


def test_content_that_is_gone_without_an_erasure_is_an_alarm(own_world, check, tmp_path):
    own_world.database.connection.execute("UPDATE contents SET body = NULL WHERE run_id = 'run-0'")
    own_world.database.connection.execute("DELETE FROM contents WHERE run_id = 'run-1'")
    own_world.database.connection.execute("UPDATE contents SET body = repeat('x', 90)::BLOB WHERE run_id = 'run-2'")
    found = check(own_world.bundle(tmp_path / "g.zip", with_content=True), "--key", own_world.key())
    assert (found.code, found.counts) == (1, {"verified": DENIALS, "missing": 15})
    assert found.why("missing") == {"what was said cannot be read, and no erasure accounts for it"}


def test_row_altered_in_the_database_is_found_in_its_bundle(own_world, check, tmp_path):
    own_world.database.connection.execute("UPDATE events SET decision = 'allowed', status = 'ok' WHERE seq IS NULL")
    own_world.database.connection.execute(
        "UPDATE events SET status = 'blocked', decision = 'denied' WHERE name = 'chat m1'"
    )
    found = check(own_world.bundle(tmp_path / "f.zip"), "--key", own_world.key())
    assert found.code == 1
    assert found.counts == {"altered": 700 - DENIALS}


def test_what_came_after_the_newest_tree_head_waits_and_what_came_before_the_log_is_said_to_be_unproven(
    own_world, check, tmp_path
):
    own_world.add([an_event(720)])
    path = own_world.bundle(tmp_path / "late.zip")
    assert check(path, "--key", own_world.key()).said["population"] == DENIALS
    own_world.database.connection.execute(
        "UPDATE events SET leaf_index = NULL, commitment = NULL WHERE started_at = ?", [START]
    )
    path = own_world.bundle(tmp_path / "old.zip")
    assert manifest(path)["population"]["not_in_the_log"] == 1
    found = check(path, "--key", own_world.key())
    assert (found.code, found.counts) == (1, {"verified": DENIALS - 1, "unproven": 1})


def test_readable_page_tells_the_records_and_runs_no_script(world, denials):
    with zipfile.ZipFile(denials) as bundle:
        page = bundle.read("index.html").decode()
        readme = bundle.read("README.txt").decode()
    assert page.count("<tr>") == DENIALS + 1
    assert "delete \u00fc" in page
    assert "<script" not in page
    assert "default-src 'none'" in page
    assert "--key" in readme


def test_markup_in_a_name_stays_text_on_the_readable_page(own_world, tmp_path):
    own_world.add([an_event(720, name="<script>alert(1)</script>")])
    own_world.sign()
    with zipfile.ZipFile(own_world.bundle(tmp_path / "m.zip")) as bundle:
        assert b"&lt;script&gt;alert" in bundle.read("index.html")


def test_hostile_zip_file_is_refused_and_nothing_else_happens(denials, copied, check, world, tmp_path):
    (tmp_path / "text.zip").write_text("no zip file", encoding="utf-8")
    (tmp_path / "half.zip").write_bytes(denials.read_bytes()[:-200])
    twice = tmp_path / "twice.zip"
    twice.write_bytes(denials.read_bytes())
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(twice, "a") as bundle:
        bundle.writestr("records.jsonl", b"")
    other = [
        tampered(copied, {"evidence.json": edit}).rename(tmp_path / f"{number}.zip")
        for number, edit in enumerate(
            [
                lambda data: b"[" * 100_000,
                lambda data: b"{}",
                edit_json(lambda item: item.update(version=2)),
                edit_json(lambda item: item.update(leaves={"first": -1})),
                edit_json(lambda item: item.update(question={"conditions": 5})),
                edit_json(lambda item: item.pop("log")),
            ]
        )
    ]
    for path in [tmp_path / "text.zip", tmp_path / "half.zip", twice, tmp_path / "none.zip", *other]:
        found = check(path, "--key", world.key())
        assert found.code == 2, path
        assert found.said["error"].startswith("cannot be checked: "), path


def test_question_that_cannot_be_answered_is_refused_with_what_to_do(world, tmp_path):
    for question, tenant, given, match in [
        ("dreams", "default", {}, "there are: denials, events, run, subject"),
        ("run", "default", {}, "needs run_id"),
        ("denials", "default", {"since": "yesterday"}, "since takes a time"),
        ("denials", "default", {"color": "red"}, "there is no parameter 'color'"),
        ("denials", "nobody", {}, "no signed tree head"),
    ]:
        with pytest.raises(QueryError, match=match):
            world.bundle(tmp_path / "x.zip", question, tenant, given=given)
