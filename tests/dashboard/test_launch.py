"""How the dashboard's process is started, and that it starts."""

from __future__ import annotations

import socket
import subprocess
import sys
import time

import httpx
import pytest
from tracehold_dashboard import launch, settings


def test_the_command_listens_where_it_is_told_and_reports_nothing_to_anybody():
    command = launch.command("127.0.0.1", 8501, "http://127.0.0.1:4318")
    assert command[:4] == [sys.executable, "-m", "tracehold_dashboard.child", "run"]
    assert {
        "--server.address=127.0.0.1",
        "--server.port=8501",
        "--server.headless=true",
        "--server.fileWatcherType=none",
        "--browser.gatherUsageStats=false",
        "--client.toolbarMode=minimal",
        "--client.showErrorDetails=none",
    } <= set(command)


def test_the_address_travels_in_the_environment_and_a_wrong_one_stops_the_start():
    assert launch.environment("http://x:1", {"A": "b"}) == {"A": "b", "TRACEHOLD_URL": "http://x:1"}
    with pytest.raises(ValueError, match="TRACEHOLD_URL must be an address such as"):
        launch.command("127.0.0.1", 8501, "localhost:4318")


def test_settings_come_from_the_environment_and_hide_the_key():
    key = "k" * 8
    found = settings.load({"TRACEHOLD_URL": "https://collector.example/", "TRACEHOLD_API_KEY": f" {key} "})
    assert (found.url, found.api_key, found.is_loopback) == ("https://collector.example", key, False)
    assert key not in repr(found)
    assert settings.load({}).url == "http://127.0.0.1:4318"


def test_the_process_comes_up_and_serves_the_page():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        launch.command("127.0.0.1", port),
        env=launch.environment("http://127.0.0.1:9"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while not answers(port):
            assert process.poll() is None, f"the dashboard ended with status {process.returncode}"
            assert time.monotonic() < deadline, "the dashboard did not come up within 60 s"
        assert "text/html" in httpx.get(f"http://127.0.0.1:{port}/", trust_env=False).headers["content-type"]
    finally:
        process.terminate()
        process.wait(timeout=20)


def answers(port):
    """Ask once; a refused connection comes back at once, so pause with the connection's own timeout."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}/_stcore/health", timeout=2, trust_env=False).is_success
    except httpx.TransportError:
        time.sleep(0.05)
        return False
