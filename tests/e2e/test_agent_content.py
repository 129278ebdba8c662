"""What an agent's run says goes to the collector whole when it is asked for, nowhere else, and never with a secret."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.asking import Asker, Row
from support.processes import CollectorProcess, collector
from support.receiver import Receiver, receiver
from tracehold import (
    Agent,
    AgentTool,
    CallableGuardrail,
    CollectorExporter,
    GuardrailTripwireError,
    Hook,
    Interrupt,
    JsonlExporter,
    Scope,
    SqliteCheckpointStore,
    Tracer,
    Verdict,
    governed_chat,
    new_run_id,
    tool,
)
from tracehold.harness import Harness
from tracehold.testing import ScriptedLLM, tool_call_reply, tool_calls_reply

pytestmark = [pytest.mark.timeout(180), pytest.mark.xdist_group("agent_content")]

LONG = " ".join(f"word{number}" for number in range(4000))
"""Far longer than the 200 characters an ordinary exporter sees, far shorter than `content_max_bytes`."""


@tool
def echo(text: str) -> str:
    """Say it again."""
    return f"again: {text}"


class World:
    """A collector behind a proxy that keeps what is sent to it."""

    def __init__(self, process: CollectorProcess, proxy: Receiver, ask: Asker, folder: Path) -> None:
        self.process = process
        self.proxy = proxy
        self.ask = ask
        self.folder = folder

    @contextlib.contextmanager
    def tracer(self, name: str, **options: Any) -> Iterator[tuple[Tracer, Path]]:
        """A Tracer to the collector, with a JSONL file beside it; all is handed over at the end."""
        path = self.folder / f"{name}.jsonl"
        exporter = CollectorExporter(self.proxy.url, schedule_delay_s=0.01, spool_dir=self.folder / "spool")
        tracer = Tracer(exporters=[JsonlExporter(path), exporter], **options)
        yield tracer, path
        assert tracer.force_flush(60)
        tracer.close()

    def events(self, run_id: str) -> list[Row]:
        """The stored events of a run with what they said."""
        rows = self.ask.rows("run_events", run_id=run_id)
        return [row | {"content": self.ask.content(row["event_id"]) or {}} for row in rows]

    def sent(self, since: int = 0) -> str:
        """The bodies of all requests from the given one on."""
        return "\n".join(body.decode("utf-8", "replace") for _, body in self.proxy.bodies[since:])

    def raw(self) -> str:
        """Every byte of the store, its write-ahead log and its keys."""
        files = sorted(path for path in self.process.data_dir.rglob("*") if path.is_file())
        assert files
        return "\n".join(path.read_bytes().decode("latin-1") for path in files)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("content")
    with collector(folder / "data") as process, receiver(process.url) as proxy:
        ask = Asker(process.url)
        yield World(process, proxy, ask, folder)
        ask.close()


def run_of_long_texts(tracer: Tracer) -> str:
    replies = [tool_call_reply("echo", {"text": f"argument {LONG}"}, call_id="c1"), f"answer {LONG}"]
    run_id = new_run_id()
    agent = Agent("talker", ScriptedLLM(replies), f"system {LONG}", tools=[echo], tracer=tracer)
    agent.run(f"question {LONG}", run_id=run_id)
    return run_id


def test_with_content_the_collector_has_every_word(world: World) -> None:  # DEC-15
    with world.tracer("whole", content=True) as (tracer, _):
        run_id = run_of_long_texts(tracer)
    first, second = [event["content"] for event in world.events(run_id) if event["kind"] == "llm"]
    (call,) = [event["content"] for event in world.events(run_id) if event["kind"] == "tool"]
    assert [message["content"] for message in first["input"]] == [f"system {LONG}", f"question {LONG}"]
    asked = json.loads(first["output"]["tool_calls"][0]["function"]["arguments"])
    assert asked == {"text": f"argument {LONG}"}
    assert second["input"][-1]["content"] == f"again: argument {LONG}"
    assert second["output"] == f"answer {LONG}"
    assert call["params"] == {"text": f"argument {LONG}"}
    assert call["result"] == f"again: argument {LONG}"
    (end,) = [event["content"] for event in world.events(run_id) if event["type"] == "run_end"]
    assert end["output"] == f"answer {LONG}"


def test_with_content_a_file_beside_the_collector_sees_none_of_it(world: World) -> None:  # DEC-15, TRC-10
    with world.tracer("beside", content=True) as (tracer, path):
        run_of_long_texts(tracer)
    text = path.read_text("utf-8")
    for event in map(json.loads, text.splitlines()):
        assert not {"input", "output"} & event.keys()
    assert "question word0" not in text
    assert "answer word0" not in text
    assert "word999" not in text
    assert "argument word0" in text  # the documented event: arguments and results, cut


def test_without_content_nobody_sees_it(world: World) -> None:  # DEC-15
    before = len(world.proxy.bodies)
    with world.tracer("without") as (tracer, _):
        run_id = run_of_long_texts(tracer)
    sent = world.sent(before)
    assert run_id in sent
    for word in ("question word0", "answer word0", "system word0", "word999"):
        assert word not in sent
    assert all("input" not in event["content"] for event in world.events(run_id))


# Secrets. Made up, and put together here so that no scanner takes this file for a leak.

_RUN = "a1B7xK9qLm2Zt4Vw8Yc3Nd6Rf5Gh0Js"
SECRETS = {
    "openai": "sk-" + "proj-" + _RUN + "Qe",
    "github": "gh" + "p_" + _RUN + "Uo5i",
    "aws": "AK" + "IA" + "QWERTYUIOP234567",
    "card": "4111" + "1111" + "1111" + "1111",
}
PASSWORD = "hunter2" + "Xy9"
"""Nothing in its looks gives it away: only the key or the words beside it do."""


class Marks:
    """Texts that hold a secret beside a harmless mark, which shows later that the text itself came through."""

    def __init__(self) -> None:
        self.planted: list[str] = []

    def text(self, place: str, secret: str) -> str:
        mark = f"mark-{len(self.planted)}-{place}"
        self.planted.append(mark)
        return f"{mark}: use {secret} and password={PASSWORD} for it"


class Notes(Hook):
    """A program's own span around what waits, with a secret in it."""

    def __init__(self, tracer: Tracer, marks: Marks, secret: str) -> None:
        self.tracer, self.marks, self.secret = tracer, marks, secret

    async def on_interrupt(self, pendings: Any, *, scope: Any = None) -> None:
        with self.tracer.span("told the approver", note=self.marks.text("span", self.secret)):
            pass


