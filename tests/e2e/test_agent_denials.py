"""Every way to stop an agent's call, through the real collector: the auditor's list names each attempt once."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash
from support.asking import Asker, Row
from support.processes import collector
from tracehold import (
    Agent,
    AgentTool,
    CallableGuardrail,
    CollectorExporter,
    GuardrailTripwireError,
    Interrupt,
    Principal,
    RunCancelled,
    RunLimitExceeded,
    RunPolicy,
    Scope,
    SqliteCheckpointStore,
    ToolPermissions,
    Tracer,
    load_policy,
    new_run_id,
    tool,
)
from tracehold.testing import ScriptedLLM, tool_call_reply, tool_calls_reply
from tracehold_dashboard import launch, links

pytestmark = [pytest.mark.timeout(180), pytest.mark.xdist_group("agent_denials")]

POLICY = """
version = 1
name = "files"

[[rules]]
id = "read-anything-below-data"
effect = "allow"
tools = ["read_file", "pay"]

[[rules]]
id = "no-way-up"
effect = "deny"
tools = ["read_file"]
reason = "paths must stay below data/"
when = [{ argument = "path", op = "contains", value = ".." }]
"""
NO_READING = ToolPermissions(deny=["read_file"])
ONLY_PAYING = ToolPermissions(allow=["pay"])
USAGE = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return f"text of {path}"


@tool(requires_confirmation=True)
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


@dataclass
class Desk:
    """What the cases need to run agents with."""

    tracer: Tracer
    folder: Path
    open: contextlib.ExitStack
    runs: dict[str, str] = field(default_factory=dict)

    def store(self, name: str) -> SqliteCheckpointStore:
        return self.open.enter_context(contextlib.closing(SqliteCheckpointStore(self.folder / name)))

    def agent(self, case: str, *replies: Any, **options: Any) -> Agent:
        llm = ScriptedLLM(replies, model="m-1", usage=USAGE)
        return Agent(case.replace(" ", "-"), llm, **({"tools": [read_file, pay], "tracer": self.tracer} | options))

    def run(self, case: str, agent: Agent, **options: Any) -> Any:
        self.runs[case] = new_run_id()
        return agent.run("go", run_id=self.runs[case], scope=Scope(user="u1", session=case), **options)

    def refused(self, case: str, name: str, arguments: Any, **options: Any) -> None:
        """A run in which the model asks for one call, hears no, and answers."""
        asks = tool_call_reply(name, arguments, call_id="c1", usage=USAGE)
        assert self.run(case, self.agent(case, asks, "I could not", **options)) == "I could not"

    def decided(self, case: str, decision: bool, *, ttl_s: float | None = None, **who: Any) -> None:
        """A run that waits for a person, and is resumed."""
        store = self.store("runs.db")
        asks = tool_call_reply("pay", {"cents": 500}, call_id="c1", usage=USAGE)
        options: dict[str, Any] = {"checkpoint_store": store, "approval_ttl_s": ttl_s}
        assert isinstance(self.run(case, self.agent(case, asks, **options)), Interrupt)
        again = self.agent(case, "I did what I could", **options)
        assert again.resume(decision, scope=Scope(user="u1", session=case), **who) == "I did what I could"

    def ended(self, case: str, error: type[BaseException], *replies: Any, **options: Any) -> None:
        """A run that ends with `error`."""
        with pytest.raises(error):
            self.run(case, self.agent(case, *replies, **options))

    @property
    def policy(self) -> Any:
        path = self.folder / "policy.toml"
        path.write_text(POLICY, "utf-8")
        return load_policy(path)


def read(path: str = "data/a", **options: Any) -> Any:
    return tool_call_reply("read_file", {"path": path}, usage=USAGE, **options)


def no(*_: Any) -> bool:
    return False


def raises(*_: Any) -> bool:
    raise ConnectionError("the console is down")


class Broken:
    """Permissions that cannot answer."""

    def denial_reason(self, tool: Any) -> str | None:
        raise ConnectionError("the policy server is down")


async def never(*_: Any) -> bool:
    return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]  # it never comes


def after(calls: int) -> Callable[[], bool]:
    """A cancel callback that says stop from the `calls`-th question on."""
    asked = iter(range(1000))
    return lambda: next(asked) >= calls


@dataclass(frozen=True)
class Case:
    """One way to be stopped.

    Attributes:
        make: runs it.
        decision, decided_by, rule: what the auditor's list says.
        reason: words that its reason holds.
        name: the tool, or what else was stopped.
        next_event: what happened next, as the list says it.
        status: of the run.
        kind: of the event.
        llm_calls, tool_calls: what the run really did.
        policy: the permissions whose digest the record names.
    """

    make: Callable[[Desk, str], None]
    decision: str
    decided_by: str
    rule: str | None
    reason: str
    next_event: str = "llm_call llm_call ok"
    name: str = "read_file"
    status: str = "ok"
    kind: str = "gate"
    llm_calls: int = 2
    tool_calls: int = 0
    policy: Callable[[Desk], Any] | None = None


def _trip(stage: str) -> Callable[[Desk, str], None]:
    guard = [CallableGuardrail(lambda _: False, message="not about prices", name="no_prices")]
    options = {f"{stage}_guardrails": guard}
    return lambda desk, case: desk.ended(case, GuardrailTripwireError, "an answer", **options)


def _in_a_sub_agent(desk: Desk, case: str) -> None:
    inner = desk.agent(f"{case} inside", read(), "no", permissions=NO_READING)
    asks = tool_call_reply(inner.name, {"task": "read"}, usage=USAGE)
    assert desk.run(case, desk.agent(case, asks, "done", tools=[AgentTool(inner)])) == "done"


CASES: dict[str, Case] = {
    "deny list": Case(
        lambda desk, case: desk.refused(case, "read_file", {"path": "x"}, permissions=NO_READING),
        "denied", "permissions", "deny:read_file", "deny list", policy=lambda _: NO_READING,
    ),
    "allow list": Case(
        lambda desk, case: desk.refused(case, "read_file", {"path": "x"}, permissions=ONLY_PAYING),
        "denied", "permissions", "unlisted", "allow list", policy=lambda _: ONLY_PAYING,
    ),
    "path rule": Case(
        lambda desk, case: desk.refused(case, "read_file", {"path": "data/../key"}, permissions=desk.policy),
        "denied", "permissions", "no-way-up", "paths must stay below data/", policy=lambda desk: desk.policy,
    ),
    "policy default": Case(
        lambda desk, case: desk.refused(case, "other", {}, permissions=desk.policy,
                                        tools=[tool(name="other", description="Does.")(lambda: "x")]),
        "denied", "permissions", "default", "no rule allows", name="other", policy=lambda desk: desk.policy,
    ),
    "gate raises": Case(
        lambda desk, case: desk.refused(case, "read_file", {"path": "x"}, permissions=Broken()),
        "denied", "permissions", "gate_error", "ConnectionError",
    ),
    "rejected": Case(
        lambda desk, case: desk.decided(case, False, approver="ann", reason="not without an invoice"),
        "rejected", "ann", None, "not without an invoice", name="pay",
    ),
    "rejected by nobody named": Case(
        lambda desk, case: desk.decided(case, False), "rejected", "approval", None, "a person rejected", name="pay",
    ),
    "expired": Case(
        lambda desk, case: desk.decided(case, True, ttl_s=1e-6, approver=Principal("ops-bot", "service")),
        "expired", "ops-bot", None, "expired", name="pay",
    ),
    "nobody to ask": Case(
        lambda desk, case: desk.refused(case, "pay", {"cents": 1}),
        "unconfirmed", "harness", None, "nobody to ask", name="pay",
    ),
    "not confirmed": Case(
        lambda desk, case: desk.refused(case, "pay", {"cents": 1}, confirm=no),
        "unconfirmed", "confirm:no", None, "not confirmed", name="pay",
    ),
    "confirm raises": Case(
        lambda desk, case: desk.refused(case, "pay", {"cents": 1}, confirm=raises),
        "unconfirmed", "confirm:raises", "gate_error", "ConnectionError", name="pay",
    ),
    "confirm takes too long": Case(
        lambda desk, case: desk.refused(case, "pay", {"cents": 1}, confirm=never, confirm_timeout_s=0.01),
        "unconfirmed", "confirm:never", "confirm_timeout", "timeout", name="pay",
    ),
    "missing argument": Case(
        lambda desk, case: desk.refused(case, "read_file", {}), "invalid_args", "registry", None, "path",
    ),
    "arguments that are no JSON": Case(
        lambda desk, case: desk.refused(case, "read_file", '{"path": '),
        "invalid_args", "agent", None, "not valid JSON",
    ),
    "unknown tool": Case(
        lambda desk, case: desk.refused(case, "ghost", {"a": 1}),
        "unknown_tool", "registry", None, "ghost", name="ghost",
    ),
    "no tools at all": Case(
        lambda desk, case: desk.refused(case, "ghost", {"a": 1}, tools=[]),
        "unknown_tool", "registry", None, "ghost", name="ghost",
    ),
    "tool budget": Case(
        lambda desk, case: desk.ended(case, RunLimitExceeded, read(), run_policy=RunPolicy(max_tool_calls=0)),
        "limited", "run_policy", "max_tool_calls", "0 tool calls made, limit 0",
        next_event="run_end {agent} error", status="error", llm_calls=1,
    ),
    "model budget": Case(
        lambda desk, case: desk.ended(case, RunLimitExceeded, read(), run_policy=RunPolicy(max_llm_calls=1)),
        "limited", "run_policy", "max_llm_calls", "1 model calls made, limit 1",
        name="llm_call", next_event="run_end {agent} error", status="error", llm_calls=1, tool_calls=1,
    ),
    "token budget": Case(
        lambda desk, case: desk.ended(case, RunLimitExceeded, read(), run_policy=RunPolicy(max_tokens=12)),
        "limited", "run_policy", "max_tokens", "12 tokens used, limit 12",
        next_event="run_end {agent} error", status="error", llm_calls=1,
    ),
    "cancelled before a tool": Case(
        lambda desk, case: desk.ended(case, RunCancelled, read(), run_policy=RunPolicy(cancel=after(1))),
        "cancelled", "run_policy", "cancel", "cancel callback",
        next_event="run_end {agent} cancelled", status="cancelled", llm_calls=1,
    ),
    "cancelled before a model call": Case(
        lambda desk, case: desk.ended(case, RunCancelled, read(), run_policy=RunPolicy(cancel=after(0))),
        "cancelled", "run_policy", "cancel", "cancel callback",
        name="llm_call", next_event="run_end {agent} cancelled", status="cancelled", llm_calls=0,
    ),
    "input guardrail": Case(
        _trip("input"), "tripped", "input_guardrail", "no_prices", "not about prices", name="input guardrail",
        kind="guardrail", next_event="run_end {agent} blocked", status="blocked", llm_calls=0,
    ),
    "output guardrail": Case(
        _trip("output"), "tripped", "output_guardrail", "no_prices", "not about prices", name="output guardrail",
        kind="guardrail", next_event="run_end {agent} blocked", status="blocked", llm_calls=1,
    ),
    "in a sub-agent": Case(
        _in_a_sub_agent, "denied", "permissions", "deny:read_file", "deny list",
        llm_calls=4, tool_calls=1, policy=lambda _: NO_READING,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class World:
    """A collector with a run of each case, and what the command lists."""

    ask: Asker
    desk: Desk
    denials: list[Row]
    runs: dict[str, Row]
    waterfalls: dict[str, list[Row]] = field(default_factory=dict)

    def denial(self, name: str) -> Row:
        """The only one of a case's run."""
        (row,) = [row for row in self.denials if row["run_id"] == self.desk.runs[name]]
        return row

    def run(self, name: str) -> Row:
        return self.runs[self.desk.runs[name]]

    def waterfall(self, name: str) -> list[Row]:
        if name not in self.waterfalls:
            self.waterfalls[name] = self.ask.rows("waterfall", run_id=self.desk.runs[name])
        return self.waterfalls[name]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("denials")
    with collector(folder / "data") as process, contextlib.ExitStack() as stack:
        exporter = CollectorExporter(process.url, schedule_delay_s=0.01, spool_dir=folder / "spool")
        desk = Desk(Tracer(exporters=[exporter]), folder, stack)
        for name, case in CASES.items():
            case.make(desk, name)
        _allowed(desk)
        _waiting(desk)
        _torn_off(desk)
        assert desk.tracer.force_flush(60)
        ask = Asker(process.url)
        runs = {row["run_id"]: row for row in ask.rows("runs", limit=1000)}
        yield World(ask, desk, ask.command("denials", "--limit", "1000"), runs)
        ask.close()
        desk.tracer.close()


