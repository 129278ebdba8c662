"""What a caller sees: queueing, batches, answers, flush and close, against a real socket."""

from __future__ import annotations

import json
import logging
import math
import threading

import pytest
from tracehold.core.errors import ConfigurationError, ExporterError
from tracehold.observability.exporters.collector import CollectorExporter


def test_an_exported_event_reaches_the_collector_as_it_was(make_exporter, collector, event):
    exporter = make_exporter()
    sent = event(input="Grüße", usage={"total_tokens": 3})
    exporter.export(sent)
    assert exporter.force_flush(30)
    assert {sent["event_id"]: sent} == collector.stored
    assert collector.arrivals[0].path == "/v1/events"
    assert collector.arrivals[0].headers["Content-Type"] == "application/x-ndjson"


def test_it_accepts_content():  # DEC-15
    assert CollectorExporter.accepts_content is True


def test_an_event_without_an_id_leaves_with_one(make_exporter, collector, event):
    exporter = make_exporter()
    bare = event()
    del bare["event_id"]
    exporter.export(bare)
    assert exporter.force_flush(30)
    (event_id,) = collector.stored
    assert len(event_id) == 32
    assert "event_id" not in bare  # TRC-23


def test_a_change_of_the_event_after_export_is_not_sent(make_exporter, collector, event):
    exporter = make_exporter()
    changing = event(name="before")
    exporter.export(changing)
    changing["name"] = "after"
    assert exporter.force_flush(30)
    assert collector.stored[changing["event_id"]]["name"] == "before"


def test_events_leave_without_a_flush(make_exporter, collector, event):
    make_exporter(schedule_delay_s=0.01).export(event())
    collector.wait_for_stored(1)


@pytest.mark.parametrize("trouble", ["none", "closed port", "no answer"])
def test_a_burst_of_20_000_events_arrives_whole(make_exporter, collector, event, play, trouble):  # DEC-11
    if trouble == "closed port":
        collector.stop()
    elif trouble == "no answer":
        collector.play(play(hang=True))
    exporter = make_exporter()
    events = [event(number=number) for number in range(20_000)]
    for each in events:
        exporter.export(each)
    assert exporter.dropped == 0
    if trouble == "closed port":
        collector.start()
    collector.release()
    assert exporter.force_flush(60)
    assert {each["event_id"] for each in events} == set(collector.stored)
    assert max(len(arrival.events) for arrival in collector.arrivals) <= 512


def test_many_threads_may_export_at_once(make_exporter, collector, event):
    exporter = make_exporter()

    def work() -> None:
        for _ in range(500):
            exporter.export(event())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert exporter.force_flush(60)
    assert len(collector.stored) == 4_000
    assert exporter.stats()["sent"] == 4_000
    assert exporter.stats()["queued"] == 0


def test_requests_keep_to_the_byte_limit_and_a_larger_event_goes_alone(make_exporter, collector, event):
    exporter = make_exporter(max_batch_bytes=10_000, schedule_delay_s=60.0)
    for size in (100, 4_000, 20_000, 100, 100):
        exporter.export(event(input="x" * size))
    assert exporter.force_flush(30)
    assert len(collector.stored) == 5
    sizes = [sum(len(json.dumps(each)) for each in arrival.events) for arrival in collector.arrivals]
    assert all(
        size < 10_100 or len(arrival.events) == 1 for size, arrival in zip(sizes, collector.arrivals, strict=True)
    )


def test_one_connection_serves_many_requests(make_exporter, collector, event):
    exporter = make_exporter()
    for _ in range(5):
        exporter.export(event())
        assert exporter.force_flush(30)
    assert len(collector.arrivals) == 5
    assert collector.connections == 1


def test_a_connection_closed_while_idle_is_replaced_without_a_failure(make_exporter, collector, event, play):
    collector.play(play(store=True, close=True))
    exporter = make_exporter()
    for _ in range(2):
        exporter.export(event())
        assert exporter.force_flush(30)
    assert collector.connections == 2
    assert exporter.stats()["retries"] == 0


