"""What waits to be forwarded survives whatever happens to the process and to the receiver."""

import json
import stat
from datetime import UTC, datetime, timedelta

import pytest
import structlog.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.processes import wait_for
from tracehold.core.errors import ConfigurationError
from tracehold_collector.core.errors import StoreError
from tracehold_collector.forward import Forwarder
from tracehold_collector.forward.backoff import Backoff
from tracehold_collector.store.database import FILE_NAME, Database
from tracehold_collector.store.writer import Writer

GONE = (503, {}, b"")


def numbers(spans):
    return sorted(int.from_bytes(span.span_id, "big") for span in spans)


def place_file(folder):
    (found,) = folder.glob("forward-*.json")
    return found


def test_a_new_receiver_gets_what_comes_from_then_on(receiver, forwarder_to, commit, make_record):
    commit([make_record(1)])
    forwarder = forwarder_to(receiver.url)
    commit([make_record(2)])
    assert forwarder.force_flush(20)
    assert numbers(receiver.spans()) == [2]


def test_what_comes_between_the_making_and_the_start_counts_as_new(receiver, forwarder_to, commit, make_record):
    forwarder = forwarder_to(receiver.url, start=False)
    commit([make_record(1)])
    forwarder.start()
    assert forwarder.force_flush(20)
    assert numbers(receiver.spans()) == [1]


@pytest.mark.parametrize(
    ("since", "expected"),
    [("start", [1, 2]), ("now", [2]), ("1970-01-01", [1, 2]), ("2200-01-01T00:00:00+02:00", [2])],
)
def test_history_goes_out_when_asked_for(receiver, forwarder_to, commit, make_record, since, expected):
    commit([make_record(1)])
    forwarder = forwarder_to(receiver.url, since=since)
    commit([make_record(2)])
    assert forwarder.force_flush(20)
    assert numbers(receiver.spans()) == expected


def test_a_time_means_when_an_event_came_in(receiver, forwarder_to, commit, make_record, database):
    commit([make_record(1)])
    commit([make_record(2)])
    moments = [datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC)]
    for number, moment in enumerate(moments, 1):
        with database.cursor() as cursor:
            cursor.execute(
                "UPDATE events SET received_at = ? WHERE span_id = ?",
                [int(moment.timestamp()) * 10**9, f"{number:016x}"],
            )
    forwarder = forwarder_to(receiver.url, since="2026-11-02")
    assert forwarder.force_flush(20)
    assert numbers(receiver.spans()) == [2]


def test_a_wish_is_granted_once_and_a_new_one_again(receiver, forwarder_to, commit, make_record):
    """It may stand in a file of settings, so that each start asks for it."""
    commit([make_record(1)])
    for since in ("start", "start", None, "1970-01-01", "1970-01-01"):
        forwarder = forwarder_to(receiver.url, since=since)
        assert forwarder.force_flush(20)
        forwarder.close()
    assert numbers(receiver.spans()) == [1, 1]


def test_a_wish_that_is_none_is_refused(receiver, forwarder_to):
    with pytest.raises(ConfigurationError, match="cannot forward from 'yesterday'"):
        forwarder_to(receiver.url, since="yesterday")


def test_a_restart_goes_on_where_the_receiver_had_got_to(receiver, forwarder_to, commit, make_record):
    receiver.script, receiver.otherwise = [(200, {}, b"")], GONE
    first = forwarder_to(receiver.url, start=False, max_batch_records=2)
    commit([make_record(number, run_id=f"run-{number}") for number in range(1, 6)])
    first.start()
    wait_for(lambda: first.status().retries > 1)
    assert first.close(20) is False
    assert first.status().sent == 2
    receiver.otherwise = (200, {}, b"")
    second = forwarder_to(receiver.url, max_batch_records=2)
    assert second.force_flush(20)
    assert numbers(receiver.taken_spans()) == [1, 2, 3, 4, 5]
    assert (second.status().sent, second.status().waiting) == (5, 0)


