"""One SDK client for each event loop."""

from __future__ import annotations

import asyncio

import pytest
from tracehold.llm.connections import ConnectionsPerLoop


class Connection:
    def __init__(self) -> None:
        self.closed_in: asyncio.AbstractEventLoop | None = None

    async def close(self) -> None:
        self.closed_in = asyncio.get_running_loop()


def test_a_client_is_closed_in_its_own_loop_before_the_loop_ends() -> None:
    made: list[Connection] = []

    def make() -> Connection:
        made.append(Connection())
        return made[-1]

    connections = ConnectionsPerLoop(make)

    async def use() -> asyncio.AbstractEventLoop:
        assert await connections.client() is await connections.client()
        return asyncio.get_running_loop()

    loops = [asyncio.run(use()), asyncio.run(use())]
    assert [connection.closed_in for connection in made] == loops
    assert connections._open == {}


def test_a_loop_closed_carelessly_is_forgotten_at_the_next_call() -> None:
    connections = ConnectionsPerLoop(Connection)
    loop = asyncio.new_event_loop()
    abandoned = loop.run_until_complete(connections.client())
    loop.close()
    fresh = asyncio.run(connections.client())
    assert fresh is not abandoned
    assert connections._open == {}


def test_a_client_that_fails_to_close_does_not_stop_the_loop_from_ending() -> None:
    class Broken(Connection):
        async def close(self) -> None:
            raise OSError("already gone")

    assert isinstance(asyncio.run(ConnectionsPerLoop(Broken).client()), Broken)


def test_concurrent_calls_of_one_loop_get_the_same_client() -> None:
    connections = ConnectionsPerLoop(Connection)

    async def use() -> set[int]:
        return {id(client) for client in await asyncio.gather(*(connections.client() for _ in range(20)))}

    assert len(asyncio.run(use())) == 1


def test_a_client_that_cannot_be_made_leaves_nothing_behind() -> None:
    def make() -> Connection:
        raise ValueError("no key")

    connections = ConnectionsPerLoop(make)
    with pytest.raises(ValueError, match="no key"):
        asyncio.run(connections.client())
    assert connections._open == {}
