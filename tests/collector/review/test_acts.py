"""A denial is reviewed by people under their own logins, and the log says who did what. Issue 6, section 7."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any

import httpx
import pytest
from support.keys import bearer, make_key
from support.processes import wait_for
from tracehold_collector.access.keys import KeyFile
from tracehold_collector.access.principal import Principal
from tracehold_collector.core.errors import ConflictError
from tracehold_collector.core.settings import load_settings
from tracehold_collector.review.desk import ReviewDesk
from tracehold_collector.review.states import Wish
from tracehold_collector.serve import CollectorServer


def test_a_denial_nobody_looked_at_is_open_and_has_no_act(stage: Any, denial: str) -> None:
    (row,) = stage.rows("ann", "review_queue", event_id=denial)
    assert (row["state"], row["revision"], row["assignee"], row["verdict"]) == ("open", 0, None, None)
    seen = stage.review("ann", denial)
    assert (seen["review"]["state"], seen["acts"], seen["you"]) == ("open", [], {"login": "ann", "may_review": True})


def test_taking_it_and_finding_it_justified_is_recorded_under_the_reviewers_login(stage: Any, denial: str) -> None:
    assert stage.act("ann", denial, "assign").json()["review"]["assignee"] == "ann"
    done = stage.act("ann", denial, "verdict", verdict="justified", note="mail goes through the desk").json()
    assert (done["review"]["state"], done["review"]["verdict_by"], done["review"]["revision"]) == ("reviewed", "ann", 2)
    acts = stage.review("ben", denial)["acts"]
    assert [(act["act"], act["by"], act["state"]) for act in acts] == [
        ("assigned", "ann", "assigned"),
        ("verdict", "ann", "reviewed"),
    ]
    assert acts[1]["note"] == "mail goes through the desk"
    event = stage.get("ann", f"/api/v1/events/{done['event_id']}").json()
    envelope = event["event"]
    assert (envelope["source"], envelope["kind"], envelope["decided_by"]) == ("collector", "score", "ann")
    assert envelope["run_id"] == f"review:{denial}"
    assert "mail goes" not in str(envelope)  # the note is content
    assert event["content"] == {"note": "mail goes through the desk"}


def test_a_payload_cannot_name_who_acts(stage: Any, denial: str) -> None:
    refused = stage.act("ann", denial, "verdict", verdict="justified", decided_by="ben")
    assert refused.status_code == 400
    assert stage.review("ann", denial)["acts"] == []


def test_an_incident_waits_for_another_login_and_the_same_one_is_refused(stage: Any, denial: str) -> None:
    done = stage.act("ann", denial, "verdict", verdict="incident", note="INC-7").json()
    assert done["review"]["state"] == "awaiting_sign_off"
    refused = stage.act("ann", denial, "sign_off")
    assert refused.status_code == 403
    assert "another login" in refused.json()["error"]
    assert stage.review("ann", denial)["review"]["revision"] == 1
    assert stage.act("ben", denial, "sign_off").json()["review"]["state"] == "closed"


def test_a_login_that_was_made_anew_under_its_old_name_may_not_sign_its_own_incident(
    own_stage: Any, denied: Any, id_of: Any
) -> None:
    own_stage.send(denied())
    own_stage.act("ann", id_of(1), "verdict", verdict="incident", note="INC-7")
    folder = own_stage.server.settings.data_dir
    with closing(KeyFile(folder, "a test")) as file:
        file.revoke("ann")
    own_stage.keys["ann"] = make_key(folder, "read", "audit", name="ann")
    wait_for(lambda: own_stage.get("ann", "/api/v1/queries").is_success, what="the new key")
    assert own_stage.act("ann", id_of(1), "sign_off").status_code == 403


def test_reopening_keeps_what_was_said_and_begins_anew(stage: Any, denial: str) -> None:
    stage.act("ann", denial, "verdict", verdict="false_alarm")
    assert stage.act("ben", denial, "reopen").status_code == 400  # says why
    again = stage.act("ben", denial, "reopen", note="the target was a customer").json()["review"]
    assert (again["state"], again["verdict"], again["assignee"], again["revision"]) == ("open", None, None, 2)
    (row,) = stage.rows("ann", "review_queue", event_id=denial)
    assert (row["state"], row["verdict"], row["verdict_by"], row["last_by"]) == ("open", None, None, "ben")
    assert [act["verdict"] for act in stage.review("ann", denial)["acts"]] == ["false_alarm", None]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ([], ("sign_off", {})),
        ([], ("reopen", {"note": "n"})),
        ([("verdict", {"verdict": "justified"})], ("verdict", {"verdict": "incident", "note": "n"})),
        ([("verdict", {"verdict": "justified"})], ("assign", {})),
        ([("verdict", {"verdict": "justified"})], ("sign_off", {})),
    ],
    ids=["sign-off-of-nothing", "reopen-of-nothing", "second-verdict", "assign-after", "sign-off-of-no-incident"],
)
def test_a_step_that_is_none_from_here_is_refused_and_says_what_can_be_done(
    stage: Any, denial: str, first: Any, then: Any
) -> None:
    for act, more in first:
        assert stage.act("ann", denial, act, **more).is_success
    refused = stage.act("ben", denial, then[0], **then[1])
    assert refused.status_code == 409
    assert "what can be done now" in refused.json()["error"]


def test_of_two_who_saw_the_same_state_one_wins_and_the_other_is_told(stage: Any, denial: str) -> None:
    together = threading.Barrier(8)
    answers: list[httpx.Response] = []

    def decide(key: str, verdict: str) -> None:
        together.wait()
        answers.append(stage.act(key, denial, "verdict", 0, verdict=verdict))

    threads = [
        threading.Thread(target=decide, args=(key, verdict))
        for key in ("ann", "ben")
        for verdict in ("justified", "false_alarm") * 2
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 7
    (winner,) = (answer.json()["review"] for answer in answers if answer.is_success)
    seen = stage.review("ann", denial)
    assert len(seen["acts"]) == 1
    assert (seen["review"]["verdict"], seen["review"]["verdict_by"]) == (winner["verdict"], winner["verdict_by"])


def test_the_store_itself_takes_one_act_of_a_revision_whichever_process_it_comes_from(stage: Any, denial: str) -> None:
    # Each process judges acts under a lock of its own: here as many desks as threads stand for as many processes.
    state = stage.server._app.state
    together = threading.Barrier(6)
    outcomes: list[str] = []

    def decide(name: str) -> None:
        desk = ReviewDesk(state.reader, state.writer, state.pseudonyms)
        who = Principal(name, name, frozenset({"audit"}), ("default",), "default")
        together.wait()
        try:
            desk.act(denial, None, Wish("assign", 0), who)
        except ConflictError:
            outcomes.append("refused")
        else:
            outcomes.append(name)

    threads = [threading.Thread(target=decide, args=(f"person {n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = (outcome for outcome in outcomes if outcome != "refused")
    assert [act["by"] for act in stage.review("ann", denial)["acts"]] == [winner]


def test_a_revision_that_is_not_the_latest_changes_nothing(stage: Any, denial: str) -> None:
    stage.act("ann", denial, "assign")
    refused = stage.act("ben", denial, "verdict", 0, verdict="justified")
    assert refused.status_code == 409
    assert "assigned after 1 acts" in refused.json()["error"]
    assert stage.review("ann", denial)["review"]["state"] == "assigned"


@pytest.mark.parametrize("key", ["reader", "sender"])
def test_acting_needs_the_role_audit(stage: Any, denial: str, key: str) -> None:
    assert stage.act(key, denial, "assign", 0).status_code == 403
    assert stage.review("ann", denial)["acts"] == []


def test_a_denial_of_a_tenant_the_key_does_not_have_is_not_there(stage: Any, denial: str) -> None:
    for answer in (stage.get("stranger", f"/api/v1/reviews/{denial}"), stage.act("stranger", denial, "assign", 0)):
        assert answer.status_code == 404
        assert "no denial" in answer.json()["error"]
    asked = stage.act("stranger", denial, "assign", 0, tenant="default")
    assert asked.status_code == 404
    assert stage.review("ann", denial)["acts"] == []


def test_what_is_no_denial_cannot_be_reviewed(stage: Any, denied: Any, id_of: Any, number: int) -> None:
    stage.send(denied(number, status="ok", decision="allowed"))
    done = stage.act("ann", id_of(number), "assign", 0)
    assert done.status_code == 404
    assert stage.act("ann", "no-id", "assign", 0).status_code == 400


def test_an_id_that_two_tenants_have_must_be_told_apart(stage: Any, denied: Any, id_of: Any, number: int) -> None:
    stage.send(denied(number), denied(number, tenant="other"), key="both")
    assert stage.act("both", id_of(number), "assign", 0).status_code == 400
    assert stage.act("both", id_of(number), "assign", 0, tenant="other").is_success
    assert stage.review("ann", id_of(number))["review"]["state"] == "open"
    assert stage.review("stranger", id_of(number))["review"]["state"] == "assigned"


def test_without_the_role_content_notes_are_written_and_not_read(stage: Any, denial: str) -> None:
    assert stage.act("envelope", denial, "verdict", verdict="justified", note="words").is_success
    seen = stage.review("envelope", denial)
    assert seen["acts"][0]["note"] is None
    assert "role content" in seen["content_withheld"]
    assert stage.review("ann", denial)["acts"][0]["note"] == "words"


def test_a_secret_in_a_note_is_masked(stage: Any, denial: str) -> None:
    key = "sk-" + "ant-api03-" + "A1b2C3d4E5f6G7h8" * 3
    stage.act("ann", denial, "verdict", verdict="justified", note=f"it held {key}")
    note = stage.review("ann", denial)["acts"][0]["note"]
    assert key not in note
    assert "REDACTED" in note


@pytest.mark.parametrize(
    "body",
    [
        {"act": "verdict", "revision": 0},
        {"act": "verdict", "revision": 0, "verdict": "fine"},
        {"act": "verdict", "revision": 0, "verdict": "incident"},
        {"act": "assign", "revision": 0, "verdict": "justified"},
        {"act": "assign", "revision": 0, "assignee": "<b>everyone</b>"},
        {"act": "assign", "revision": 0, "assignee": "x" * 65},
        {"act": "assign", "revision": -1},
        {"act": "assign", "revision": True},
        {"act": "assign"},
        {"act": "close", "revision": 0},
        {"act": "verdict", "revision": 0, "verdict": "justified", "note": "x" * 4_001},
        {"act": "verdict", "revision": 0, "verdict": "justified", "note": ""},
        {"act": "assign", "revision": 0, "note": "nul\0"},
        [],
        "text",
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(stage: Any, denial: str, body: Any) -> None:
    answer = stage.http.post(f"/api/v1/reviews/{denial}/acts", json=body, headers=bearer(stage.keys["ann"]))
    assert answer.status_code == 400, answer.text
    assert stage.review("ann", denial)["acts"] == []


def test_a_page_in_a_browser_cannot_act_for_the_one_user_of_this_machine(serve: Any, denied: Any, id_of: Any) -> None:
    # Decision 7: a type that a page may send without asking first is refused.
    server = serve()
    with httpx.Client(base_url=server.url, trust_env=False) as http:
        http.post("/v1/events", json=denied(), headers={"Content-Type": "application/json"})
        body = b'{"act": "assign", "revision": 0}'
        for kind in ("text/plain", "application/x-www-form-urlencoded"):
            answer = http.post(f"/api/v1/reviews/{id_of(1)}/acts", content=body, headers={"Content-Type": kind})
            assert answer.status_code == 415


def test_without_keys_everyone_is_one_login_so_nobody_can_sign_an_incident_a_second_time(
    serve: Any, denied: Any, id_of: Any
) -> None:
    server = serve()
    with httpx.Client(base_url=server.url, trust_env=False) as http:
        http.post("/v1/events", json=denied())
        path = f"/api/v1/reviews/{id_of(1)}/acts"
        found = http.post(path, json={"act": "verdict", "revision": 0, "verdict": "incident", "note": "n"})
        assert found.json()["review"]["verdict_by"] == "anyone on this machine"
        refused = http.post(path, json={"act": "sign_off", "revision": 1})
        assert refused.status_code == 403
        assert "tracehold keys create" in refused.json()["error"]


def test_an_agent_cannot_review_its_own_denials_by_sending_events(
    stage: Any, denied: Any, id_of: Any, number: int
) -> None:
    stage.send(
        denied(number),
        {
            "type": "tracehold.review.verdict",
            "run_id": f"review:{id_of(number)}",
            "kind": "score",
            "source": "collector",
            "step_index": 1,
            "decided_by": "ann",
            "attributes": {"tracehold.review.state": "closed", "tracehold.review.verdict": "justified"},
            "tracehold.review.state": "closed",
            "started_at_ns": 1_780_000_000_000_000_000,
        },
    )
    (row,) = stage.rows("ann", "review_queue", event_id=id_of(number))
    assert (row["state"], row["revision"]) == ("open", 0)
    assert stage.act("ann", id_of(number), "assign", 0).is_success


def test_acts_are_there_after_a_restart(own_stage: Any, denied: Any, id_of: Any) -> None:
    own_stage.send(denied())
    own_stage.act("ann", id_of(1), "verdict", verdict="incident", note="INC-7")
    before = own_stage.review("ann", id_of(1))
    folder = own_stage.server.settings.data_dir
    own_stage.server.close()
    server = CollectorServer(load_settings(port=0, grpc=False, data_dir=folder))
    server.start()
    try:
        with httpx.Client(base_url=server.url, trust_env=False) as http:
            answer = http.get(f"/api/v1/reviews/{id_of(1)}", headers=bearer(own_stage.keys["ann"])).json()
    finally:
        server.close()
    assert answer == before


def test_the_access_log_has_each_act_as_an_administrative_one_without_the_note(stage: Any, denial: str) -> None:
    stage.act("ann", denial, "verdict", verdict="justified", note="words of ann")
    log = stage.get("ann", "/api/v1/access-log", action="admin")
    assert "/api/v1/reviews/{event_id}/acts" in log.text
    assert denial in log.text
    assert "words of ann" not in stage.get("ann", "/api/v1/access-log").text
