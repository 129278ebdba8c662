"""The verifier that is a browser page: in a real Chromium, from a file, and of one mind with the one in Python."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from support.evidence import OFFLINE, START, Outcome, World, forgeries
from tracehold_collector.core.times import iso_utc

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

PAGE = (OFFLINE / "verify_evidence.html").as_uri()
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]

_CHECK = """
async ({ bundle, keys, heads }) => {
  const bytes = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  try {
    return await verifyEvidence(bytes(bundle), keys, heads.map(({ name, text }) => ({ name, bytes: bytes(text) })));
  } catch (error) {
    if (!(error instanceof BundleError)) throw error;
    return { error: error.message };
  }
}
"""


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """The page, opened from its file; it fails when the page asked for anything else, or wrote an error."""
    opened = browser.new_page()
    asked: list[str] = []
    errors: list[str] = []
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    opened.goto(PAGE)
    yield opened
    opened.close()
    assert (asked, errors) == ([PAGE], [])


@pytest.fixture
def check_in_page(page: Page) -> Callable[..., dict[str, Any]]:
    def run(path: Path, *keys: str, heads: tuple[str, ...] = ()) -> dict[str, Any]:
        encoded = [{"name": "mine", "text": base64.b64encode(head.encode()).decode()} for head in heads]
        given = {"bundle": base64.b64encode(path.read_bytes()).decode(), "keys": list(keys), "heads": encoded}
        found: dict[str, Any] = page.evaluate(_CHECK, given)
        return found

    return run


def alike(said: dict[str, Any]) -> Any:
    """What both verifiers say in the same words."""
    if "error" in said:
        return "refused"
    return {
        "verdict": said["verdict"],
        "counts": said["counts"],
        "population": said["population"],
        "holds": len(said["holds"]),
        "fails": len(said["fails"]),
        "notes": len(said["notes"]),
        "records": [(record["state"], record["leaf_index"], record["event_id"]) for record in said["records"]],
    }


def test_page_says_what_the_verifier_in_python_says_of_a_true_bundle(
    world: World, tmp_path: Path, check: Callable[..., Outcome], check_in_page: Callable[..., dict[str, Any]]
) -> None:
    whole = {"since": iso_utc(START)}
    heads = tuple(head.note for head in world.heads[:2])
    for number, head in enumerate(heads):
        (tmp_path / f"{number}.txt").write_text(head, encoding="utf-8")
    brought = [argument for number in range(2) for argument in ("--tree-head", str(tmp_path / f"{number}.txt"))]
    for path in (
        world.bundle(tmp_path / "content.zip", with_content=True),
        world.bundle(tmp_path / "complete.zip", given=whole, complete=True),
        world.bundle(tmp_path / "sample.zip", "events", sample=("a seed", 9)),
        world.bundle(tmp_path / "run.zip", "run", given={"run_id": "run-3"}),
    ):
        said = check_in_page(path, world.key(), heads=heads)
        assert said["verdict"] == "verified", said["fails"]
        assert alike(said) == alike(check(path, "--key", world.key(), *brought).said)
        assert check_in_page(path)["verdict"] == "unconfirmed keys"


def test_page_finds_in_each_forgery_what_the_verifier_in_python_finds(
    world: World, tmp_path: Path, check: Callable[..., Outcome], check_in_page: Callable[..., dict[str, Any]]
) -> None:
    for name, path in forgeries(world.bundle(tmp_path / "denials.zip", with_content=True)).items():
        python, page = check(path, "--key", world.key()), check_in_page(path, world.key())
        assert python.code in {1, 2}, name
        assert alike(page) == alike(python.said), name


def test_reader_chooses_a_bundle_and_sees_the_verdict_and_each_record(world: World, tmp_path: Path, page: Page) -> None:
    path = world.bundle(tmp_path / "denials.zip", with_content=True)
    page.set_input_files("#bundle", path)
    expect(page.locator("#verdict")).to_contain_text("UNCONFIRMED KEYS")
    page.fill("#keys", world.key())
    page.locator("#keys").blur()
    expect(page.locator("#verdict")).to_have_text("VERIFIED")
    expect(page.locator("#records tr")).to_have_count(35)
    expect(page.locator("#records td.verified")).to_have_count(35)
    page.set_input_files("#bundle", forgeries(path)["decision"])
    expect(page.locator("#verdict")).to_have_text("NOT VERIFIED")
    page.check("#only-bad")
    expect(page.locator("#records tr")).to_have_count(1)
    expect(page.locator("#records td.altered")).to_have_count(1)


def test_browser_without_ed25519_is_told_so_in_plain_words(browser: Browser) -> None:
    opened = browser.new_page()
    opened.add_init_script(
        "crypto.subtle.importKey = () => Promise.reject(new DOMException('no', 'NotSupportedError'))"
    )
    opened.goto(PAGE)
    expect(opened.locator("#lacking")).to_contain_text("cannot check Ed25519 signatures")
    opened.close()