class Judge:
    """Permissions whose reason repeats what it saw."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def decide(self, tool: Any, parameters: Any = None) -> Verdict:
        denied = getattr(tool, "name", tool) == "forbidden"
        return Verdict(not denied, self.reason if denied else None, "judge")

    def denial_reason(self, tool: Any) -> str | None:
        return None


def talk(tracer: Tracer, marks: Marks, secret: str, store: SqliteCheckpointStore, name: str) -> list[str]:
    """Runs with the secret in every place an agent has; returns their ids."""

    def planted(place: str) -> str:
        return marks.text(place, secret)

    @tool
    async def work(task: str, details: dict[str, Any]) -> str:
        """Asks a model itself, streams, and says what it was told."""
        told = [{"role": "user", "content": planted("governed message")}]
        await governed_chat(ScriptedLLM([planted("governed reply")]), told, tracer=tracer, origin="memory")
        stream = Harness(ScriptedLLM([planted("stream")], piece_chars=7), tracer=tracer).astream_llm(told)
        [_ async for _ in stream]
        return planted("result")

    @tool
    def fails(text: str) -> str:
        """Raises what it was told."""
        raise LookupError(planted("error"))

    @tool
    def forbidden(text: str) -> str:
        """Never permitted."""
        return text

    @tool(requires_confirmation=True)
    def pay(text: str) -> str:
        """Needs a person."""
        return planted("approved result")

    helper = Agent("helper", ScriptedLLM([planted("sub-agent reply")]), planted("sub-agent prompt"), tracer=tracer)
    details = {"api_key": secret, "password": PASSWORD, "deep": [{"header": f"Authorization: Bearer {secret}"}]}
    calls = tool_calls_reply(
        ("work", {"task": planted("argument"), "details": details}),
        ("fails", {"text": planted("failing argument")}),
        ("forbidden", {"text": planted("denied argument")}),
        ("work", {"task": ["not a text", planted("invalid argument")], "details": secret}),
        ("ghost", {"text": planted("unknown tool")}),
        ("work", f'{{"task": "{planted("broken JSON")}'),
        ("helper", {"task": planted("sub-agent task")}),
        content=planted("text beside calls"),
    )
    waits = tool_call_reply("pay", {"text": planted("pending argument")}, call_id="p1")
    given: dict[str, Any] = {
        "tools": [work, fails, forbidden, pay, AgentTool(helper)],
        "permissions": Judge(planted("denial reason")),
        "tracer": tracer,
        "checkpoint_store": store,
        "hooks": [Notes(tracer, marks, secret)],
    }
    scope, run_ids = Scope(user=f"maria-{name}"), [new_run_id() for _ in range(4)]
    first = Agent("desk", ScriptedLLM([calls, waits]), planted("prompt"), **given)
    assert isinstance(first.run(planted("question"), run_id=run_ids[0], scope=scope), Interrupt)
    again = Agent("desk", ScriptedLLM([waits]), **given)
    assert isinstance(again.resume(True, scope=scope, approver="ann", reason=planted("reason to approve")), Interrupt)
    last = Agent("desk", ScriptedLLM([planted("last answer")]), **given)
    last.resume(False, scope=scope, approver="ann", reason=planted("reason to reject"))

    guard = CallableGuardrail(lambda _: False, message=planted("guardrail message"), name="guard")
    with pytest.raises(GuardrailTripwireError):
        Agent("guarded", ScriptedLLM(), input_guardrails=[guard], tracer=tracer).run(
            planted("tripped question"), run_id=run_ids[1]
        )
    with pytest.raises(ConnectionError):
        Agent("down", ScriptedLLM([ConnectionError(planted("model error"))]), tracer=tracer).run(
            "go", run_id=run_ids[2]
        )

    def broken(*_: Any) -> bool:
        raise ConnectionError(planted("confirm error"))

    Agent("asks", ScriptedLLM([waits, "no"]), tools=[pay], confirm=broken, tracer=tracer).run("go", run_id=run_ids[3])
    return run_ids


NOT_RECORDED = {"confirm error", "tripped question"}
"""Of a gate that broke only the type is told; what an input guardrail stopped never reached a model."""


def test_no_secret_reaches_the_wire_the_store_or_a_file(
    world: World, tmp_path: Path
) -> None:  # DEC-15, TRC-01, FR-35, FR-61, DEC-02
    marks, run_ids = Marks(), []
    with world.tracer("secrets", content=True) as (tracer, path):
        for name, secret in SECRETS.items():
            with contextlib.closing(SqliteCheckpointStore(tmp_path / "runs.db")) as store:
                run_ids += talk(tracer, marks, secret, store, name)
    stored = json.dumps([world.events(run_id) for run_id in run_ids])
    held = {
        "requests": world.sent(),
        "store, as told by its API": stored,
        "list of denials": json.dumps(world.ask.command("denials", "--limit", "1000")),
        "store, raw": world.raw(),
        "file beside": path.read_text("utf-8"),
        "log": world.process.log(),
    }
    for where, text in held.items():
        for name, secret in [*SECRETS.items(), ("password", PASSWORD)]:
            assert secret not in text, f"{name}: in {where}"
    shown = [mark for mark in marks.planted if mark.split("-", 2)[2] not in NOT_RECORDED]
    assert len(shown) > 20 * len(SECRETS)
    for mark in shown:
        assert mark in held["requests"], mark
        assert mark in stored, mark
    assert "reason to reject" in held["list of denials"]
    for name in SECRETS:
        assert f"maria-{name}" not in held["store, raw"] + stored  # a pseudonym stands for the person