def _allowed(desk: Desk) -> None:
    """What is no denial: a call by policy, one that a person approved, and one that failed."""
    assert desk.run("allowed", desk.agent("allowed", read(), "ok", permissions=desk.policy)) == "ok"
    desk.decided("approved", True, approver="ann", reason="invoice 7")

    @tool
    def broken() -> str:
        """Fails."""
        raise ConnectionError("down")

    agent = desk.agent("failed", tool_call_reply("broken", usage=USAGE), "ok", tools=[broken])
    assert desk.run("failed", agent) == "ok"


def _waiting(desk: Desk) -> None:
    """Two calls of one turn that wait, in a run nobody resumes."""
    asks = tool_calls_reply(("pay", {"cents": 1}, "c1"), ("pay", {"cents": 2}, "c2"), usage=USAGE)
    agent = desk.agent("waiting", asks, checkpoint_store=desk.store("waiting.db"))
    assert isinstance(desk.run("waiting", agent), Interrupt)


def _torn_off(desk: Desk) -> None:
    """Cancelled from outside, in the middle of a tool: nobody decided anything."""
    entered = threading.Event()

    @tool
    async def slow() -> str:
        """Takes for ever."""
        entered.set()
        return str(await never())

    async def run_and_cancel() -> None:
        agent = desk.agent("torn off", tool_call_reply("slow", usage=USAGE), tools=[slow])
        desk.runs["torn off"] = new_run_id()
        task = asyncio.create_task(agent.arun("go", run_id=desk.runs["torn off"]))
        await asyncio.to_thread(entered.wait)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(run_and_cancel())