def test_totals_go_on_across_restarts(receiver, forwarder_to, commit, make_record):
    receiver.script = [(400, {}, b""), (200, {}, b"")]
    for number in (1, 2):
        forwarder = forwarder_to(receiver.url)
        commit([make_record(number), make_record(number + 10, status="started")])
        assert forwarder.force_flush(20)
        forwarder.close()
    status = forwarder.status()
    assert (status.sent, status.refused, status.skipped) == (1, 1, 2)


def test_a_killed_process_sends_again_what_it_had_no_time_to_note(receiver, forwarder_to, commit, make_record):
    """At least once: the receiver took it, and we do not know."""
    killed = forwarder_to(receiver.url, save_every_s=3600)
    commit([make_record(1)])
    assert killed.force_flush(20)
    after = forwarder_to(receiver.url)
    assert after.force_flush(20)
    assert numbers(receiver.spans()) == [1, 1]


def test_the_place_is_written_now_and_then_also_while_nothing_comes(
    receiver, forwarder_to, commit, make_record, tmp_path
):
    forwarder = forwarder_to(receiver.url, save_every_s=0.2)
    commit([make_record(1)])
    assert forwarder.force_flush(20)
    wait_for(lambda: json.loads(place_file(tmp_path).read_text())["sent"] == 1, what="the place on disk")


def test_an_answer_that_comes_after_the_end_is_not_noted(receiver, forwarder_to, commit, make_record, tmp_path):
    """Another process may have the file by then."""
    receiver.hold()
    forwarder = forwarder_to(receiver.url, timeout_s=60)
    commit([make_record(1)])
    forwarder.wake()
    receiver.wait_for_requests(1)
    assert forwarder.close(0.1) is False
    before = place_file(tmp_path).read_bytes()
    receiver.release()
    forwarder._thread.join(20)
    assert place_file(tmp_path).read_bytes() == before


def test_each_receiver_has_a_place_of_its_own(receiver, forwarder_to, commit, make_record, serve_on, make_receiver):
    first = forwarder_to(receiver.url)
    commit([make_record(1)])
    assert first.force_flush(20)
    first.close()
    with serve_on(make_receiver()) as other:
        second = forwarder_to(other.url)
        commit([make_record(2)])
        assert second.force_flush(20)
        second.close()
    back = forwarder_to(receiver.url)
    assert back.force_flush(20)
    assert (numbers(receiver.spans()), numbers(other.spans())) == ([1, 2], [2])


def test_a_new_credential_is_no_new_receiver(receiver, forwarder_to, commit, make_record, tmp_path):
    for number, query in enumerate(("?token=a", "/v1/traces?token=b"), 1):
        forwarder = forwarder_to(receiver.url + query, headers={"Authorization": f"Bearer {number}"})
        assert forwarder.force_flush(20)
        forwarder.close()
    assert place_file(tmp_path)


def test_the_place_is_its_owner_s_alone(receiver, forwarder_to, tmp_path):
    forwarder_to(receiver.url)
    assert stat.S_IMODE(place_file(tmp_path).stat().st_mode) == 0o600


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"version": 2}', "\xff\xfe"])
def test_a_place_that_cannot_be_read_is_said_and_not_guessed(
    receiver, forwarder_to, commit, make_record, tmp_path, damage
):
    forwarder_to(receiver.url).close()
    place_file(tmp_path).write_bytes(damage.encode("latin-1"))
    with pytest.raises(StoreError, match="Restore it from a backup, or remove it"):
        forwarder_to(receiver.url)


def test_a_place_that_cannot_be_written_stops_nothing(receiver, forwarder_to, commit, make_record, tmp_path):
    forwarder = forwarder_to(receiver.url)
    place_file(tmp_path).unlink()
    # A folder in its place: as root, as tests may run, no permission would be missing.
    blocked = tmp_path / forwarder._books.now().path.name
    blocked.mkdir()
    (blocked / "x").touch()
    with structlog.testing.capture_logs() as logs:
        for number in (1, 2):
            commit([make_record(number)])
            assert forwarder.force_flush(20)
        forwarder.close()
    assert numbers(receiver.spans()) == [1, 2]
    assert [log["event"] for log in logs if log["log_level"] == "error"] == ["forward.place_not_saved"]
    assert not list(tmp_path.glob(".forward-*"))


