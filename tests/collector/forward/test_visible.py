"""How forwarding does is seen in the metrics, at /readyz and by `tracehold doctor`."""

import json

import httpx
import pytest
from support.otlp import chat_spans
from support.processes import wait_for
from tracehold.core.errors import ConfigurationError
from tracehold_collector.cli.app import app
from tracehold_collector.core.settings import load_settings
from typer.testing import CliRunner


def post(server, count=3):
    body = chat_spans(0, count).SerializeToString()
    headers = {"Content-Type": "application/x-protobuf"}
    assert httpx.post(f"{server.url}/v1/traces", content=body, headers=headers, trust_env=False).status_code == 200


def metrics(server):
    lines = httpx.get(f"{server.url}/metrics", trust_env=False).text.splitlines()
    return {line.split()[0]: float(line.split()[1]) for line in lines if line.startswith("tracehold_forward")}


def doctor(server):
    result = CliRunner().invoke(app, ["doctor", "--json", "--url", server.url], env={"COLUMNS": "240"})
    found = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    return {row["check"]: row for row in found}.get("forwarding")


def test_a_receiver_that_is_well_is_told_so(serve, receiver):
    server = serve(forward=receiver.url)
    post(server)
    receiver.wait_for_requests(1)
    wait_for(lambda: metrics(server)["tracehold_forward_sent_total"] == 3, what="the count of what was sent")
    told = metrics(server)
    assert told["tracehold_forward_waiting_events"] == told["tracehold_forward_behind_seconds"] == 0
    assert told["tracehold_forward_in_trouble"] == told["tracehold_forward_refused_total"] == 0
    ready = httpx.get(f"{server.url}/readyz", trust_env=False).json()
    assert ready == {"ready": True, "forward": {"trouble": None, "waiting": 0, "behind_s": 0.0}}
    assert (doctor(server)["state"], doctor(server)["detail"]) == ("ok", "nothing waits")


def test_a_receiver_in_trouble_is_told_and_makes_nobody_less_ready(serve, receiver):
    receiver.otherwise = (503, {"Retry-After": "3600"}, b"")
    server = serve(forward=receiver.url)
    post(server)
    wait_for(lambda: metrics(server)["tracehold_forward_in_trouble"] == 1, what="the trouble in the metrics")
    told = metrics(server)
    assert (told["tracehold_forward_waiting_events"], told["tracehold_forward_sent_total"]) == (3, 0)
    assert told["tracehold_forward_behind_seconds"] > 0
    answer = httpx.get(f"{server.url}/readyz", trust_env=False)
    assert (answer.status_code, answer.json()["forward"]["trouble"]) == (200, "HTTP 503")
    assert doctor(server)["state"] == "note"
    assert "nothing can be sent just now (HTTP 503); 3 events wait" in doctor(server)["detail"]


def test_doctor_tells_what_a_receiver_took_when_no_collector_runs(serve, receiver, tmp_path, monkeypatch):
    monkeypatch.setenv("TRACEHOLD_FORWARD", receiver.url)

    def told():
        arguments = ["doctor", "--json", "--data-dir", str(tmp_path / "data"), "--url", "http://127.0.0.1:1"]
        lines = CliRunner().invoke(app, arguments, env={"COLUMNS": "240"}).stdout.splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{")]
        return {row["check"]: (row["state"], row["detail"]) for row in found}["forward"]

    assert told() == ("ok", f"{receiver.url} was not served before: it gets what comes in from now on")
    server = serve()
    post(server)
    server.close()
    assert told() == ("ok", f"{receiver.url} took 3 events so far and refused 0")
    (place,) = (tmp_path / "data").glob("forward-*.json")
    place.write_text("{")
    assert told()[0] == "fault"
    monkeypatch.setenv("TRACEHOLD_FORWARD", "jaeger:4318")
    assert told() == ("fault", "the forward address is not one: give http://host:4318 or https://host/path")


def test_without_forwarding_nothing_is_said_and_nothing_kept(serve, tmp_path):
    server = serve()
    assert metrics(server) == {}
    assert httpx.get(f"{server.url}/readyz", trust_env=False).json() == {"ready": True}
    assert doctor(server) is None
    assert not list((tmp_path / "data").glob("forward*"))


def test_history_is_sent_when_the_collector_is_asked_to(serve, receiver):
    first = serve()
    post(first)
    first.close()
    serve(forward=receiver.url, forward_from="start")
    receiver.wait_for_requests(1)
    assert len(receiver.spans()) == 3


def test_a_collector_that_is_closed_has_sent_what_it_took(serve, receiver):
    server = serve(forward=receiver.url)
    post(server)
    server.close()
    assert len(receiver.spans()) == 3


@pytest.mark.parametrize("value", ["yesterday", "2026-13-01", "12"])
def test_a_time_that_is_none_is_refused_with_what_is_accepted(value, tmp_path):
    with pytest.raises(ConfigurationError, match="forward_from: give 'start', 'now', or a date"):
        load_settings(data_dir=tmp_path, forward="http://127.0.0.1:1", forward_from=value)