@pytest.mark.parametrize("name", CASES)
def test_a_stopped_attempt_is_listed_once_with_who_and_why_and_what_came_next(name: str, world: World) -> None:
    # DEC-01, DEC-02, FR-61, HAR-44, HAR-47
    case = CASES[name]
    row = world.denial(name)
    told = {key: row[key] for key in ("decision", "decided_by", "rule", "kind", "name", "next_event")}
    agent = name.replace(" ", "-")
    assert told == {
        "decision": case.decision,
        "decided_by": case.decided_by,
        "rule": case.rule,
        "kind": case.kind,
        "name": case.name,
        "next_event": case.next_event.format(agent=agent),
    }
    assert case.reason in row["reason"]
    assert row["policy_digest"] == (case.policy(world.desk).policy_digest if case.policy else None)
    assert row["agent"] == (agent if name != "in a sub-agent" else "in-a-sub-agent-inside")


@pytest.mark.parametrize("name", CASES)
def test_a_stopped_attempt_looks_like_nothing_that_ran(name: str, world: World) -> None:  # FR-61, HAR-44
    (event,) = [row for row in world.waterfall(name) if row["event_id"] == world.denial(name)["event_id"]]
    assert event["status"] == "blocked"
    assert event["duration_ns"] is None
    assert event["input_tokens"] is None


