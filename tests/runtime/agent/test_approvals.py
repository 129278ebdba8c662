"""A run that waits for people: what they decide, what that is bound to, and that it is used once."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from agent_parts import Act, agent, asked, denials, of, only, race, saved, shown, tamper, told, turn, waits
from tracehold import Interrupt, LLMResponseError, Principal, Scope, SessionError, SqliteCheckpointStore, Tracer
from tracehold.execution.checkpoints import CheckpointStore
from tracehold.testing import tool_call_reply, tool_calls_reply
from tracehold.tools.base import ToolResponse


def test_a_call_that_needs_approval_suspends_the_run_before_it_is_entered(store: CheckpointStore) -> None:
    pay = Act("pay", confirm=True)
    worker = agent(turn(("pay", 10)), "paid", tools=[pay], checkpoint_store=store)
    scope = Scope(user="u", session="s")

    result = worker.run("pay 10", scope=scope)

    assert isinstance(result, Interrupt)
    assert [(p.tool_name, p.arguments, p.call_id) for p in result.pendings] == [("pay", {"n": 10}, "c10")]
    assert result.scope == scope
    assert pay.entered == []


def test_an_approved_call_runs_and_the_run_goes_on_to_its_answer(store: CheckpointStore) -> None:
    pay = Act("pay", confirm=True)
    worker = agent(turn(("pay", 10)), "paid", tools=[pay], checkpoint_store=store)
    worker.run("pay 10")

    assert worker.resume(True) == "paid"

    assert pay.entered == [10]
    assert told(worker) == {"c10": "pay 10"}
    assert store.load() is None


def test_another_process_may_resume(db: Path) -> None:  # HITL-05
    scope = Scope(session="s")
    first = agent(turn(("pay", 1)), tools=[Act("pay", confirm=True)], checkpoint_store=SqliteCheckpointStore(db))
    first.run("pay", scope=scope)
    pay = Act("pay", confirm=True)
    second = agent("paid", tools=[pay], checkpoint_store=SqliteCheckpointStore(db))

    assert second.resume(True, scope=scope) == "paid"
    assert pay.entered == [1]


def test_one_boolean_decides_about_every_pending_action(store: CheckpointStore) -> None:  # HITL-07
    pay = Act("pay", confirm=True)
    worker = agent(turn(("pay", 1), ("pay", 2), ("pay", 3)), "done", tools=[pay], checkpoint_store=store)
    assert waits(worker.run("pay all")) == ["c1", "c2", "c3"]

    assert worker.resume(True) == "done"
    assert pay.entered == [1, 2, 3]


def test_one_no_refuses_every_pending_action(store: CheckpointStore) -> None:  # HITL-07
    pay = Act("pay", confirm=True)
    worker = agent(turn(("pay", 1), ("pay", 2)), "done", tools=[pay], checkpoint_store=store)
    worker.run("pay all")

    assert worker.resume(False) == "done"
    assert pay.entered == []


def test_decisions_are_keyed_by_call_id(store: CheckpointStore) -> None:  # HITL-07
    pay = Act("pay", confirm=True)
    worker = agent(turn(("pay", 1), ("pay", 2)), "done", tools=[pay], checkpoint_store=store)
    worker.run("pay all")

    assert worker.resume({"c1": False, "c2": True}) == "done"

    assert pay.entered == [2]
    assert told(worker) == {"c1": "pay was not run: a person rejected this call", "c2": "pay 2"}


def test_undecided_actions_go_on_waiting_and_decided_ones_run_at_once(store: CheckpointStore) -> None:  # HITL-07
    pay = Act("pay", confirm=True)
    worker = agent(turn(("pay", 1), ("pay", 2), ("pay", 3)), "done", tools=[pay], checkpoint_store=store)
    worker.run("pay all")

    assert waits(worker.resume({"c2": True})) == ["c1", "c3"]
    assert pay.entered == [2]
    assert asked(worker) == 1
    assert waits(worker.pending()) == ["c1", "c3"]  # type: ignore[arg-type]  # it is not None

    assert waits(worker.resume({"c3": False})) == ["c1"]
    assert worker.resume(True) == "done"
    assert pay.entered == [2, 1]
    assert [m["tool_call_id"] for m in shown(worker) if m["role"] == "tool"] == ["c1", "c2", "c3"]


def test_calls_beside_a_pending_one_run_without_waiting_for_it(store: CheckpointStore) -> None:
    pay, look = Act("pay", confirm=True), Act("look")
    worker = agent(turn(("pay", 1), ("look", 2)), "done", tools=[pay, look], checkpoint_store=store)

    assert waits(worker.run("both")) == ["c1"]
    assert look.entered == [2]
    assert worker.resume(True) == "done"
    assert (pay.entered, look.entered) == ([1], [2])


@pytest.mark.parametrize("yes", [1, 0, "yes", "true", None, [True]])
def test_a_decision_in_a_mapping_that_is_no_boolean_is_refused(store: CheckpointStore, yes: Any) -> None:  # HITL-08
    pay = Act("pay", confirm=True)
    worker = agent(turn(("pay", 1)), "done", tools=[pay], checkpoint_store=store)
    worker.run("pay")

    with pytest.raises(TypeError, match="must be True or False"):
        worker.resume({"c1": yes})

    assert pay.entered == []
    assert waits(worker.pending()) == ["c1"]  # type: ignore[arg-type]  # it is not None


@pytest.mark.parametrize("yes", [1, "yes", object()])
def test_a_lone_decision_that_is_no_boolean_is_refused(store: CheckpointStore, yes: Any) -> None:  # HITL-08
    pay = Act("pay", confirm=True)
    worker = agent(turn(("pay", 1)), "done", tools=[pay], checkpoint_store=store)
    worker.run("pay")

    with pytest.raises(TypeError, match="a decision is True, False or a mapping"):
        worker.resume(yes)
    assert pay.entered == []


def test_a_decision_about_an_action_that_does_not_wait_is_refused(store: CheckpointStore) -> None:
    pay = Act("pay", confirm=True)
    worker = agent(turn(("pay", 1)), "done", tools=[pay], checkpoint_store=store)
    worker.run("pay")

    with pytest.raises(ValueError, match="no pending action has the call id 'c9'; pending: 'c1'"):
        worker.resume({"c9": True})
    assert pay.entered == []


def test_resume_without_a_decision_says_that_one_is_missing(store: CheckpointStore) -> None:
    worker = agent(turn(("pay", 1)), "done", tools=[Act("pay", confirm=True)], checkpoint_store=store)
    worker.run("pay")

    with pytest.raises(ValueError, match=r"1 actions wait for a decision: resume\(True\)"):
        worker.resume()


@pytest.mark.parametrize("ids", [("", "x"), ("x", "x"), (" ", "x")])
def test_calls_for_approval_with_empty_or_repeated_ids_are_refused(  # HITL-09, DEC-01
    store: CheckpointStore, tracer: Tracer, ids: tuple[str, str]
) -> None:
    pay = Act("pay", confirm=True)
    reply = turn(("pay", 1), ("pay", 2))
    for call, call_id in zip(reply.tool_calls, ids, strict=True):
        call["id"] = call_id
    worker = agent(reply, tools=[pay], checkpoint_store=store, tracer=tracer)

    with pytest.raises(LLMResponseError, match="empty or repeated call id"):
        worker.run("pay twice")

    assert pay.entered == []
    assert denials(tracer) == [("invalid_args", "pay"), ("invalid_args", "pay")]
    assert only(tracer, "run_end")["status"] == "error"
    assert store.load() is None


def test_an_id_shared_by_a_plain_call_and_one_for_approval_is_refused(store: CheckpointStore) -> None:  # HITL-09
    pay, look = Act("pay", confirm=True), Act("look")
    worker = agent(turn(("look", 1, "x"), ("pay", 2, "x")), tools=[pay, look], checkpoint_store=store)

    with pytest.raises(LLMResponseError, match="repeated call id"):
        worker.run("both")
    assert (pay.entered, look.entered) == ([], [])


def test_plain_calls_may_share_an_id(store: CheckpointStore) -> None:
    look = Act("look")
    worker = agent(turn(("look", 1, "x"), ("look", 2, "x")), "seen", tools=[look], checkpoint_store=store)

    assert worker.run("look twice") == "seen"
    assert look.entered == [1, 2]
    assert [m["content"] for m in shown(worker) if m["role"] == "tool"] == ["look 1", "look 2"]


def test_without_a_checkpoint_store_a_call_for_approval_goes_to_the_confirm_callback(tracer: Tracer) -> None:
    pay = Act("pay", confirm=True)
    worker = agent(turn(("pay", 1)), "done", tools=[pay], confirm=lambda *_: True, tracer=tracer)
    assert worker.run("pay") == "done"
    assert pay.entered == [1]
    with pytest.raises(SessionError, match="worker has no checkpoint_store"):
        worker.resume(True)
    with pytest.raises(SessionError, match="worker has no checkpoint_store"):
        worker.pending()


def test_with_a_checkpoint_store_the_confirm_callback_is_not_asked(store: CheckpointStore) -> None:
    def confirm(*_: Any) -> bool:
        raise AssertionError("asked")

    worker = agent(turn(("pay", 1)), tools=[Act("pay", confirm=True)], checkpoint_store=store, confirm=confirm)
    assert waits(worker.run("pay")) == ["c1"]


def test_a_run_that_asks_again_after_a_resume_is_suspended_again(store: CheckpointStore) -> None:
    pay = Act("pay", confirm=True)
    # The id is used again: some models count their calls from 0 in each reply.
    worker = agent(turn(("pay", 1, "call_0")), turn(("pay", 1, "call_0")), "done", tools=[pay], checkpoint_store=store)
    worker.run("pay")

    assert waits(worker.resume({"call_0": True})) == ["call_0"]
    assert pay.entered == [1]
    assert worker.resume(False) == "done"
    assert pay.entered == [1]


# What an approval is bound to (DEC-02)


def test_a_pending_action_carries_its_digest_and_when_it_was_asked_for(store: CheckpointStore) -> None:  # DEC-02
    worker = agent(turn(("pay", 1)), tools=[Act("pay", confirm=True)], checkpoint_store=store)
    result = worker.run("pay")
    assert isinstance(result, Interrupt)
    assert result.pending is not None
    # SHA-256 over the canonical JSON of RFC 8785.
    want = hashlib.sha256(rfc8785.dumps({"tool": "pay", "arguments": {"n": 1}})).hexdigest()
    assert result.pending.digest == f"sha256:{want}"
    assert result.pending.requested_at_ns is not None
    assert result.pending.expires_at_ns is None


def _change_call(state: dict[str, Any]) -> None:
    state["meta"]["calls"][0]["arguments"]["n"] = 10_000


def _change_pending(state: dict[str, Any]) -> None:
    state["pending"][0]["arguments"]["n"] = 10_000


def _change_tool(state: dict[str, Any]) -> None:
    state["meta"]["calls"][0]["name"] = "wire"


def _change_digest(state: dict[str, Any]) -> None:
    state["pending"][0]["digest"] = "sha256:" + "0" * 64


def _drop_digest(state: dict[str, Any]) -> None:
    state["pending"][0]["digest"] = None


@pytest.mark.parametrize("change", [_change_call, _change_pending, _change_tool, _change_digest, _drop_digest])
def test_an_approval_of_something_else_than_was_asked_suspends_again_and_is_traced(  # DEC-02
    store: CheckpointStore, tracer: Tracer, change: Any
) -> None:
    pay, wire = Act("pay", confirm=True), Act("wire", confirm=True)
    worker = agent(turn(("pay", 10)), "done", tools=[pay, wire], checkpoint_store=store, tracer=tracer)
    worker.run("pay 10")
    asked_for = only(tracer, "approval_request")["digest"]
    tamper(store, change)
    approved = saved(store)["pending"][0]["digest"]
    tracer.clear()

    again = worker.resume(True, approver="ann")

    assert waits(again) == ["c10"]
    assert (pay.entered, wire.entered) == ([], [])
    event = only(tracer, "approval_request")
    assert (event["decision"], event["call_id"]) == ("suspended", "c10")
    assert event["approved_digest"] == (approved or "")
    assert "other arguments" in event["reason"]
    assert of(tracer, "approval_decision") == []
    assert only(tracer, "run_suspend")["status"] == "suspended"
    # What is shown now is what the call really is, and can be approved.
    state = saved(store)
    assert again.pending.arguments == state["meta"]["calls"][0]["arguments"]  # type: ignore[union-attr]  # an Interrupt
    assert (again.pending.digest == asked_for) == (change in (_change_pending, _change_digest, _drop_digest))  # type: ignore[union-attr]
    assert worker.resume(True) == "done"
    assert pay.entered + wire.entered == [state["meta"]["calls"][0]["arguments"]["n"]]


def test_a_changed_call_may_still_be_rejected(store: CheckpointStore) -> None:  # DEC-02
    pay = Act("pay", confirm=True)
    worker = agent(turn(("pay", 10)), "done", tools=[pay], checkpoint_store=store)
    worker.run("pay 10")
    tamper(store, _change_call)

    assert worker.resume(False) == "done"
    assert pay.entered == []


def test_an_approval_holds_only_for_what_its_approver_saw(store: CheckpointStore, tracer: Tracer) -> None:  # DEC-02
    pay = Act("pay", confirm=True)
    worker = agent(turn(("pay", 1), ("pay", 2)), "done", tools=[pay], checkpoint_store=store, tracer=tracer)
    worker.run("pay")
    digests = {p.call_id: p.digest for p in worker.pending().pendings}  # type: ignore[union-attr]  # two wait
    tracer.clear()

    again = worker.resume(True, seen={"c1": "sha256:other", "c2": digests["c2"]})

    assert waits(again) == ["c1"]
    assert pay.entered == [2]
    assert only(tracer, "approval_request")["approved_digest"] == "sha256:other"
    assert worker.resume(True, seen=digests) == "done"
    assert pay.entered == [2, 1]


def test_an_approval_given_before_a_crash_is_void_when_the_call_was_changed_after_it(  # DEC-02
    store: SqliteCheckpointStore, tracer: Tracer
) -> None:
    pay = Act("pay", confirm=True)
    worker = agent(turn(("pay", 10), ("pay", 2)), "done", tools=[pay], checkpoint_store=store, tracer=tracer)
    worker.run("pay 10")

    class Gone(BaseException):
        pass

    class DiesAfterTheClaim(SqliteCheckpointStore):
        def replace(self, *args: Any, **options: Any) -> bool:
            super().replace(*args, **options)
            raise Gone

    with pytest.raises(Gone):
        agent("done", tools=[pay], checkpoint_store=DiesAfterTheClaim(store.db_path)).resume({"c10": True})
    tamper(store, _change_call)
    tracer.clear()

    assert waits(worker.resume()) == ["c2", "c10"]
    assert pay.entered == []
    assert only(tracer, "approval_request")["approved_digest"].startswith("sha256:")
    assert worker.resume(False) == "done"
    assert pay.entered == []


def test_an_approval_claimed_before_a_crash_is_carried_out_by_the_next_process(  # DEC-02, FR-57
    store: SqliteCheckpointStore,
) -> None:
    pay = Act("pay", confirm=True)
    worker = agent(turn(("pay", 1), ("pay", 2)), "done", tools=[pay], checkpoint_store=store)
    worker.run("pay")

    class Gone(BaseException):
        pass

    class DiesAfterTheClaim(SqliteCheckpointStore):
        def replace(self, *args: Any, **options: Any) -> bool:
            super().replace(*args, **options)
            raise Gone

    with pytest.raises(Gone):
        agent(tools=[pay], checkpoint_store=DiesAfterTheClaim(store.db_path)).resume({"c1": True})
    assert pay.entered == []

    # Nobody has to decide again about the first to see it run.
    assert waits(worker.resume()) == ["c2"]
    assert pay.entered == [1]


@pytest.mark.parametrize("decision", [True, {"c1": True}])
def test_of_two_that_resume_at_once_one_runs_the_tool(db: Path, decision: Any) -> None:  # DEC-02
    entered: list[int] = []

    def process(*replies: Any) -> Any:
        pay = Act("pay", confirm=True, entered=entered)
        return agent(*replies, tools=[pay], checkpoint_store=SqliteCheckpointStore(db))

    process(turn(("pay", 1))).run("pay")
    results = asyncio.run(race(*(process("done").aresume(decision) for _ in range(4))))

    assert entered == [1]
    assert results.count("done") == 1
    for other in results:
        assert other == "done" or isinstance(other, SessionError), other


def test_of_two_that_go_on_after_a_crash_at_once_one_asks_the_model(db: Path) -> None:  # DEC-02
    at_once = threading.Barrier(4)

    class ReadTogether(SqliteCheckpointStore):
        def load(self, *, scope: Scope | None = None) -> str | None:
            saved = super().load(scope=scope)
            at_once.wait(timeout=20)
            return saved

    def process(*replies: Any, store: type[SqliteCheckpointStore] = SqliteCheckpointStore) -> Any:
        return agent(*replies, tools=[Act("look")], checkpoint_store=store(db))

    class Gone(BaseException):
        pass

    with pytest.raises(Gone):
        process(turn(("look", 1)), Gone()).run("look")
    workers = [process("done", store=ReadTogether) for _ in range(4)]
    results = asyncio.run(race(*(worker.aresume() for worker in workers)))

    assert results.count("done") == 1
    assert sum(asked(worker) for worker in workers) == 1


def test_an_approval_is_used_once(store: CheckpointStore) -> None:  # DEC-02
    pay = Act("pay", confirm=True)
    worker = agent(turn(("pay", 1)), "done", tools=[pay], checkpoint_store=store)
    worker.run("pay")
    worker.resume(True)

    with pytest.raises(SessionError, match="nothing to resume in this scope"):
        worker.resume(True)
    assert pay.entered == [1]


def test_there_is_no_expiry_unless_one_is_set(store: CheckpointStore) -> None:  # DEC-02
    pay = Act("pay", confirm=True)
    worker = agent(turn(("pay", 1)), "done", tools=[pay], checkpoint_store=store)
    worker.run("pay")
    tamper(store, lambda state: state["pending"][0].update(requested_at_ns=0))  # long ago
    assert worker.resume(True) == "done"
    assert pay.entered == [1]


@pytest.mark.parametrize("decision", [True, False])
def test_from_its_expiry_on_an_approval_is_refused(  # DEC-02
    store: CheckpointStore, tracer: Tracer, *, decision: bool
) -> None:
    pay = Act("pay", confirm=True)
    options = {"tools": [pay], "checkpoint_store": store, "tracer": tracer, "approval_ttl_s": 1e-9}
    worker = agent(turn(("pay", 1)), "done", **options)
    worker.run("pay")
    tracer.clear()

    assert worker.resume(decision, approver="ann") == "done"

    assert pay.entered == []
    assert told(worker) == {"c1": "pay was not run: the approval came after it had expired"}
    event = only(tracer, "tool_call")
    assert (event["decision"], event["decided_by"]) == ("expired", "ann")
    assert only(tracer, "approval_decision")["decision"] == "expired"


def test_who_decided_when_and_on_which_digest_is_recorded(store: CheckpointStore, tracer: Tracer) -> None:  # DEC-02
    worker = agent(
        turn(("pay", 1), ("pay", 2)), "done",
        tools=[Act("pay", confirm=True)], checkpoint_store=store, tracer=tracer,
    )  # fmt: skip
    interrupt = worker.run("pay")
    digests = {p.call_id: p.digest for p in interrupt.pendings}  # type: ignore[union-attr]  # two wait
    worker.resume({"c1": True, "c2": False}, approver=Principal("ann@example.com", via="oidc"), reason="one is enough")

    requested = {event["call_id"]: event for event in of(tracer, "approval_request")}
    for event in of(tracer, "approval_decision"):
        assert event["digest"] == digests[event["call_id"]] == requested[event["call_id"]]["digest"]
        assert event["decided_at_ns"] > requested[event["call_id"]]["started_at_ns"]
        assert event["run_id"] == requested[event["call_id"]]["run_id"]
    by_call = {event["call_id"]: event for event in of(tracer, "approval_decision")}
    assert {call_id: event["decision"] for call_id, event in by_call.items()} == {"c1": "allowed", "c2": "rejected"}
    ran = {event["call_id"]: event for event in of(tracer, "tool_call")}
    assert (ran["c1"]["decision"], ran["c1"]["status"]) == ("allowed", "success")
    assert (ran["c2"]["decision"], ran["c2"]["reason"]) == ("rejected", "one is enough")
    assert ran["c1"]["decided_by"] == ran["c2"]["decided_by"] == by_call["c1"]["decided_by"]


def test_the_reason_of_a_no_is_told_to_the_model(store: CheckpointStore) -> None:  # DEC-02
    worker = agent(turn(("pay", 1)), "done", tools=[Act("pay", confirm=True)], checkpoint_store=store)
    worker.run("pay")
    worker.resume(False, approver="ann", reason="too dear, ask for half")
    assert told(worker) == {"c1": "pay was not run: too dear, ask for half"}


@pytest.mark.parametrize("approver", ["", "  ", "a\nb", "x" * 257])
def test_an_approver_without_a_usable_name_is_refused_and_nothing_changes(  # DEC-02
    store: CheckpointStore, approver: str
) -> None:
    pay = Act("pay", confirm=True)
    worker = agent(turn(("pay", 1)), "done", tools=[pay], checkpoint_store=store)
    worker.run("pay")
    before = store.load()

    with pytest.raises(ValueError, match="principal's id"):
        worker.resume(True, approver=approver)

    assert pay.entered == []
    assert store.load() == before


def test_arguments_that_have_no_canonical_form_cannot_be_approved(  # DEC-02, DEC-01
    store: CheckpointStore, tracer: Tracer
) -> None:
    pay = Act("pay", confirm=True)
    pay.get_input_schema = lambda: {"type": "object"}  # type: ignore[method-assign]  # takes anything
    reply = tool_call_reply("pay", '{"to": "\\ud800"}', call_id="c")
    worker = agent(reply, "sorry", tools=[pay], checkpoint_store=store, tracer=tracer)

    assert worker.run("pay") == "sorry"
    assert pay.entered == []
    assert denials(tracer) == [("invalid_args", "pay")]


# What a restart leaves: FR-57, FR-59.


def test_what_waits_is_still_pending_after_a_restart_and_answerable_once(db: Path) -> None:  # FR-57
    first = agent(turn(("pay", 1)), tools=[Act("pay", confirm=True)], checkpoint_store=SqliteCheckpointStore(db))
    asked_then = first.run("pay")

    pay = Act("pay", confirm=True)
    second = agent("done", tools=[pay], checkpoint_store=SqliteCheckpointStore(db))
    assert second.pending() == asked_then  # counter and list agree
    assert pay.entered == []  # never approved by itself
    assert second.resume(True) == "done"
    assert second.pending() is None
    with pytest.raises(SessionError, match="nothing to resume"):
        second.resume(True)
    assert pay.entered == [1]


def test_nothing_is_pending_where_nothing_was_asked(store: CheckpointStore) -> None:
    worker = agent("hello", checkpoint_store=store)
    assert worker.pending() is None
    worker.run("hi")
    assert worker.pending() is None
    assert worker.pending(scope=Scope(user="somebody else")) is None


def test_a_new_run_does_not_start_over_one_that_waits(store: CheckpointStore) -> None:
    worker = agent(turn(("pay", 1)), "done", tools=[Act("pay", confirm=True)], checkpoint_store=store)
    worker.run("pay")
    with pytest.raises(SessionError, match="waits for a decision: resume it, or clear its checkpoint, first"):
        worker.run("something else")
    assert asked(worker) == 1
    assert worker.resume(True) == "done"


def test_an_approval_for_a_renamed_agent_stops_with_both_names_and_runs_nothing(
    store: CheckpointStore,
) -> None:  # FR-59
    pay = Act("pay", confirm=True)
    agent(turn(("pay", 1)), name="old-name", tools=[pay], checkpoint_store=store).run("pay")
    renamed = agent("done", name="new-name", tools=[pay], checkpoint_store=store)

    for attempt in (lambda: renamed.resume(True), renamed.pending, lambda: renamed.run("again")):
        with pytest.raises(SessionError, match="begun by agent 'old-name', not by 'new-name'"):
            attempt()
    assert pay.entered == []
    assert agent("done", name="old-name", tools=[pay], checkpoint_store=store).resume(True) == "done"
    assert pay.entered == [1]


def test_request_decision_and_execution_stand_in_one_run(db: Path, tracer: Tracer) -> None:  # FR-59, EXEC-06
    pay = Act("pay", confirm=True)
    agent(turn(("pay", 1)), tools=[pay], checkpoint_store=SqliteCheckpointStore(db), tracer=tracer).run(
        "pay", run_id="run-7"
    )
    carrier = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}  # a context given on resume changes nothing
    agent("done", tools=[pay], checkpoint_store=SqliteCheckpointStore(db), tracer=tracer).resume(
        True, trace_carrier=carrier
    )

    assert pay.entered == [1]
    assert {event["run_id"] for event in tracer.events} == {"run-7"}
    assert [event["type"] for event in tracer.events if event.get("call_id") == "c1"] == [
        "approval_request",
        "approval_decision",
        "tool_call",
    ]


def test_a_tool_that_is_gone_when_its_call_is_approved_is_reported_and_not_run(  # FR-59
    store: CheckpointStore, tracer: Tracer
) -> None:
    agent(turn(("pay", 1)), tools=[Act("pay", confirm=True)], checkpoint_store=store).run("pay")
    worker = agent("sorry", tools=[Act("other")], checkpoint_store=store, tracer=tracer)
    assert worker.resume(True) == "sorry"
    assert denials(tracer) == [("unknown_tool", "pay")]


@pytest.mark.parametrize(
    "damage",
    [
        lambda state: state["meta"].update(calls=[{"call_id": "c1", "unheard_of": 1}]),
        lambda state: state["meta"].update(calls=7),
        lambda state: state["meta"].update(rulings=[1]),
        lambda state: state["meta"].update(rulings={"c1": {"approved": True}}),
        lambda state: state["meta"].update(agent=None),
    ],
)
def test_a_damaged_checkpoint_is_refused_and_runs_nothing(store: CheckpointStore, damage: Any) -> None:
    pay = Act("pay", confirm=True)
    worker = agent(turn(("pay", 1)), "done", tools=[pay], checkpoint_store=store)
    worker.run("pay")
    tamper(store, damage)
    with pytest.raises(SessionError):
        worker.resume(True)
    assert pay.entered == []


def test_a_decision_hidden_in_the_checkpoint_as_a_text_is_no_yes(store: CheckpointStore) -> None:  # HITL-08
    pay = Act("pay", confirm=True)
    worker = agent(turn(("pay", 1)), "done", tools=[pay], checkpoint_store=store)
    worker.run("pay")
    tamper(store, lambda state: state.update(decisions={"c1": "true"}))
    with pytest.raises(SessionError, match="decisions must be"):
        worker.resume(True)
    tamper(store, lambda state: state.update(decisions={"c1": True}))  # and the documented field decides nothing
    assert waits(worker.resume({})) == ["c1"]
    assert pay.entered == []


def test_a_question_lost_between_asking_and_storing_is_asked_again(db: Path, tracer: Tracer) -> None:  # FR-57
    """The process ends in a plain call that runs after the one for approval was found to wait."""

    class Gone(BaseException):
        pass

    entered: list[int] = []
    pay, look = Act("pay", confirm=True, entered=entered), Act("look", Gone())
    with pytest.raises(Gone):
        agent(turn(("pay", 1), ("look", 2)), tools=[pay, look], checkpoint_store=SqliteCheckpointStore(db)).run("both")
    worker = agent("done", tools=[pay, look], checkpoint_store=SqliteCheckpointStore(db), tracer=tracer)

    assert waits(worker.resume()) == ["c1"]
    assert worker.resume(True) == "done"
    assert entered == [1]
    assert told(worker)["c1"] == "pay 1"
    assert "outcome is unknown" in told(worker)["c2"]


def test_a_result_with_odd_text_survives_the_store(store: CheckpointStore) -> None:
    odd = 'nul \0, half \ud83e, quote ", 中'
    pay, look = Act("pay", confirm=True), Act("look", ToolResponse.ok(odd))
    worker = agent(turn(("look", 1), ("pay", 2)), "done", tools=[pay, look], checkpoint_store=store)
    worker.run(odd)
    assert worker.resume(True) == "done"
    assert told(worker)["c1"] == odd
    assert {"role": "user", "content": odd} in shown(worker)


def test_many_actions_of_one_turn_are_decided_together(store: CheckpointStore) -> None:  # HITL-07
    pay = Act("pay", confirm=True, parallel=True)
    reply = tool_calls_reply(*[("pay", {"n": n}, f"c{n}") for n in range(50)])
    worker = agent(reply, "done", tools=[pay], checkpoint_store=store)
    assert len(waits(worker.run("pay"))) == 50
    assert worker.resume({f"c{n}": n % 2 == 0 for n in range(50)}) == "done"
    assert sorted(pay.entered) == list(range(0, 50, 2))
    assert list(told(worker)) == [f"c{n}" for n in range(50)]


def test_the_stored_state_is_the_documented_json(store: CheckpointStore) -> None:
    worker = agent(turn(("pay", 1)), tools=[Act("pay", confirm=True)], checkpoint_store=store, max_turns=4)
    worker.run("pay")
    state = saved(store)
    assert state["v"] == 1
    assert state["input_text"] == "pay"
    assert state["remaining"] == 3
    assert [message["role"] for message in state["messages"]] == ["user", "assistant"]
    assert json.loads(state["messages"][1]["tool_calls"][0]["function"]["arguments"]) == {"n": 1}
    assert state["completed"] is False


def test_a_yes_with_nothing_to_decide_on_does_not_take_a_run_over(store: CheckpointStore, tracer: Tracer) -> None:
    # DEC-02: the second click on a button, while the first one's run is inside its tool
    refused: list[str] = []

    async def pay(_parameters: Any) -> str:
        with pytest.raises(SessionError, match="nothing waits") as error:
            await worker.aresume(True)
        refused.append(str(error.value))
        return "paid"

    tool = Act("pay", confirm=True, does=pay)
    worker = agent(turn(("pay", 1)), "done", tools=[tool], checkpoint_store=store, tracer=tracer)
    worker.run("pay")
    assert worker.resume(True) == "done"
    assert len(refused) == 1


def test_every_approved_action_must_have_been_seen_when_one_says_what_was_seen(  # DEC-02
    store: CheckpointStore, tracer: Tracer
) -> None:
    pay = Act("pay", confirm=True)
    worker = agent(turn(("pay", 1)), "done", tools=[pay], checkpoint_store=store, tracer=tracer)
    waiting = worker.run("pay")
    assert isinstance(waiting, Interrupt)
    with pytest.raises(ValueError, match="seen must hold"):
        worker.resume(True, seen={"another": "sha256:0"})
    assert pay.entered == []
    assert worker.resume(True, seen=waiting.seen) == "done"


def test_the_record_of_a_mismatch_names_who_approved(store: CheckpointStore, tracer: Tracer) -> None:  # DEC-02
    pay = Act("pay", confirm=True)
    worker = agent(turn(("pay", 1)), "done", tools=[pay], checkpoint_store=store, tracer=tracer)
    worker.run("pay")
    tracer.clear()
    worker.resume(True, seen={"c1": "sha256:other"}, approver="ada")
    assert only(tracer, "approval_request")["decided_by"] == "ada"


def test_a_store_that_cannot_replace_in_one_step_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:  # DEC-02
    class Plain(CheckpointStore):
        def save(self, state_json: str, *, scope: Scope | None = None) -> None:
            raise NotImplementedError

        def load(self, *, scope: Scope | None = None) -> str | None:
            raise NotImplementedError

        def clear(self, *, scope: Scope | None = None) -> None:
            raise NotImplementedError

    agent("never", checkpoint_store=Plain())
    assert "Plain does not override CheckpointStore.replace" in caplog.text
