"""Functions as sources."""

from __future__ import annotations

import asyncio
import functools
import threading

import pytest
from tracehold.context import CallableSource, ContextSource
from tracehold.core.scope import Scope
from tracehold.retrieval.types import RetrievalResult

MINE = Scope(user="ada")


class Probe:
    """Records the arguments it is called with."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []

    def one(self, query):
        self.calls.append((query,))
        return []

    def two(self, query, where):
        self.calls.append((query, where))
        return []

    def keyword(self, query, *, scope="unset"):
        self.calls.append((query, scope))
        return []

    def third(self, query, top_k=5, scope="unset"):
        self.calls.append((query, top_k, scope))
        return []

    def anything(self, *args, **kwargs):
        self.calls.append((args, kwargs))
        return []


@pytest.fixture
def probe() -> Probe:
    return Probe()


# CTX-11
def test_a_function_of_two_positional_parameters_gets_the_scope_as_its_second(probe: Probe) -> None:
    CallableSource("memory", probe.two).fetch("q", MINE)
    CallableSource("memory", probe.two).fetch("q")
    assert probe.calls == [("q", MINE), ("q", None)]


# CTX-11
def test_a_function_of_one_parameter_gets_the_query_alone(probe: Probe) -> None:
    CallableSource("memory", probe.one).fetch("q", MINE)
    CallableSource("memory", probe.anything).fetch("q", MINE)
    assert probe.calls == [("q",), (("q",), {})]


# CTX-11
def test_true_hands_the_scope_over_by_keyword(probe: Probe) -> None:
    CallableSource("memory", probe.anything, pass_scope=True).fetch("q", MINE)
    CallableSource("memory", probe.third, pass_scope=True).fetch("q", MINE)
    assert probe.calls == [(("q",), {"scope": MINE}), ("q", 5, MINE)]


# CTX-11
def test_false_never_hands_the_scope_over(probe: Probe) -> None:
    CallableSource("memory", probe.keyword, pass_scope=False).fetch("q", MINE)
    CallableSource("memory", functools.partial(probe.two, where="fixed"), pass_scope=False).fetch("q", MINE)
    assert probe.calls == [("q", "unset"), ("q", "fixed")]


# CTX-11
def test_a_parameter_called_scope_gets_it_wherever_it_stands(probe: Probe) -> None:
    CallableSource("memory", probe.keyword).fetch("q", MINE)
    CallableSource("memory", probe.third).fetch("q", MINE)
    assert probe.calls == [("q", MINE), ("q", 5, MINE)]


# CTX-11
def test_a_builtin_that_tells_no_signature_gets_the_query_alone() -> None:
    assert CallableSource("memory", dict.fromkeys).fetch("ab", MINE) == ["a", "b"]


# CTX-12
def test_a_sync_function_is_awaited_on_a_worker_thread() -> None:
    threads: list[int] = []

    def fetch(query):
        threads.append(threading.get_ident())
        return [RetrievalResult("found", 1.0, "test")]

    found = asyncio.run(CallableSource("memory", fetch).afetch("q"))
    assert [result.content for result in found] == ["found"]
    assert threads != [threading.get_ident()]


# CTX-12
def test_while_a_sync_function_blocks_the_loop_goes_on() -> None:
    go_on = threading.Event()

    def fetch(query):
        assert go_on.wait(30)
        return []

    async def main() -> None:
        fetching = asyncio.create_task(CallableSource("memory", fetch).afetch("q"))
        await asyncio.sleep(0)
        go_on.set()
        await fetching

    asyncio.run(main())


# CTX-12
def test_an_async_function_is_awaited_on_the_loop_with_the_scope() -> None:
    async def fetch(query, scope):
        return [RetrievalResult(f"{query} {scope.user} {threading.get_ident()}", 1.0, "test")]

    (found,) = asyncio.run(CallableSource("memory", fetch).afetch("q", MINE))
    assert found.content == f"q ada {threading.get_ident()}"


# CTX-12
def test_an_async_function_in_any_disguise_is_refused_by_the_sync_entry_point() -> None:
    async def fetch(query):
        return []

    def sync_with_an_awaitable_answer(query):
        return fetch(query)

    class Callable:
        async def __call__(self, query):
            return []

    for disguise in (fetch, Callable(), functools.partial(fetch), sync_with_an_awaitable_answer):
        source = CallableSource("memory", disguise)
        with pytest.raises(TypeError, match="'memory' is async"):
            source.fetch("q")
        assert asyncio.run(source.afetch("q")) == []


# CTX-12
def test_a_future_is_refused_by_the_sync_entry_point_too() -> None:
    async def main() -> None:
        future = asyncio.get_running_loop().create_future()
        with pytest.raises(TypeError, match="afetch"):
            CallableSource("memory", lambda query: future).fetch("q")

    asyncio.run(main())


def test_nothing_found_may_be_none_and_a_text_is_not_a_list_of_results() -> None:
    assert CallableSource("memory", lambda query: None).fetch("q") == []
    for odd in ("text", b"bytes", 7):
        with pytest.raises(TypeError, match="'memory' must return RetrievalResults"):
            CallableSource("memory", lambda query, odd=odd: odd, pass_scope=False).fetch("q")


def test_what_cannot_be_called_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="'memory' needs a function"):
        CallableSource("memory", "search")  # type: ignore[arg-type]  # what the test is about


# CTX-12
def test_a_source_class_with_a_sync_fetch_can_be_awaited() -> None:
    class Fixed(ContextSource):
        name = "fixed"

        def fetch(self, query, scope=None):
            return [RetrievalResult(str(threading.get_ident()), 1.0, "fixed")]

    (found,) = asyncio.run(Fixed().afetch("q"))
    assert found.content != str(threading.get_ident())