@pytest.mark.parametrize("name", CASES)
def test_the_list_of_runs_tells_how_it_ended_and_what_it_did(name: str, world: World) -> None:  # DEC-01, POL-05
    case, run = CASES[name], world.run(name)
    assert (run["status"], run["llm_calls"], run["tool_calls"], run["denials"]) == (
        case.status, case.llm_calls, case.tool_calls, 1,
    )  # fmt: skip
    if case.llm_calls:
        assert (run["input_tokens"], run["output_tokens"]) == (10 * case.llm_calls, 2 * case.llm_calls)
    assert run["agent"] == name.replace(" ", "-")


def test_the_command_and_the_query_list_the_same_and_nothing_else(world: World) -> None:  # DEC-01
    listed = world.ask.rows("gate_denials", limit=1000)
    assert {row["event_id"] for row in listed} == {row["event_id"] for row in world.denials}
    assert Counter(row["run_id"] for row in listed) == Counter(world.desk.runs[name] for name in CASES)


@pytest.mark.parametrize(
    ("name", "status", "tool_calls"),
    [
        ("allowed", "ok", 1),
        ("approved", "ok", 1),
        ("failed", "ok", 1),
        ("waiting", "suspended", 0),
        ("torn off", "cancelled", 1),
    ],
)
def test_what_nobody_stopped_is_no_denial(name: str, status: str, tool_calls: int, world: World) -> None:  # DEC-01
    run = world.run(name)
    assert (run["status"], run["tool_calls"], run["denials"]) == (status, tool_calls, 0)


