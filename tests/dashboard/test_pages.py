"""Each page, run by Streamlit's own test runner against a collector that speaks HTTP."""

from __future__ import annotations

import socket

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash
from tracehold_dashboard import launch, links

SECOND = 1_000_000_000
T0 = 1_767_225_600 * SECOND
PAGES = [links.OVERVIEW, links.RUNS, links.DENIALS, links.REVIEW, links.SPEND, links.TOOLS]
HOSTILE = "<img src=x onerror=alert(1)> **bold** [x](javascript:alert(1)) $x^2$ :red[x]"

RUN = {"kind": "run", "span_id": "root", "name": "answer", "agent": "planner"}
EVENTS = [
    RUN | {"type": "run_start", "status": "started"},
    {"kind": "llm", "type": "llm_call", "name": "chat", "model": "m1", "span_id": "b", "parent_span_id": "root"}
    | {"started_at": T0 + SECOND, "duration_ns": SECOND, "input_tokens": 100, "output_tokens": 20, "cost_usd": 0.25},
    {"kind": "gate", "name": "send_mail", "status": "blocked", "decision": "denied", "rule": "no-mail", "span_id": "c"}
    | {"parent_span_id": "root", "started_at": T0 + 2 * SECOND}
    | {"content": {"reason": "mail is not allowed", "params": {"to": "somebody"}}},
    {"name": "search", "span_id": "d", "parent_span_id": "root", "started_at": T0 + 3 * SECOND, "status": "error"},
    {"kind": "other", "type": "odd", "name": "x", "source": "otlp", "started_at": T0 + 4 * SECOND},
    {"kind": "llm", "type": "llm_call", "model": "m2", "span_id": "e", "started_at": T0 + 5 * SECOND},
    RUN | {"type": "run_end", "duration_ns": 6 * SECOND},
]


def shown(page: str, **params: str) -> AppTest:
    """Run one page to its end."""
    app = AppTest.from_file(str(launch.APP), default_timeout=60)
    app.query_params.update(params)
    app.run()
    if page != links.OVERVIEW:
        # The runner has no public way to a page of st.navigation; this is what the browser's address does.
        app._page_hash = calc_hash(page)
        app.run()
    assert not app.exception, app.exception[0].value
    return app


def texts(app: AppTest) -> str:
    """Give all text that stands on the page outside tables."""
    kinds = ("title", "subheader", "markdown", "caption", "error", "warning", "info", "code")
    parts = [element.value for kind in kinds for element in getattr(app, kind)]
    return "\n".join([*parts, *(f"{metric.label}: {metric.value}" for metric in app.metric)])


def cells(app: AppTest) -> str:
    """Give all text that stands in tables."""
    return "\n".join(table.value.to_csv() for table in app.dataframe)


@pytest.mark.parametrize("page", PAGES)
def test_an_empty_store_says_how_to_send_data(collector, page):
    text = texts(shown(page))
    assert "make demo" in text
    assert "from tracehold import CollectorExporter, Tracer" in text
    assert f"OTEL_EXPORTER_OTLP_ENDPOINT={collector.url}" in text


@pytest.mark.parametrize("page", PAGES)
def test_a_collector_that_is_down_is_one_plain_message(monkeypatch, page):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        monkeypatch.setenv("TRACEHOLD_URL", url)
        app = shown(page)
    assert [error.value for error in app.error] == ["The collector cannot be reached."]
    assert url in app.code[0].value
    assert "tracehold up" in app.code[0].value


def test_a_missing_key_names_the_variable(collector):
    collector.key = "k" * 8
    app = shown(links.RUNS)
    assert [error.value for error in app.error] == ["The collector needs a key."]
    assert "TRACEHOLD_API_KEY" in app.code[0].value


def test_an_address_that_is_none_names_the_variable(monkeypatch):
    monkeypatch.setenv("TRACEHOLD_URL", "localhost:4318")
    assert "TRACEHOLD_URL" in shown(links.OVERVIEW).code[0].value


