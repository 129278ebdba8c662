"""The demo as a newcomer sees it: one command, then every page in a real browser."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from support.processes import COMMAND, clean_environment, free_port, wait_for

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.timeout(240)]

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("demo")
    port, dashboard_port = free_port(), free_port()
    arguments = [
        COMMAND,
        "demo",
        "--port",
        str(port),
        "--dashboard-port",
        str(dashboard_port),
        "--data-dir",
        str(folder / "store"),
    ]
    log = folder / "demo.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            arguments, stdout=output, stderr=output, env=clean_environment(), start_new_session=True
        )
    try:
        wait_for(
            lambda: "stop with Ctrl-C" in log.read_text() or process.poll() is not None, within_s=120, what="the demo"
        )
        assert process.poll() is None, log.read_text()
        yield f"http://127.0.0.1:{dashboard_port}"
    finally:
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(timeout=60) in {0, 130}, log.read_text()


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser, demo: str) -> Iterator[Page]:
    opened = browser.new_page(viewport={"width": 1400, "height": 1000})
    opened.set_default_timeout(30_000)
    expect.set_options(timeout=30_000)
    opened.goto(demo)
    yield opened
    folder = os.environ.get("TRACEHOLD_SCREENSHOTS")
    if folder:
        opened.screenshot(
            path=str(Path(folder) / f"{opened.url.rstrip('/').rpartition('/')[2].partition('?')[0]}.png"),
            full_page=True,
        )
    opened.close()


def open_page(page: Page, demo: str, path: str) -> None:
    page.goto(f"{demo}/{path}")
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")


def no_exception(page: Page) -> None:
    expect(page.get_by_test_id("stException")).to_have_count(0)


def test_the_overview_shows_runs_denials_and_spend(page: Page, demo: str) -> None:
    open_page(page, demo, "")
    expect(page.locator("body")).to_contain_text(
        re.compile(r"Runs.*27.*Gate denials.*5.*Spend.*\$0\.00\d*[1-9]", re.DOTALL)
    )
    no_exception(page)


def test_the_overviews_name_typed_as_an_address_leads_there(page: Page, demo: str) -> None:
    open_page(page, demo, "overview")
    expect(page.locator("body")).to_contain_text(re.compile(r"Runs.*27.*Gate denials", re.DOTALL))
    expect(page.locator("body")).not_to_contain_text("Page not found")
    expect(page.get_by_text("Overview", exact=True)).to_have_count(2)  # the title and one entry of the menu
    no_exception(page)


def test_the_runs_page_lists_recorded_and_live_runs(page: Page, demo: str) -> None:
    open_page(page, demo, "runs")
    no_exception(page)
    expect(page.get_by_test_id("stDataFrame").first).to_be_visible()


def test_a_run_has_a_waterfall(page: Page, demo: str) -> None:
    open_page(page, demo, "run?run_id=demo-refund-request")
    no_exception(page)
    expect(page.locator(".js-plotly-plot").first).to_be_visible()
    expect(page.locator("body")).to_contain_text(re.compile(r"support.*issue_refund", re.DOTALL))


def test_the_denials_page_shows_who_blocked_what_and_why(page: Page, demo: str) -> None:
    open_page(page, demo, "denials")
    no_exception(page)
    expect(page.get_by_test_id("stDataFrame").first).to_be_visible()


def test_a_selected_denial_names_the_person_or_the_policy(page: Page, demo: str) -> None:  # DEC-01, DEC-02
    open_page(page, demo, "denials")
    rows = page.get_by_test_id("stDataFrame").first.locator("canvas").first
    for place, facts in (
        (50, r"issue_refund.*rejected.*demo-approver"),
        (85, r"send_email.*denied.*sha256:[0-9a-f]{64}"),
    ):
        rows.click(position={"x": 200, "y": place}, force=True)  # a grid is drawn, its cells take no clicks themselves
        expect(page.get_by_test_id("stDataFrame").nth(1)).to_contain_text(re.compile(facts, re.DOTALL))
    no_exception(page)


def test_what_was_said_is_found_and_leads_to_its_run(page: Page, demo: str) -> None:
    open_page(page, demo, "search?text=REFUND")
    hits = page.get_by_test_id("stDataFrame").first
    expect(hits).to_contain_text(re.compile(r"delivered orders are refunded in the shop only"))
    expect(page.locator("body")).to_contain_text(re.compile(r"\d+ events found"))
    no_exception(page)
    hits.locator("canvas").first.click(position={"x": 300, "y": 50}, force=True)
    page.wait_for_url(re.compile(r"/run\?.*event_id="))
    no_exception(page)


def test_a_denial_is_reviewed_and_the_days_count_it(page: Page, demo: str) -> None:  # issue 6, section 7
    open_page(page, demo, "review")
    queue = page.get_by_test_id("stDataFrame").first
    expect(page.locator("body")).to_contain_text("everybody who uses this dashboard is one and the same login")
    queue.locator("canvas").first.click(position={"x": 200, "y": 50}, force=True)
    form = page.get_by_test_id("stForm").filter(has_text="Give this verdict")
    form.get_by_text("Justified: the gate was right").click()
    form.get_by_role("textbox", name="Note").fill("refunds go through the shop")
    form.get_by_role("button", name="Give this verdict").click()
    expect(page.locator("body")).to_contain_text("Recorded: the denial is reviewed now.")
    expect(queue).to_contain_text(re.compile(r"issue_refund.*reviewed.*justified", re.DOTALL))
    expect(page.locator("body")).to_contain_text("anyone on this machine")
    no_exception(page)
    page.get_by_test_id("stButtonGroup").get_by_text("Days", exact=True).click()
    expect(page.locator("body")).to_contain_text("Select a day to sign it off.")
    days = page.get_by_test_id("stDataFrame").first
    expect(days).to_contain_text("anyone on this machine (1)")
    days.locator("canvas").first.click(position={"x": 300, "y": 50}, force=True)
    page.get_by_role("button", name="Sign this day off").click()
    expect(page.locator("body")).to_contain_text("is not over in UTC")
    no_exception(page)


def test_spend_is_above_zero(page: Page, demo: str) -> None:
    open_page(page, demo, "spend")
    no_exception(page)
    expect(page.locator("body")).to_contain_text(re.compile(r"\$0\.00\d*[1-9]"))


def test_no_page_asks_another_host(page: Page, demo: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for path in (
        "",
        "runs",
        "search?text=refund",
        "denials",
        "review",
        "erasures",
        "spend",
        "tools",
        "run?run_id=demo-weekly-report",
    ):
        open_page(page, demo, path)
        no_exception(page)
    assert [url for url in asked if not url.startswith((demo, demo.replace("http", "ws"), "data:", "blob:"))] == []
