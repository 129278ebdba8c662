"""Erasing by age and by policy (RET-01 to RET-12)."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from engine_parts import Echo, FaultyStore, Idle, engine_on, fact, run, types
from erasing import PLANTED, blobs_in, holding, large, log_of, text_of
from tracehold.core.outcome import OutcomeKind
from tracehold.engine import Engine, ErasureReport, PurgeReport, RetentionPolicy
from tracehold.engine import retention as retention_module
from tracehold.events import EventStore
from tracehold.events.blobs import claim

DAY = timedelta(days=1)


async def aged(engine: Engine, run_id: str, age: timedelta, *, started: timedelta | None = None, **kw: Any) -> None:
    """Store a run that was completed `age` ago, and started then or `started` ago."""
    now = datetime.now(UTC)
    data = {"algo": "echo", "input": {"q": f"{PLANTED} {run_id}"}, "parent": None, "run_tag": None, "budget": {}}
    begin = fact(run_id, f"{run_id}:started", "aaa.run.started", **data).with_(time=now - (started or age), **kw)
    end = fact(run_id, f"{run_id}:completed", "aaa.run.completed", kind="success", value=PLANTED)
    await engine.store.append(run_id, [begin, end.with_(time=now - age, **kw)])


async def left(engine: Engine, *run_ids: str) -> list[str]:
    """Return which runs still say what they said."""
    return [run_id for run_id in run_ids if PLANTED in await text_of(engine, run_id)]


class Clock:
    """A monotonic clock that a test moves on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        # Not `time.monotonic` itself: the event loop lives by it.
        monkeypatch.setattr(retention_module, "time", SimpleNamespace(monotonic=lambda: self.now))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