def test_the_overview_shows_figures_runs_denials_and_what_was_not_understood(collector):
    collector.add(*EVENTS)
    app = shown(links.OVERVIEW)
    figures = {metric.label: metric.value for metric in app.metric}
    assert figures == {
        "Runs": "1",
        "Running or waiting": "0",
        "Gate denials": "1",
        "Failed runs": "0",
        "Model calls": "2",
        "Tool calls": "1",
        "Tokens": "120",
        "Spend": "≥ $0.2500",
    }
    for text in ("answer", "send_mail", "no-mail", "odd"):
        assert text in cells(app)


def test_the_runs_page_lists_runs_and_filters_them(collector):
    collector.add(*EVENTS, RUN | {"run_id": "run-2", "type": "run_end", "name": "other", "agent": "writer"})
    app = shown(links.RUNS)
    assert "2 runs" in texts(app)
    app.text_input[0].set_value("OTHER").run()
    assert "1 run\n" in texts(app) + "\n"
    assert list(app.dataframe[0].value["run_id"]) == ["run-2"]


def test_a_filter_that_nothing_fits_says_so(collector):
    collector.add(*EVENTS)
    app = shown(links.RUNS, search="nothing like it")
    assert "No run fits these filters." in texts(app)


def test_the_runs_page_turns_its_pages(collector):
    collector.add(*(RUN | {"run_id": f"r{n:03d}", "type": "run_end", "started_at": T0 + n} for n in range(60)))
    app = shown(links.RUNS)
    assert "1 to 50 of 60 runs" in texts(app)
    assert app.dataframe[0].value["run_id"].iloc[0] == "r059"
    app.pagination[0].set_value(2).run()
    assert "51 to 60 of 60 runs" in texts(app)
    assert app.dataframe[0].value["run_id"].iloc[-1] == "r000"


def test_a_run_shows_its_figures_and_its_waterfall(collector):
    collector.add(*EVENTS)
    app = shown(links.RUN, run_id="run-1")
    figures = {metric.label: metric.value for metric in app.metric}
    assert figures == {
        "Status": "ok",
        "Duration": "6.00 s",
        "Model / tool calls": "2 / 1",
        "Denials / errors": "1 / 1",
        "Tokens in / out": "100 / 20",
        "Cost": "≥ $0.2500",
    }
    assert "6 spans" in texts(app)
    assert len(app.get("plotly_chart")) == 1


def test_a_run_shows_one_of_its_events_whole(collector):
    ids = collector.add(*EVENTS)
    app = shown(links.RUN, run_id="run-1", event_id=ids[2])
    assert '"mail is not allowed"' in app.json[0].value
    assert "no-mail" in cells(app)


def test_a_run_shows_its_events_in_order(collector):
    collector.add(*EVENTS)
    app = shown(links.RUN, run_id="run-1")
    app.segmented_control(key="run_view").set_value("Events").run()
    (events,) = (table.value for table in app.dataframe if "offset_ns" in table.value.columns)
    assert events["type"].iloc[0] == "run_start"
    assert events["type"].iloc[-1] == "run_end"


def test_a_waterfall_can_be_searched_and_narrowed_to_problems(collector):
    collector.add(*EVENTS)
    app = shown(links.RUN, run_id="run-1")
    app.text_input(key="spans_search").set_value("SEND_").run()
    assert "1 span" in texts(app)
    app.text_input(key="spans_search").set_value("").run()
    app.toggle(key="spans_problems").set_value(True).run()
    assert "2 spans" in texts(app)


def test_a_long_run_is_paged_while_its_totals_count_every_span(collector):
    # FR-55
    collector.add(*(RUN | {"type": "run_end", "span_id": "root"} for _ in range(1)))
    collector.add(*({"span_id": f"s{n}", "parent_span_id": "root", "started_at": T0 + n} for n in range(700)))
    app = shown(links.RUN, run_id="run-1")
    assert "1 to 300 of 701 spans" in texts(app)
    assert "Model / tool calls: 0 / 700" in texts(app)


