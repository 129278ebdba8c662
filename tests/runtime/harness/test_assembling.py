"""`aassemble`: the conversation as the model gets it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from harness_parts import HookLog, Model, in_run, of, only, run, soon, until
from tracehold import Message, Scope, Tracer
from tracehold.context import CallableSource, ContextBuilder, ContextConfig, HistoryCompactor
from tracehold.core.errors import RunCancelled, RunLimitExceeded
from tracehold.execution import RunPolicy
from tracehold.harness import Harness
from tracehold.retrieval.types import RetrievalResult

HISTORY = [Message("be brief", "system"), Message("hi", "user"), Message("hello", "assistant")]
PLAIN = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "hello"},
]


class Compactor:
    """Gives back what it is told, after asking for a summary when told so."""

    def __init__(self, result: Any = None, *, summarize: bool = False) -> None:
        self.result = result
        self.summarize = summarize
        self.seen: list[Any] = []
        self.summaries: list[str] = []

    async def acompact(self, history: Any, *, asummarize: Any = None) -> Any:
        self.seen.append((history, asummarize))
        if self.summarize:
            self.summaries.append(await asummarize("SUMMARISE THIS", "a long talk"))
        return history if self.result is None else self.result


class Block:
    def __init__(self, block: str = "facts") -> None:
        self.block = block
        self.asked: list[dict[str, Any]] = []

    async def abuild_block(self, query: str, **options: Any) -> str:
        self.asked.append({"query": query} | options)
        return self.block

    def build_block(self, query: str, **options: Any) -> str:
        self.asked.append({"query": query} | options)
        return self.block


def hit(text: str, *_: Any, **__: Any) -> list[RetrievalResult]:
    return [RetrievalResult(content=text, score=1.0, source="test", id=text)]


def builder(*names: str) -> ContextBuilder:
    ratios = {name: 1 / len(names) for name in names}
    return ContextBuilder(ContextConfig(max_tokens=2000, source_ratios=ratios, min_chunk_tokens=1))


def test_plain_history_is_role_and_content_in_order() -> None:  # HAR-61
    assert run(Harness(Model()).aassemble(HISTORY)) == PLAIN
    assert run(Harness(Model()).aassemble(HISTORY, "a query")) == PLAIN
    assert run(Harness(Model()).aassemble([])) == []


def test_content_in_parts_stays_in_parts() -> None:  # HAR-61
    parts = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    assert run(Harness(Model()).aassemble([Message(parts, "user")])) == [{"role": "user", "content": parts}]


def test_the_compactors_result_is_used() -> None:  # HAR-62
    compactor = Compactor([Message("recap", "system"), HISTORY[-1]])
    got = run(Harness(Model(), compactor=compactor).aassemble(HISTORY))
    assert got == [{"role": "system", "content": "recap"}, PLAIN[-1]]
    ((history, asummarize),) = compactor.seen
    assert list(history) == HISTORY
    assert callable(asummarize)


def test_a_compaction_is_an_event(tracer: Tracer) -> None:  # HAR-63
    run(Harness(Model(), compactor=Compactor(HISTORY[1:]), tracer=tracer).aassemble(HISTORY))
    event = only(tracer, "context_compact")
    assert (event["before"], event["after"]) == (3, 2)


def test_another_object_of_the_same_length_is_a_compaction_too(tracer: Tracer) -> None:  # HAR-63
    run(Harness(Model(), compactor=Compactor(list(HISTORY)), tracer=tracer).aassemble(HISTORY))
    event = only(tracer, "context_compact")
    assert (event["before"], event["after"]) == (3, 3)


def test_the_same_object_is_no_event(tracer: Tracer) -> None:  # HAR-63
    assert run(Harness(Model(), compactor=Compactor(), tracer=tracer).aassemble(HISTORY)) == PLAIN
    assert tracer.events == []


def test_the_summary_is_a_governed_model_call(tracer: Tracer) -> None:  # HAR-64
    model, hook, compactor = Model("short"), HookLog(), Compactor(summarize=True)
    run(Harness(model, compactor=compactor, tracer=tracer, hooks=[hook]).aassemble(HISTORY))
    assert compactor.summaries == ["short"]
    assert hook.names() == ["before_model", "after_model"]
    assert len(of(tracer, "llm_call")) == 1
    sent = " ".join(message["content"] for message in model.chats[0].messages)
    assert "SUMMARISE THIS" in sent
    assert "a long talk" in sent


@pytest.mark.parametrize(
    ("policy", "error"),
    [(RunPolicy(max_tokens=10), RunLimitExceeded), (RunPolicy(max_llm_calls=1), RunLimitExceeded)],
)
def test_the_summary_obeys_the_runs_limits(policy: RunPolicy, error: Any, tracer: Tracer) -> None:  # HAR-64, HAR-65
    model = Model()
    harness = Harness(model, compactor=Compactor(summarize=True), tracer=tracer)

    async def limited() -> None:
        with in_run(policy):
            await harness.acall_llm([])
            with pytest.raises(error):
                await harness.aassemble(HISTORY)

    run(limited())
    assert len(model.chats) == 1
    assert of(tracer, "summarize_failed") == []


def test_a_cancel_goes_through_the_summary(tracer: Tracer) -> None:  # HAR-65
    async def cancelled() -> None:
        with in_run(RunPolicy(cancel=lambda: True)), pytest.raises(RunCancelled):
            await Harness(Model(), compactor=Compactor(summarize=True), tracer=tracer).aassemble(HISTORY)

    run(cancelled())
    assert of(tracer, "summarize_failed") == []


def test_a_failed_summary_is_empty_and_an_event(tracer: Tracer) -> None:  # HAR-65
    compactor = Compactor(summarize=True)
    harness = Harness(Model(LookupError("no route to 10.0.0.1")), compactor=compactor, tracer=tracer)
    assert run(harness.aassemble(HISTORY)) == PLAIN
    assert compactor.summaries == [""]
    event = only(tracer, "summarize_failed")
    assert "LookupError" in str(event)


def test_the_real_compactor_works_under_the_harness(tracer: Tracer) -> None:  # HAR-62, HAR-63, CTX-03
    history = [Message(f"message {n} " * 50, "user" if n % 2 else "assistant") for n in range(12)]
    model = Model("the recap")
    compactor = HistoryCompactor(model, keep_recent=2, trigger_tokens=50)
    got = run(Harness(model, compactor=compactor, tracer=tracer).aassemble(history))
    assert len(got) == 3
    assert got[0]["role"] == "system"
    assert "the recap" in got[0]["content"]
    assert got[1:] == [message.to_dict() for message in history[-2:]]
    assert only(tracer, "context_compact")["before"] == 12
    assert len(of(tracer, "llm_call")) == 1


def test_the_retrieval_block_is_one_system_message_in_front() -> None:  # HAR-66, HAR-71
    harness = Harness(Model(), context_builder=Block("facts about you"), sources=[object()])
    got = run(harness.aassemble(HISTORY, "you"))
    assert got[1:] == PLAIN
    assert got[0]["role"] == "system"
    assert got[0]["content"].endswith("facts about you")
    assert got[0]["content"] == run(harness.acontext_block("you"))


@pytest.mark.parametrize(("query", "block"), [("", "facts"), ("you", "")])
def test_nothing_to_say_inserts_nothing(query: str, block: str) -> None:  # HAR-67
    harness = Harness(Model(), context_builder=Block(block), sources=[object()])
    assert run(harness.aassemble(HISTORY, query)) == PLAIN


def test_an_empty_query_asks_no_source() -> None:  # HAR-67
    block = Block()
    run(Harness(Model(), context_builder=block, sources=[object()]).aassemble(HISTORY))
    assert block.asked == []


@pytest.mark.parametrize("scope", [None, Scope(user="u1", session="s1")])
def test_the_scope_reaches_every_source_unchanged(scope: Any) -> None:  # HAR-68
    got: list[Any] = []

    def fetch(query: str, scope: Any) -> list[RetrievalResult]:
        got.append(scope)
        return hit(f"{query} {len(got)}")

    sources = [CallableSource("a", fetch), CallableSource("b", fetch)]
    harness = Harness(Model(), context_builder=builder("a", "b"), sources=sources)
    run(harness.aassemble(HISTORY, "q", scope))
    assert got == [scope, scope]
    assert all(one is scope for one in got)


def test_a_source_that_blocks_leaves_the_loop_free() -> None:  # HAR-69
    async def both() -> list[Any]:
        entered, released = threading.Event(), threading.Event()

        def fetch(query: str) -> list[RetrievalResult]:
            entered.set()
            assert released.wait(20)
            return hit("found")

        harness = Harness(Model(), context_builder=builder("a"), sources=[CallableSource("a", fetch)])
        task = asyncio.create_task(harness.aassemble(HISTORY, "q"))
        await until(entered.is_set)
        released.set()  # only a loop that still turns gets here
        return await soon(task)

    assert "found" in run(both())[0]["content"]


def test_compaction_comes_before_the_block_goes_in() -> None:  # HAR-62, HAR-66
    compactor = Compactor(HISTORY[1:])
    harness = Harness(Model(), compactor=compactor, context_builder=Block(), sources=[object()])
    got = run(harness.aassemble(HISTORY, "q"))
    assert [message["role"] for message in got] == ["system", "user", "assistant"]
    assert "facts" in got[0]["content"]
    assert list(compactor.seen[0][0]) == HISTORY


def test_the_callers_history_is_left_alone() -> None:  # HAR-61, HAR-66
    history = list(HISTORY)
    harness = Harness(Model(), context_builder=Block(), sources=[object()])
    run(harness.aassemble(history, "q"))
    assert history == HISTORY


def test_a_source_that_fails_reaches_the_caller() -> None:  # HAR-68: retrieval has no silent gap
    def fetch(query: str) -> list[RetrievalResult]:
        raise LookupError("no index")

    harness = Harness(Model(), context_builder=builder("a"), sources=[CallableSource("a", fetch)])
    with pytest.raises(LookupError):
        run(harness.aassemble(HISTORY, "q"))