def test_a_proxy_of_the_environment_is_asked_for_the_whole_url(make_exporter, collector, event, monkeypatch):
    monkeypatch.setenv("http_proxy", collector.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    exporter = make_exporter(url="http://collector.invalid:4318/prefix")
    exporter.export(event())
    assert exporter.force_flush(30)
    assert collector.arrivals[0].path == "http://collector.invalid:4318/prefix/v1/events"
    assert collector.arrivals[0].headers["Host"] == "collector.invalid:4318"


def test_a_server_without_tls_gets_no_event_meant_for_tls(make_exporter, collector, event):
    exporter = make_exporter(url=collector.url.replace("http:", "https:"))
    exporter.export(event())
    assert not exporter.force_flush(0.5)
    exporter.close()
    assert exporter.stats()["last_error"] == "SSLError"
    assert exporter.stats()["spooled"] == 1
    assert not collector.arrivals


@pytest.mark.parametrize("compress", [True, False])
def test_large_requests_are_compressed_when_asked(make_exporter, collector, event, compress):
    exporter = make_exporter(compress=compress)
    exporter.export(event(input="x" * 10_000))
    assert exporter.force_flush(30)
    assert collector.arrivals[0].headers.get("Content-Encoding") == ("gzip" if compress else None)
    assert len(collector.stored) == 1


def test_the_key_is_sent_and_shown_nowhere(make_exporter, collector, event, play, caplog):
    key = "made" + "-up-" + "key"
    exporter = make_exporter(api_key=key)
    collector.play(play(status=401))
    exporter.export(event())
    assert not exporter.force_flush(5)
    assert collector.arrivals[0].headers["Authorization"] == f"Bearer {key}"
    exporter.close()
    assert key not in caplog.text + repr(exporter) + str(exporter.stats()) + str(exporter.spool_path)


def test_rejected_events_are_counted_and_not_sent_again(make_exporter, collector, event, caplog):  # FR-05
    collector.refuse = lambda each: each["type"] == "odd"
    exporter = make_exporter()
    for kind in ("llm_call", "odd", "llm_call"):
        exporter.export(event(type=kind, input="private words"))
    assert exporter.force_flush(30)
    assert len(collector.arrivals) == 1
    assert (exporter.stats()["sent"], exporter.stats()["rejected"], exporter.dropped) == (2, 1, 1)
    assert "private words" not in caplog.text
    assert "refused 1 of 3 events (HTTP 200), the first because: line 2: refused." in caplog.text


@pytest.mark.parametrize("status", [400, 413, 422])
def test_one_bad_event_does_not_take_its_neighbours_down(make_exporter, collector, event, play, status):  # FR-05
    collector.break_on = lambda events: play(status=status) if any(each["type"] == "bad" for each in events) else None
    exporter = make_exporter(schedule_delay_s=60.0)
    for number in range(20):
        exporter.export(event(type="bad" if number == 7 else "good"))
    assert exporter.force_flush(30)
    assert len(collector.stored) == 19
    assert exporter.stats()["rejected"] == 1
    alone = [arrival for arrival in collector.arrivals if [each["type"] for each in arrival.events] == ["bad"]]
    assert len(alone) == 1  # a 400 is not repeated


def test_a_refused_coding_is_replaced_by_plain_text(make_exporter, collector, event, play):
    collector.play(play(status=415))
    exporter = make_exporter()
    exporter.export(event(input="x" * 5_000))
    assert exporter.force_flush(30)
    assert [arrival.headers.get("Content-Encoding") for arrival in collector.arrivals] == ["gzip", None]
    assert len(collector.stored) == 1


@pytest.mark.parametrize("status", [301, 401, 403, 404])
def test_a_fault_of_the_setup_is_said_once_and_loses_nothing(make_exporter, collector, event, play, caplog, status):
    collector.play(play(status=status), play(status=status))
    exporter = make_exporter()
    exporter.export(event(input="private words"))
    assert not exporter.force_flush(5)
    assert not exporter.force_flush(5)
    assert len(collector.arrivals) == 2
    assert exporter.force_flush(30)
    assert len(collector.stored) == 1
    assert len(caplog.records) == 1
    assert f"HTTP {status}" in caplog.text
    assert "private words" not in caplog.text


@pytest.mark.parametrize("body", [b"<html>Please log in</html>", b"[]", b'{"ok": true}'])
def test_a_server_that_is_no_collector_swallows_no_events(make_exporter, collector, event, play, body):
    collector.play(play(body=body))
    exporter = make_exporter()
    exporter.export(event())
    assert not exporter.force_flush(5)
    assert exporter.stats()["last_error"] == "not a Tracehold collector"
    assert exporter.force_flush(30)
    assert len(collector.stored) == 1


def test_an_answer_cut_in_the_middle_is_a_reason_to_send_again(make_exporter, collector, event, play):
    collector.play(play(cut=True, store=True))
    exporter = make_exporter()
    exporter.export(event())
    assert exporter.force_flush(30)
    assert len(collector.stored) == 1
    assert collector.duplicates == 1
    assert exporter.stats()["duplicates"] == 1


def test_a_restart_of_the_collector_loses_nothing(make_exporter, collector, event):
    exporter = make_exporter(schedule_delay_s=0.001)
    exporter.export(event())
    collector.wait_for_stored(1)
    collector.stop()
    for _ in range(1_000):
        exporter.export(event())
    assert not exporter.force_flush(0.2)
    collector.start()
    assert exporter.force_flush(30)
    assert len(collector.stored) == 1_001
    assert exporter.dropped == 0


def test_memory_half_full_moves_to_disk_and_comes_back(make_exporter, collector, event, eventually):
    collector.stop()
    exporter = make_exporter(max_queue=1_000, max_batch=50)
    for start in range(0, 3_000, 300):
        for _ in range(300):
            exporter.export(event(number=start))
        exporter.force_flush(0.0)
        eventually(lambda: exporter.stats()["queued"] <= 500)
    assert exporter.dropped == 0
    assert exporter.stats()["spooled"] >= 2_000
    assert exporter.stats()["queued"] <= 1_000
    collector.start()
    assert exporter.force_flush(60)
    assert len(collector.stored) == 3_000
    assert not list(exporter.spool_path.iterdir())


def test_what_fits_nowhere_is_counted_and_said_once(make_exporter, collector, event, caplog):  # DEC-11, TRC-18
    collector.stop()
    exporter = make_exporter(max_queue=100, spool_max_bytes=1_000)
    for _ in range(500):
        exporter.export(event())
    exporter.close()
    stats = exporter.stats()
    assert stats["queued"] == 0
    assert exporter.dropped == 500 - stats["spooled"]
    assert exporter.dropped > 0
    assert len({record.msg for record in caplog.records}) == len(caplog.records)
    assert any("dropped" in record.msg for record in caplog.records)


def test_a_spool_that_cannot_be_written_stops_nothing(make_exporter, collector, event, spool_dir):
    spool_dir.write_text("a file where the folder should be")
    collector.stop()
    exporter = make_exporter(max_queue=100)
    for _ in range(80):
        exporter.export(event())
    assert not exporter.force_flush(0.2)
    collector.start()
    assert exporter.force_flush(30)
    assert len(collector.stored) == 80


def test_a_flush_returns_when_the_collector_hangs(make_exporter, collector, event, play):  # FR-03
    collector.play(play(hang=True))
    exporter = make_exporter()
    exporter.export(event())
    assert not exporter.force_flush(0.1)
    collector.release()
    assert exporter.force_flush(30)


def test_a_flush_of_nothing_is_done_at_once(make_exporter):
    assert make_exporter().force_flush(30)


@pytest.mark.parametrize("count", [1, 2_000])
def test_closing_while_the_collector_hangs_keeps_all_events(make_exporter, collector, event, play, count):  # FR-03
    collector.play(play(hang=True))
    exporter = make_exporter(shutdown_timeout_s=0.4)
    for _ in range(count):
        exporter.export(event())
    collector.wait_for(lambda each: each.arrivals)
    exporter.close()
    assert exporter.dropped == 0
    assert exporter.stats()["queued"] == 0
    collector.release()
    following = make_exporter()
    assert following.force_flush(30)
    assert len(collector.stored) == count


@pytest.mark.parametrize("count", [1, 2_000])
def test_closing_while_nothing_listens_keeps_all_events(make_exporter, collector, event, count):  # FR-03
    collector.stop()
    exporter = make_exporter()
    for _ in range(count):
        exporter.export(event())
    exporter.close()
    exporter.close()
    assert exporter.dropped == 0
    collector.start()
    following = make_exporter()
    following.export(event())
    assert following.force_flush(30)
    assert len(collector.stored) == count + 1


def test_close_sends_what_waits(make_exporter, collector, event):
    exporter = make_exporter(schedule_delay_s=3_600.0)
    for _ in range(1_500):
        exporter.export(event())
    exporter.close()
    assert len(collector.stored) == 1_500
    assert not exporter.spool_path.exists()


def test_a_closed_exporter_refuses_events_and_says_so(make_exporter, event):
    exporter = make_exporter()
    exporter.close()
    with pytest.raises(ExporterError, match="closed"):
        exporter.export(event())
    assert not exporter.force_flush(0.1)


def test_two_threads_may_close_at_once(make_exporter, collector, event):
    exporter = make_exporter(schedule_delay_s=3_600.0)
    for _ in range(100):
        exporter.export(event())
    threads = [threading.Thread(target=exporter.close) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert exporter.stats()["queued"] == 0
    following = make_exporter()
    assert following.force_flush(30)
    assert len(collector.stored) == 100


def test_a_thread_that_died_is_started_again_by_the_next_event(make_exporter, collector, event, eventually, caplog):
    exporter = make_exporter()
    worker = exporter._worker
    healthy, worker._protect = worker._protect, lambda: 1 / 0
    exporter.export(event())
    eventually(lambda: not worker.running)
    exporter.export(event())
    eventually(lambda: exporter.stats()["restarts"] == 2)
    worker._protect = healthy
    exporter.export(event())
    assert exporter.force_flush(30)
    assert len(collector.stored) == 3
    assert ["ZeroDivisionError" in record.getMessage() for record in caplog.records] == [True]


def test_two_keys_never_share_a_spool(make_exporter, collector, event):
    collector.stop()
    first = make_exporter(api_key="first")
    first.export(event())
    first.close()
    collector.start()
    second = make_exporter(api_key="second")
    second.export(event())
    assert second.force_flush(30)
    assert len(collector.stored) == 1
    again = make_exporter(api_key="first")
    assert again.force_flush(30)
    assert len(collector.stored) == 2
    assert collector.arrivals[-1].headers["Authorization"] == "Bearer first"


def test_a_log_handler_that_traces_does_not_hang_the_exporter(make_exporter, collector, event, play):
    exporter = make_exporter()

    class Tracing(logging.Handler):
        def emit(self, _record: logging.LogRecord) -> None:
            exporter.export(event(type="log"))

    handler = Tracing()
    logger = logging.getLogger("tracehold")
    logger.addHandler(handler)
    try:
        collector.play(play(status=403))
        exporter.export(event())
        exporter.force_flush(5)
        assert exporter.force_flush(30)
    finally:
        logger.removeHandler(handler)
    assert len(collector.stored) == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_queue": 0, "timeout_s": -1.0}, "max_queue=0, timeout_s=-1.0"),
        ({"schedule_delay_s": math.nan}, "schedule_delay_s=nan"),
        ({"max_batch": True}, "max_batch=True"),
    ],
)
def test_all_wrong_numbers_are_named_in_one_message(settings, message):
    with pytest.raises(ConfigurationError, match=message):
        CollectorExporter("http://127.0.0.1:1", **settings)