def test_acts_of_people_are_shown_as_such_and_as_no_agents_run(collector):
    run_id = "review:00000000-0000-0000-0000-000000000001"
    (event_id,) = collector.add(
        {"run_id": run_id, "source": "collector", "kind": "score", "type": "tracehold.review.verdict"}
        | {"content": {"note": "the desk sends mail"}}
    )
    app = shown(links.RUN, run_id=run_id, event_id=event_id)
    assert "acts of people in Tracehold" in texts(app)
    assert "tracehold.review.verdict" in cells(app)
    assert "the desk sends mail" in "".join(json.value for json in app.json)


def test_a_run_nobody_knows_says_so(collector):
    app = shown(links.RUN, run_id="nope")
    assert "No run has this id" in texts(app)
    assert app.code[0].value == "nope"


def test_the_run_page_without_an_id_asks_for_one(collector):
    assert [box.label for box in shown(links.RUN).text_input] == ["Run id"]


def test_the_denials_page_shows_reason_arguments_and_what_happened_next(collector):
    collector.add(*EVENTS)
    (row,) = shown(links.DENIALS).dataframe[0].value.to_dict("records")
    assert {
        "name": "send_mail",
        "decision": "denied",
        "rule": "no-mail",
        "reason": "mail is not allowed",
        "arguments": '{"to": "somebody"}',
        "next_event": "tool_call search error",
    }.items() <= row.items()


def test_spend_says_that_an_unknown_cost_is_unknown_and_the_sum_a_lower_bound(collector):
    # FR-31
    collector.add(*EVENTS)
    app = shown(links.SPEND)
    assert "1 call has no known cost. It is not free: the cost shown is a lower bound." in texts(app)
    costs = dict(zip(app.dataframe[0].value["value"], app.dataframe[0].value["cost"], strict=True))
    assert costs == {"m1": "$0.2500", "m2": "unknown"}


def test_spend_shows_budgets_the_worst_first_and_a_lower_bound_as_one(collector):
    # FR-31
    collector.add(*EVENTS)
    budget = {"name": "all", "state": "ok", "spent_usd": 1.5, "usd": 10.0, "share": 0.15, "forecast_usd": None}
    rest = {"unpriced_calls": 0, "period": "month", "until": "2026-02-01T00:00:00Z"}
    worse = {"name": "support", "state": "over", "spent_usd": 12.0, "share": 1.2, "unpriced_calls": 3}
    collector.budgets = [budget | rest, budget | rest | worse | {"forecast_usd": 24.0}]
    shown_budgets = shown(links.SPEND).dataframe[0].value
    assert list(shown_budgets["name"]) == ["support", "all"]
    assert list(shown_budgets["spent"]) == ["≥ $12.00", "$1.50"]
    assert list(shown_budgets["share"]) == ["120%", "15%"]


def test_tools_and_latency_are_listed(collector):
    collector.add(*EVENTS)
    tools = shown(links.TOOLS).dataframe[0].value
    assert dict(zip(tools["tool"], tools["blocked"], strict=True)) == {"search": 0, "send_mail": 1}


@pytest.mark.parametrize("page", [*PAGES, links.RUN])
def test_text_of_a_trace_is_never_markdown_or_html(collector, page):
    fields = dict.fromkeys(
        ["run_id", "name", "type", "agent", "service", "model", "provider", "rule", "decided_by", "error_type"], HOSTILE
    )
    ids = collector.add(
        fields | {"kind": "llm"},
        fields
        | {
            "kind": "gate",
            "status": "blocked",
            "decision": "denied",
            "content": {"reason": HOSTILE, "params": {HOSTILE: HOSTILE}},
        },
        fields | {"kind": "other", "tenant": HOSTILE, "user_ref": HOSTILE, "session_id": HOSTILE},
    )
    app = shown(page, **({"run_id": HOSTILE, "tenant": "acme", "event_id": ids[1]} if page == links.RUN else {}))
    read_as_markdown = ("title", "header", "subheader", "markdown", "caption", "error", "warning", "info", "success")
    for kind in read_as_markdown:
        assert not [element.value for element in getattr(app, kind) if "javascript" in str(element.value)]
    for metric in app.metric:
        assert "javascript" not in f"{metric.label}{metric.value}"
    assert all("javascript" not in element.label for element in [*app.button, *app.get("page_link")])
    assert len(app.html) == 1, "only the style sheet"