def test_an_older_store_put_back_hides_nothing_new(receiver, forwarder_to, commit, make_record, tmp_path):
    """A place beyond all that is stored says nothing about what comes next."""
    forwarder_to(receiver.url).close()
    saved = json.loads(place_file(tmp_path).read_text())
    ahead = int((datetime.now(UTC) + timedelta(days=365)).timestamp()) * 10**9
    place_file(tmp_path).write_text(json.dumps({**saved, "received_at": ahead}))
    forwarder = forwarder_to(receiver.url)
    commit([make_record(1)])
    assert forwarder.force_flush(20)
    assert numbers(receiver.spans()) == [1]


ANSWERS = st.sampled_from(["ok", "later", "bad", "partial", "cut", "too_large", "unwelcome"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.integers(1, 7)),
        st.tuples(st.just("answers"), st.lists(ANSWERS, min_size=1, max_size=6)),
        st.tuples(st.just("flush"), st.none()),
        st.tuples(st.just("restart"), st.none()),
        st.tuples(st.just("kill"), st.none()),
    ),
    max_size=12,
)


class Scene:
    """A store and its forwarder, which may be closed or left behind and made anew."""

    def __init__(self, folder, url):
        self.folder, self.url = folder, url
        self.database = Database(folder / FILE_NAME)
        self.writer = Writer(self.database)
        self.left = []
        self.forwarder = self.make()

    def make(self):
        made = Forwarder(
            self.database,
            self.folder,
            self.url,
            max_batch_records=3,
            timeout_s=5.0,
            gather_s=0.0,
            # Never but at the end: whoever is killed has saved nothing.
            save_every_s=3600.0,
            backoff=Backoff(0.0001, 0.0002),
        )
        made.start()
        return made

    def restart(self):
        self.forwarder.close(5)
        self.forwarder = self.make()

    def kill(self):
        """As a process that is gone: it sends nothing more and writes nothing more."""
        self.forwarder._books._closed = True
        self.forwarder.close(5)
        self.forwarder = self.make()

    def close(self):
        self.forwarder.close(5)
        self.writer.close()
        self.database.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=STEPS)
def test_whatever_happens_each_record_arrives_or_is_counted(steps, receiver, make_record, rejecting, tmp_path_factory):
    answers = {
        "ok": (200, {}, b""),
        "later": (503, {"Retry-After": "0"}, b""),
        "bad": (400, {}, b""),
        "partial": (200, {}, rejecting(1)),
        "cut": None,
        "too_large": (413, {}, b""),
        "unwelcome": (500, {}, b""),
    }
    receiver.script.clear()
    receiver.requests.clear()
    receiver.taken.clear()
    scene = Scene(tmp_path_factory.mktemp("scene"), receiver.url)
    forwardable = set()
    try:
        made = 0
        for what, value in steps:
            if what == "commit":
                new = [make_record(made + 1 + place, run_id=f"run-{place % 2}") for place in range(value)]
                new[0].status = "started"
                made += value
                scene.writer.submit(new).result(20)
                scene.forwarder.wake()
                forwardable |= {int(record.span_id, 16) for record in new[1:]}
            elif what == "answers":
                receiver.script.extend(answers[name] for name in value)
            elif what == "flush":
                scene.forwarder.force_flush(20)
            elif what == "restart":
                scene.restart()
            else:
                scene.kill()
        assert scene.forwarder.force_flush(20)
        status = scene.forwarder.status()
        assert set(numbers(receiver.spans())) == forwardable  # what was refused was shown to it, too
        assert status.sent + status.refused == len(forwardable)
        assert status.waiting == 0
        assert len(forwardable - set(numbers(receiver.taken_spans()))) <= status.refused
    finally:
        scene.close()