# RET-01
def test_a_policy_is_an_immutable_dataclass_with_the_documented_defaults() -> None:
    policy = RetentionPolicy(DAY)
    assert policy == RetentionPolicy(older_than=DAY, delete=False, tenant=None, interval_s=3600.0)
    assert [field.name for field in dataclasses.fields(policy)] == ["older_than", "delete", "tenant", "interval_s"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.delete = True  # type: ignore[misc]  # what is tested


# RET-01
def test_a_policy_without_a_tenant_is_about_every_run(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store, retention=[RetentionPolicy(DAY)]) as engine:
            await aged(engine, "a", 2 * DAY, tenant="a")
            await aged(engine, "b", 2 * DAY, tenant="b")
            await aged(engine, "none", 2 * DAY)
            assert sorted((await engine.apply_retention()).streams) == ["a", "b", "none"]
            assert await left(engine, "a", "b", "none") == []

    run(main())


# RET-02
def test_the_first_policy_that_fits_a_tenant_decides_alone(store: EventStore) -> None:
    policies = [
        RetentionPolicy(30 * DAY, tenant="slow"),
        RetentionPolicy(DAY, tenant="slow"),
        RetentionPolicy(DAY, delete=True, tenant="gone"),
        RetentionPolicy(3 * DAY),
    ]

    async def main() -> None:
        async with engine_on(store, retention=policies) as engine:
            for tenant in ("slow", "gone", "other", None):
                await aged(engine, f"young-{tenant}", 2 * DAY, tenant=tenant)
                await aged(engine, f"old-{tenant}", 9 * DAY, tenant=tenant)
            report = await engine.apply_retention()
            assert sorted(report.streams) == ["old-None", "old-gone", "old-other", "young-gone"]
            assert {one.stream: one.mode for one in report.erased}["old-gone"] == "delete"
            assert {one.stream: one.mode for one in report.erased}["old-other"] == "scrub"

    run(main())


# RET-03
def test_age_is_counted_from_completion(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await aged(engine, "long", timedelta(hours=1), started=9 * DAY)
            await aged(engine, "due", DAY + timedelta(minutes=1))
            await aged(engine, "soon", DAY - timedelta(minutes=1))
            assert (await engine.purge(older_than=DAY)).streams == ["due"]
            assert await left(engine, "long", "due", "soon") == ["long", "soon"]

    run(main())


# RET-03: an age of nothing is everything that has ended, whatever the clocks of its writers said
def test_no_age_at_all_is_every_finished_run(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await aged(engine, "ahead", -DAY)
            await aged(engine, "now", timedelta(0))
            assert sorted((await engine.purge(older_than=timedelta(0))).streams) == ["ahead", "now"]

    run(main())


# RET-04
def test_delete_selects_deletion(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store, retention=[RetentionPolicy(DAY, delete=True)]) as engine:
            await aged(engine, "r", 2 * DAY)
            assert (await engine.apply_retention()).erased == [ErasureReport("r", "delete", events=2)]
            assert await log_of(engine, "r") == []

    run(main())


# RET-05, RET-09
def test_open_runs_are_counted_and_never_erased(store: EventStore) -> None:
    policy = RetentionPolicy(timedelta(0), delete=True)

    async def main() -> None:
        async with engine_on(store, retention=[policy]) as engine:
            for tenant in ("a", "b"):
                await engine.start(Idle(), {"q": PLANTED}, run_id=tenant, tenant=tenant)
            await aged(engine, "done", DAY, tenant="a")
            report = await engine.purge(older_than=timedelta(0), tenant="a")
            assert (report.streams, report.skipped_open) == (["done"], 1)
            assert (await engine.apply_retention()).skipped_open == 2
            assert await left(engine, "a", "b") == ["a", "b"]

    run(main())


# RET-06
def test_a_policy_is_evaluated_at_most_once_an_interval(store: EventStore, clock: Clock) -> None:
    policies = [RetentionPolicy(DAY, tenant="a", interval_s=100), RetentionPolicy(DAY, interval_s=10)]

    async def main() -> None:
        async with engine_on(store, retention=policies) as engine:
            assert (await engine.apply_retention()).streams == []
            await aged(engine, "a", 2 * DAY, tenant="a")
            await aged(engine, "b", 2 * DAY, tenant="b")
            clock.now += 9.9
            assert (await engine.apply_retention()).streams == []
            clock.now += 0.1
            # The first policy decides alone about "a", also while it is not its turn.
            assert (await engine.apply_retention()).streams == ["b"]
            clock.now += 90
            assert (await engine.apply_retention()).streams == ["a"]

    run(main())


# RET-06: nothing is read when no policy is due
def test_a_pass_without_a_due_policy_does_not_list_the_runs(store: EventStore, clock: Clock) -> None:
    faulty = FaultyStore(store)

    async def main() -> None:
        async with engine_on(faulty, retention=[RetentionPolicy(DAY)]) as engine:
            await engine.apply_retention()
            count = faulty.calls["run_index"]
            await engine.apply_retention()
            assert faulty.calls["run_index"] == count

    run(main())


# RET-07
def test_a_sweep_applies_the_policies_and_reports_what_went(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store, retention=[RetentionPolicy(DAY)]) as engine:
            await aged(engine, "r", 2 * DAY)
            assert (await engine.sweep()).erased == ["r"]
            assert await left(engine, "r") == []
        async with engine_on() as without:
            await aged(without, "r", 2 * DAY)
            assert (await without.sweep()).erased == []
            assert await left(without, "r") == ["r"]

    run(main())


# RET-08
def test_a_scrubbed_run_is_passed_over_except_by_a_deletion(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await aged(engine, "r", 2 * DAY)
            assert (await engine.purge(older_than=DAY)).streams == ["r"]
            before = await log_of(engine, "r")
            assert (await engine.purge(older_than=DAY)).streams == []
            assert await log_of(engine, "r") == before
            assert (await engine.purge(older_than=DAY, delete=True)).streams == ["r"]
            assert await log_of(engine, "r") == []

    run(main())


# RET-08: a store of many erased runs is not read whole at every pass
def test_a_run_that_was_found_clean_is_not_read_again_until_it_grows(store: EventStore) -> None:
    faulty = FaultyStore(store)

    async def main() -> None:
        async with engine_on(faulty) as engine:
            await aged(engine, "r", 2 * DAY)
            await engine.purge(older_than=DAY)
            await engine.purge(older_than=DAY)
            faulty.fail("read", PermissionError("made to fail"), times=None, when=lambda stream, *_: stream == "r")
            report = await engine.purge(older_than=DAY)
            assert (report.streams, report.failed) == ([], {})
            await store.append("r", [fact("r", text=PLANTED)])
            faulty.mend()
            assert (await engine.purge(older_than=DAY)).streams == ["r"]
            assert await left(engine, "r") == []

    run(main())


# RET-09
def test_a_purge_takes_one_tenant_or_all(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            for tenant in ("a", "b", None):
                await aged(engine, str(tenant), 2 * DAY, tenant=tenant)
            assert (await engine.purge(older_than=DAY, tenant="b")).streams == ["b"]
            assert sorted((await engine.purge(older_than=DAY)).streams) == ["None", "a"]

    run(main())


# RET-09, ERA-06
def test_a_purge_tells_its_reason_to_the_marker(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store, retention=[RetentionPolicy(DAY, tenant="a")]) as engine:
            await aged(engine, "a", 2 * DAY, tenant="a")
            await aged(engine, "b", 2 * DAY)
            await engine.apply_retention()
            await engine.purge(older_than=DAY, reason="request 17")
            assert (await log_of(engine, "a"))[-1].data["reason"] == "retention"
            assert (await log_of(engine, "b"))[-1].data["reason"] == "request 17"

    run(main())


# RET-10
def test_the_report_holds_one_erasure_report_a_run(store: EventStore) -> None:
    assert PurgeReport() == PurgeReport(erased=[], skipped_open=0, memory=None)

    async def main() -> None:
        async with engine_on(store) as engine:
            for name in "xyz":
                await aged(engine, name, 2 * DAY)
            report = await engine.purge(older_than=DAY)
            assert report.erased == [ErasureReport(name, "scrub", events=2) for name in "xyz"]
            assert report.streams == ["x", "y", "z"]
            assert report.memory is None

    run(main())


class Stubborn(FaultyStore):
    """Cannot scrub one stream."""

    stream: str | None = "bad"

    async def scrub(self, stream: str) -> int:
        if stream == self.stream:
            raise PermissionError("made to fail")
        return await super().scrub(stream)


# RET-11
def test_a_run_that_cannot_be_erased_stops_no_other_and_is_tried_again(store: EventStore, clock: Clock) -> None:
    policies = [RetentionPolicy(DAY, tenant="t"), RetentionPolicy(DAY)]
    stubborn = Stubborn(store)

    async def main() -> None:
        async with engine_on(stubborn, retention=policies) as engine:
            await aged(engine, "good-1", 2 * DAY, tenant="t")
            await aged(engine, "bad", 2 * DAY, tenant="t")
            await aged(engine, "good-2", 2 * DAY, tenant="t")
            report = await engine.apply_retention()
            assert (report.streams, report.failed) == (["good-1", "good-2"], {"bad": "PermissionError"})
            await aged(engine, "of-the-other", 2 * DAY)
            stubborn.stream = None
            # The pass that failed does not count for the interval; the policy that did well has had its turn.
            report = await engine.apply_retention()
            assert (report.streams, report.failed) == (["bad"], {})
            clock.now += 3600
            assert (await engine.apply_retention()).streams == ["of-the-other"]

    run(main())


# RET-11
def test_a_pass_that_could_not_list_the_runs_does_not_count_as_done(store: EventStore, clock: Clock) -> None:
    faulty = FaultyStore(store)

    async def main() -> None:
        async with engine_on(faulty, retention=[RetentionPolicy(DAY)]) as engine:
            await aged(engine, "r", 2 * DAY)
            faulty.fail("run_index", PermissionError("made to fail"))
            with pytest.raises(PermissionError):
                await engine.apply_retention()
            assert clock.now == 1000.0
            assert (await engine.apply_retention()).streams == ["r"]

    run(main())


# RET-11: two processes purge at once; that the other one was first is no failure
def test_a_run_that_another_pass_deleted_meanwhile_is_no_failure(shared: Callable[[], EventStore]) -> None:
    async def main() -> None:
        async with engine_on(shared()) as here, engine_on(shared()) as there:
            for n in range(6):
                await aged(here, f"r{n}", 2 * DAY)
            reports = await asyncio.gather(
                *(engine.purge(older_than=DAY, delete=True) for engine in (here, there, here))
            )
            assert [report.failed for report in reports] == [{}, {}, {}]
            assert await here.store.run_index() == []

    run(main())


# RET-12
@pytest.mark.parametrize("size", [1, 20_000], ids=["in-log", "in-blob"])
def test_data_that_came_after_the_erasure_is_caught_by_the_next_purge(
    store: EventStore, tmp_path: Any, size: int
) -> None:
    async def main() -> None:
        async with engine_on(store, blobs=blobs_in(tmp_path)) as engine:
            await aged(engine, "r", 2 * DAY)
            await engine.purge(older_than=DAY)
            await engine.emit(fact("r", text=PLANTED + "-" * size))
            assert (await engine.purge(older_than=DAY)).streams == ["r"]
            assert await left(engine, "r") == []
            assert holding(tmp_path / "blobs") == []
            # And then it is clean again: RET-08, ERA-07.
            assert (await engine.purge(older_than=DAY)).streams == []
            assert types(await log_of(engine, "r")).count("aaa.run.erased") == 1

    run(main())


# RET-12: a payload that looks erased is one all the same
def test_late_data_that_calls_itself_erased_is_caught_too(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await aged(engine, "r", 2 * DAY)
            await engine.purge(older_than=DAY)
            await engine.emit(fact("r", **{"$erased": True, "text": PLANTED}))
            await engine.emit(fact("r", None, "aaa.run.erased", text=PLANTED))
            assert (await engine.purge(older_than=DAY)).streams == ["r"]
            assert await left(engine, "r") == []

    run(main())


# RET-12, ERA-12: also a blob whose event never came
def test_a_blob_that_came_after_the_erasure_is_caught(store: EventStore, tmp_path: Any) -> None:
    async def main() -> None:
        blobs = blobs_in(tmp_path)
        async with engine_on(store, blobs=blobs) as engine:
            await aged(engine, "r", 2 * DAY)
            await engine.purge(older_than=DAY)
            await claim(fact("r", text=large()), blobs, 100)
            assert [one.blobs for one in (await engine.purge(older_than=DAY)).erased] == [1]
            assert holding(tmp_path / "blobs") == []

    run(main())


# RET-12: erased by force while it was open
def test_a_run_that_was_scrubbed_while_open_is_erased_again_when_it_is_due(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.start(Echo(), {}, run_id="other")
            await engine.start(Idle(), {"q": PLANTED}, run_id="r")
            await engine.erase("r", force=True)
            await engine.complete("r", OutcomeKind.SUCCESS, PLANTED)
            await engine.purge(older_than=timedelta(0))
            assert await left(engine, "r") == []

    run(main())


# RET-12: a handler that was at work while its run was deleted brings nothing back
def test_what_a_handler_emits_for_a_deleted_run_does_not_stay(store: EventStore) -> None:
    async def main() -> None:
        entered, release = asyncio.Event(), asyncio.Event()

        async def late(event: Any) -> Any:
            entered.set()
            await release.wait()
            return [event.caused("my.note", {"text": PLANTED})]

        async with engine_on(store) as engine:
            engine.subscribe("aaa.run.completed", late)
            await engine.run(Echo(), {}, run_id="r")
            await entered.wait()
            await engine.erase("r", delete=True)
            release.set()
            await engine.bus.drain()
            await engine.purge(older_than=timedelta(0))
            assert await left(engine, "r") == []

    run(main())