def test_the_overviews_name_as_an_address_leads_to_the_overview(collector):
    collector.add(*EVENTS)
    app = AppTest.from_file(str(launch.APP), default_timeout=60)
    app.run()
    app._page_hash = calc_hash(links.OVERVIEW)
    app.run()
    assert not app.exception
    assert [title.value for title in app.title] == ["Overview"]


def test_the_overview_says_when_and_why_nothing_was_recorded(collector):
    collector.add(*EVENTS)
    insert = (
        "INSERT INTO collector_events (event_id, type, cause, started_at, ended_at, refused, version, recorded_at) "
        "VALUES (uuid(), ?, ?, ?, ?, ?, '0', 0)"
    )
    collector.connection.execute(insert, ["gap", "first_start", None, T0, None])
    collector.connection.execute(insert, ["gap", "killed_or_crashed", T0, T0 + 90 * SECOND, None])
    collector.connection.execute(insert, ["pause", "disk_full", T0, T0 + 5 * SECOND, 7])
    page = shown(links.OVERVIEW)
    assert "Not recorded" in texts(page)
    assert "killed_or_crashed" in cells(page)
    assert "disk_full" in cells(page)
    assert "first_start" not in cells(page)


def test_a_store_that_began_lately_misses_nothing(collector):
    collector.add(*EVENTS)
    collector.connection.execute(
        "INSERT INTO collector_events (event_id, type, cause, ended_at, version, recorded_at) "
        "VALUES (uuid(), 'gap', 'first_start', ?, '0', 0)",
        [T0],
    )
    assert "Not recorded" not in texts(shown(links.OVERVIEW))


SAID = [
    {"kind": "llm", "name": "chat", "content": {"input": f"order {n} is late {HOSTILE}"}, "started_at": T0 + n * SECOND}
    for n in range(3)
]


def test_the_search_page_lists_what_was_said(collector):
    collector.add(*SAID, {"kind": "tool", "name": "lookup", "content": {"result": "order 9 is late"}})
    app = shown(links.SEARCH)
    assert "the words are not" in texts(app)
    app.text_input[0].set_value("IS LATE").run()
    assert not app.exception
    assert sorted(app.dataframe[0].value["name"]) == ["chat", "chat", "chat", "lookup"]
    assert "4 events found." in texts(app)
    app.selectbox[0].set_value("tool").run()
    assert list(app.dataframe[0].value["name"]) == ["lookup"]
    assert "is late" in cells(app)


def test_a_search_that_a_limit_ended_goes_on(collector):
    collector.search_limit = 2
    collector.add(*SAID)
    app = shown(links.SEARCH, text="late")
    assert "limit of hits was reached" in texts(app)
    app.button[0].click().run()
    assert len(app.dataframe[0].value) == 3
    assert "3 events found." in texts(app)


def test_a_search_is_asked_once_however_often_the_page_is_drawn(collector):
    collector.add(*SAID)
    app = shown(links.SEARCH, text="late")
    app.run()
    assert sum("/search/content" in path for path in collector.asked) == 1


def test_who_may_not_see_content_is_told_so(collector, monkeypatch):
    monkeypatch.setenv("TRACEHOLD_API_KEY", "k" * 8)
    collector.add(*SAID)
    collector.withheld = {"content_withheld": "no role content"}
    app = shown(links.SEARCH, text="late")
    assert "needs a key with the role content" in texts(app)
