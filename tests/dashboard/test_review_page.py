"""The page "Review", run by Streamlit's own test runner against a real collector with keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash
from support.keys import bearer, make_key
from support.records import make_record
from tracehold_collector.core.settings import load_settings
from tracehold_collector.serve import CollectorServer
from tracehold_dashboard import launch, links

ID = "00000000-0000-0000-0000-000000000001"
HOSTILE = "<img src=x onerror=alert(1)> **bold**"
MAIL = {"subject": "the whole list"}


class Desk:
    """A collector with one denial, the dashboard that looks at it, and two people with keys of their own."""

    def __init__(self, server: CollectorServer, keys: dict[str, str]) -> None:
        self.server = server
        self.keys = keys

    def open(self) -> AppTest:
        app = AppTest.from_file(str(launch.APP), default_timeout=60)
        app.query_params.update({"event_id": ID})
        app.run()
        app._page_hash = calc_hash(links.REVIEW)
        return run(app)

    def act(self, key: str, **body: Any) -> httpx.Response:
        path = f"{self.server.url}/api/v1/reviews/{ID}/acts"
        return httpx.post(path, json=body, headers=bearer(self.keys[key]), trust_env=False)

    def seen(self) -> dict[str, Any]:
        path = f"{self.server.url}/api/v1/reviews/{ID}"
        found: dict[str, Any] = httpx.get(path, headers=bearer(self.keys["ann"]), trust_env=False).json()
        return found


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    folder = tmp_path / "data"
    people = ("read", "audit", "content")
    keys = {name: make_key(folder, *people, name=name) for name in ("ann", "ben", "dashboard")}
    keys["looker"] = make_key(folder, "read", name="looker")
    server = CollectorServer(load_settings(port=0, grpc=False, data_dir=folder))
    server.start()
    denied = {"kind": "gate", "type": "tool_call", "name": "send_mail", "status": "blocked", "decision": "denied"}
    server.writer.submit(
        [
            make_record(1, **denied, rule="no-mail", agent="support", content={"reason": HOSTILE, "params": MAIL}),
            make_record(2, agent="support"),
            make_record(3, kind="tool", type="tool_call", name="shell", agent="support", content={"params": MAIL}),
        ]
    ).result(10)
    monkeypatch.setenv("TRACEHOLD_URL", server.url)
    monkeypatch.setenv("TRACEHOLD_API_KEY", keys["dashboard"])
    yield Desk(server, keys)
    server.close()


def run(app: AppTest) -> AppTest:
    app.run()
    assert not app.exception, app.exception[0].value
    return app


def texts(app: AppTest) -> str:
    kinds = ("subheader", "markdown", "caption", "error", "warning", "info", "success", "code")
    return "\n".join(element.value for kind in kinds for element in getattr(app, kind))


def cells(app: AppTest) -> str:
    return "\n".join(table.value.to_csv() for table in app.dataframe)


def press(app: AppTest, label: str) -> AppTest:
    (button,) = (button for button in app.button if button.label == label)
    button.click()
    return run(app)


def write(app: AppTest, kind: str, label: str, text: str) -> None:
    (field,) = (field for field in getattr(app, kind) if field.label == label)
    field.set_value(text)


def test_a_denial_is_opened_with_its_reason_arguments_and_what_came_next(desk: Desk) -> None:
    app = desk.open()
    assert "no-mail" in cells(app)
    assert HOSTILE in [code.value for code in app.code]  # as text, not as Markdown
    assert '"subject": "the whole list"' in "\n".join(json.value for json in app.json)
    assert "shell" in cells(app)
    assert "the same arguments" in cells(app)
    assert "got through" in texts(app)


def test_the_page_says_that_everybody_acts_as_the_dashboards_key(desk: Desk) -> None:
    app = desk.open()
    assert "everybody who uses this dashboard is one and the same login" in texts(app)
    app = press(app, "Give this verdict")
    assert desk.seen()["review"]["verdict_by"] == "dashboard"
    assert "Recorded: the denial is reviewed now." in texts(app)


def test_with_a_key_of_ones_own_an_act_is_recorded_under_ones_own_login(desk: Desk) -> None:
    app = desk.open()
    write(app, "text_input", "Your own key", desk.keys["ann"])
    app = press(app, "Use this key")
    assert "You act under the login of the key you entered" in texts(app)
    assert desk.keys["ann"] not in texts(app) + cells(app)
    (verdict,) = app.radio
    verdict.set_value("incident")
    write(app, "text_area", "Note", "see INC-7")
    app = press(app, "Give this verdict")
    seen = desk.seen()
    assert (seen["review"]["state"], seen["review"]["verdict_by"]) == ("awaiting_sign_off", "ann")
    assert seen["acts"][0]["note"] == "see INC-7"
    app = press(app, "Sign the incident off")
    assert "must come from another login" in texts(app)
    app = press(app, "Forget my key")
    press(app, "Sign the incident off")
    assert desk.seen()["acts"][-1]["by"] == "dashboard"


def test_an_act_on_what_somebody_else_changed_meanwhile_is_refused_and_says_so(desk: Desk) -> None:
    app = desk.open()
    assert desk.act("ben", act="assign", revision=0).is_success
    app = press(app, "Give this verdict")
    assert "somebody acted on this denial since you looked" in texts(app)
    assert "ben" in cells(app)
    assert desk.seen()["review"]["state"] == "assigned"
    press(app, "Give this verdict")  # now that it was seen
    assert desk.seen()["review"]["state"] == "reviewed"


def test_a_denial_is_given_to_a_colleague_and_reopened_with_a_note(desk: Desk) -> None:
    app = desk.open()
    write(app, "text_input", "Give it to", "ben")
    app = press(app, "Assign")
    assert desk.seen()["review"]["assignee"] == "ben"
    app = press(app, "Give this verdict")
    app = press(app, "Reopen")
    assert "needs a 'note'" in texts(app)
    write(app, "text_area", "Note", "new evidence")
    press(app, "Reopen")
    assert desk.seen()["review"]["state"] == "open"


def test_whoever_may_only_look_sees_no_form(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEHOLD_API_KEY", desk.keys["looker"])
    app = desk.open()
    assert "a key with the role audit is needed" in texts(app)
    assert [button.label for button in app.button if button.label == "Give this verdict"] == []
    assert "role content" in texts(app) + "\n".join(code.value for code in app.code)