def test_runs_are_found_by_how_they_ended(world: World) -> None:
    (waiting,) = world.ask.command("runs", "--status", "suspended")
    assert waiting["run_id"] == world.desk.runs["waiting"]
    for status in ("error", "blocked"):
        found = {row["run_id"] for row in world.ask.rows("runs", status=status, limit=1000)}
        assert found == {world.desk.runs[name] for name, case in CASES.items() if case.status == status}


def test_an_approval_says_who_decided_and_on_which_digest(world: World) -> None:  # DEC-02
    events = world.ask.rows("run_events", run_id=world.desk.runs["approved"])
    (asked,) = [event for event in events if event["type"] == "approval_request"]
    (decided,) = [event for event in events if event["type"] == "approval_decision"]
    (called,) = [event for event in events if event["type"] == "tool_call"]
    assert (decided["decision"], decided["decided_by"]) == ("allowed", "ann")
    assert (called["kind"], called["status"], called["decided_by"]) == ("tool", "ok", "ann")
    assert world.ask.content(decided["event_id"])["reason"] == "invoice 7"
    assert asked["decision"] == "suspended"


def test_spend_adds_up_over_all_runs(world: World) -> None:
    made = sum(case.llm_calls for case in CASES.values()) + 2 + 2 + 2 + 1 + 1
    (row,) = world.ask.rows("spend", by="model")
    assert (row["value"], row["calls"], row["input_tokens"], row["output_tokens"]) == ("m-1", made, 10 * made, 2 * made)
    assert row["unpriced_calls"] == made
    (day,) = world.ask.command("spend")
    assert (day["calls"], day["cost_usd"]) == (made, None)


@pytest.mark.parametrize("name", [*CASES, "allowed", "approved", "failed", "waiting", "torn off"])
def test_the_waterfall_hangs_together(name: str, world: World) -> None:  # EXEC-06, EXEC-10
    rows = world.waterfall(name)
    (root,) = [row for row in rows if row["depth"] == 0]
    assert root["kind"] == "run"
    assert [row for row in rows if row["parent_missing"] or row["depth"] is None] == []
    if name == "in a sub-agent":
        (gate,) = [row for row in rows if row["kind"] == "gate"]
        spans = {row["span_id"]: row for row in rows}
        agent = spans[gate["parent_span_id"]]
        outer = spans[agent["parent_span_id"]]
        assert (agent["kind"], outer["kind"], outer["parent_span_id"]) == ("agent", "tool", root["span_id"])


def test_the_dashboard_lists_the_person_and_the_rule(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEHOLD_URL", world.ask.url)
    monkeypatch.delenv("TRACEHOLD_API_KEY", raising=False)
    for name, decided_by, rule in (("rejected", "ann", None), ("path rule", "permissions", "no-way-up")):
        app = AppTest.from_file(str(launch.APP), default_timeout=60)
        app.query_params["run_id"] = world.desk.runs[name]
        app.run()
        # The runner has no public way to a page of st.navigation; this is what the browser's address does.
        app._page_hash = calc_hash(links.DENIALS)
        app.run()
        assert not app.exception
        (row,) = app.dataframe[0].value.to_dict("records")
        assert row["decided_by"] == decided_by
        assert rule is None or row["rule"] == rule
        assert CASES[name].reason in row["reason"]
