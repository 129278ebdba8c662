"""`make docs`: writes the pages that are made from the code, and the generated parts of the others.

A function a page, each without side effects, so that a test can hold the result against what stands in `docs/`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from contract import clause_tests as clauses
from contract import documented, documented_b
from contract.import_map import ImportMap

ROOT: Final = Path(__file__).resolve().parent.parent
DOCS: Final = ROOT / "docs"

_NOTICE: Final = "<!-- Made by `make docs`. Change the source it names, not this page. -->"
_SHOWN_TESTS: Final = 3
"""How many tests of a clause its row names."""


def queries_page() -> str:
    """The catalogue of named queries, from the headers of the `.sql` files."""
    from tracehold_queries import catalogue

    lines = [
        *_head("Named queries", "the headers of `queries/tracehold_queries/sql/*.sql`"),
        "Each question below is one `.sql` file. Ask it with `tracehold query NAME -p parameter=value`, or over HTTP at",
        "`/api/v1/queries/NAME?parameter=value`. The answer is JSON; `format=csv`, `parquet` or `arrow`, or the header `Accept`,",
        "asks for another form. A list is given by repeating the parameter. Times are UTC. An empty value means unknown, never",
        "zero.",
        "",
        *_table(
            ["name", "question", "asked by"],
            [
                [f"[`{query.name}`](#{query.name})", query.question, ", ".join(query.asked_by)]
                for query in catalogue().values()
            ],
        ),
    ]
    for query in catalogue().values():
        described = query.describe()
        lines += ["", f"## {query.name}", "", query.question, ""]
        if described["parameters"]:
            lines += _table(
                ["parameter", "type", "default", "meaning"],
                [
                    [
                        f"`{item['name']}`",
                        item["type"],
                        "required" if item["required"] else "none" if item["default"] is None else f"{item['default']}",
                        item["meaning"] + _allowed(item["choices"], item["minimum"], item["maximum"]),
                    ]
                    for item in described["parameters"]
                ],
            )
            lines += [""]
        lines += _table(
            ["column", "type", "unit", "meaning"],
            [[f"`{item['name']}`", item["type"], item["unit"] or "", item["meaning"]] for item in described["columns"]],
        )
    return _page(lines)


def cli_page() -> str:
    """What `tracehold --help` and each verb's `--help` print."""
    lines = [
        *_head("The `tracehold` command", "the command's own `--help`"),
        "Exit status: 0 done, 1 failed with a message, 2 wrong usage, 130 after Ctrl-C. Verbs that ask read the collector's",
        "address from `--url` or `TRACEHOLD_URL`, and the key from `TRACEHOLD_API_KEY`. With `--json` they print one object",
        "a line, with every column.",
        "",
        "```text",
        _help(),
        "```",
    ]
    for verb in verbs():
        lines += ["", f"## tracehold {verb}", "", "```text", _help(verb), "```"]
        for inner in getattr(_command().commands[verb], "commands", ()):
            lines += ["", f"### tracehold {verb} {inner}", "", "```text", _help(verb, inner), "```"]
    return _page(lines)


def dialects_page() -> str:
    """Which attribute names of which conventions are read, from the mapping table."""
    from tracehold_collector.normalise import verdict_rules
    from tracehold_collector.normalise.dialects import FIELD_KEYS, KIND_KEYS
    from tracehold_collector.normalise.log_dialects import DIALECTS
    from tracehold_collector.normalise.mapping import MAPPING_VERSION

    lines = [
        *_head(
            "OTLP dialects",
            "`dialects.py`, `verdict_rules.py` and `log_dialects.py` in `collector/tracehold_collector/normalise/`",
        ),
        "The collector reads the spans and log records of any sender, over HTTP (protobuf and JSON) and gRPC. One whose words",
        "it does not know is stored whole, as kind `other`; the query `unmapped` lists such. Understood are the names of:",
        "Tracehold's own attributes, Langfuse, OpenTelemetry's GenAI and MCP semantic conventions (1.36 to 1.41, those of the",
        "GenAI conventions' own repository, and older names), OpenInference, OpenLLMetry (Traceloop), LangSmith's exporter, the",
        "Vercel AI SDK, Logfire with Pydantic AI and the OpenAI Agents SDK, Strands Agents, Google's ADK, AWS Bedrock and",
        "AgentCore, MLflow, Semantic Kernel, AutoGen (which writes the GenAI names), Claude Code and Codex.",
        "",
        f"This is version {MAPPING_VERSION} of the mapping. A store notes from when on which version read what it holds (table",
        "`mapping_versions`), `tracehold explain` prints the one it explains by, and `unmapped` names the one that did not know.",
        "",
        "## What is not understood yet",
        "",
        "- OTLP metrics: they are taken and not stored. Tokens in them would repeat those of spans and log events.",
        "- Prompts and replies that are sent as span events are kept as content of their span, those sent as log records as",
        "  events of kind `context`; they are not taken apart into messages.",
        "- A tool that a framework refused, when its spans say so in free text only, or inside the messages of a later prompt",
        "  (the AI SDK's `execution-denied`, Pydantic AI's denied tool returns). An approval or guardrail is shown with its",
        "  kind, but is no denial unless a field listed below says so.",
        "- A tool that Claude Code was not allowed to run is told by its events and, in its traces, by a span. With both sent,",
        "  such a denial shows twice: nothing joins the two.",
        "- Two model-call spans of one call, one inside the other, as two instrumentations at once make them: both count.",
        "  Of Google's ADK, which makes such, the outer one does not.",
        "- Costs in another currency than USD. Cache writes that are kept for an hour cost what others cost.",
        "- AutoGen's message spans, the workflow spans of the Microsoft Agent Framework, and other names that are not listed.",
        "",
        "## Which attribute fills which field",
        "",
        "Of several that stand on one span, the first listed that can be used wins.",
        "",
        *_table(
            ["field", "attributes, the most trusted first"],
            [[f"`{field}`", ", ".join(f"`{key}`" for key in keys)] for field, keys in FIELD_KEYS.items()],
        ),
        "",
        "## Which attribute says what kind a span is",
        "",
        "The first attribute, in this order, whose value is listed decides. Values compare without case. A `wrapper` is a",
        "`task` whose usage repeats what its own model call says, and is not counted twice.",
        "",
        *_table(
            ["attribute", "values and our kind"],
            [
                [f"`{key}`", ", ".join(f"`{value}` → {kind}" for value, kind in values.items())]
                for key, values in KIND_KEYS.items()
            ],
        ),
        "",
        "## Which words are a gate's decision",
        "",
        "First come `tracehold.decision`, and `policy.decision` together with `policy.rule`. Then the first rule with a listed",
        "word decides; words compare without case, and any other word is none. No rule reads what a model, a tool or a person",
        "wrote. A model call that was stopped on its way out stays a model call: it is paid for.",
        "",
        *_table(
            ["attributes", "only on", "words and decisions", "the rule is from", "decided by", "source of the words"],
            [
                [
                    _attributes_of(FIELD_KEYS, rule.field),
                    ", ".join(sorted(rule.kinds)),
                    ", ".join(f"`{word}` → {decision}" for word, decision in rule.words.items()),
                    ", ".join(_attributes_of(FIELD_KEYS, field) for field in rule.rule_from),
                    ", ".join(_attributes_of(FIELD_KEYS, field) for field in rule.by_from),
                    rule.source,
                ]
                for rule in verdict_rules.VERDICT_RULES
            ],
        ),
        "",
        "And in forms of their own:",
        "",
        "- AgentCore's policy: `aws.agentcore.policy.authorization_decision` on its own spans (`AgentCore.Policy.*`), unless",
        "  `aws.agentcore.gateway.policy.mode` is `LOG_ONLY`. The tool's span, which repeats it, is no second denial.",
        "- Strands: `gen_ai.tool.status` of a tool, "
        + ", ".join(f"`{word}` → {decision}" for word, decision in verdict_rules.TOOL_STATUS_WORDS.items())
        + ". Its `error` is a failure under an OK status.",
        "- Google's ADK: a tool's answer that is nothing but ADK's own refusal, "
        + ", ".join(f"`{text}` → {decision}" for text, decision in verdict_rules.ADK_ANSWERS.items()),
        "- Claude Code's traces: `decision` and `source` of the span `claude_code.tool.blocked_on_user`, by the words of its",
        "  events below.",
        "- Exceptions that are a wait and no failure: "
        + ", ".join(f"`{name}`" for name in sorted(verdict_rules.WAITS))
        + " → suspended.",
        "",
        "## Which log event is what",
        "",
        "A log record is looked up by its event name: the attribute `event.name`, else the record's own, else its body. Its",
        "dialect's attributes below come before those of the first table. A severity of ERROR and more is an error, as is",
        "what the event says of itself. [Decision 18](decisions/0018-a-run-for-a-log-record.md) says whose run it is.",
        "",
        *_table(
            ["event", "our kind", "note"],
            [
                [f"`{name}`", event.kind, _event_note(event)]
                for dialect in DIALECTS
                for name, event in dialect.events.items()
            ],
        ),
        "",
        *_table(
            ["events", "field", "attributes, the most trusted first"],
            [
                [f"`{dialect.prefix}*`", f"`{field}`", ", ".join(f"`{key}`" for key in keys)]
                for dialect in DIALECTS
                for field, keys in dialect.fields.items()
            ],
        ),
        "",
        "Words of a decision, without case and underscores; any other word is none. What settings, a hook or a program",
        "refused is `denied`, what a person refused `rejected`.",
        "",
        *_table(
            ["events", "decisions", "no persons"],
            [
                [
                    f"`{dialect.prefix}*`",
                    ", ".join(f"`{word}` → {decision}" for word, decision in dialect.decisions.items()),
                    ", ".join(f"`{who}`" for who in sorted(dialect.policies)),
                ]
                for dialect in DIALECTS
                if dialect.decisions
            ],
        ),
    ]
    return _page(lines)


def recorded_page() -> str:
    """What is read of each form of recorded session, and of every recorded trace at hand."""
    from tracehold_collector.sessions import READERS

    folder = ROOT / "tests" / "collector"
    expected = json.loads((folder / "expected.json").read_text("utf-8"))
    not_read = json.loads((folder / "not_read.json").read_text("utf-8"))
    differing = [name for name, row in expected.items() if _differences(row)]
    lines = [
        *_head(
            "Recorded sessions and traces",
            "`tests/collector/expected.json`, `tests/collector/not_read.json` and the readers in "
            "`collector/tracehold_collector/sessions/`",
        ),
        "`tracehold ingest` takes traces and the sessions below, recognised by what is in them or named with `--from`. A reader",
        "turns a file into [events](events.md); the collector redacts, prices and stores these like any others. What no rule",
        "reads is kept as content. Nothing is taken from a text that a tool could have printed: neither a denial nor a failure.",
        "",
        *_table(
            ["`--from`", "is", "a run is", "denials", "not told by the form"],
            [[f"`{name}`", reader.title, *_FORMS[name]] for name, reader in READERS.items()],
        ),
        "",
        "## Every recorded trace, stated and read",
        "",
        f"The public traces that Tracehold is tested with: {len(expected)} files, {len(expected) - len(differing)} of which are read as the notes beside them state,",
        f"{len(differing)} otherwise for the reason given. `= 5` is stated and read, `5 → 7` is stated as 5 and read as 7, a bare number is not",
        "stated. Tokens and cost are those that were spent: of model calls, and of what tells usage alone. Tests hold every number to what the collector reads, in memory and",
        "through the named queries, and every statement to the notes.",
        "",
        *_table(
            ["file", *(title for _, title in _COUNTS), "why"],
            [
                [f"`{name}`", *(_count(row, key) for key, _ in _COUNTS), row.get("why", "")]
                for name, row in expected.items()
            ],
        ),
        "",
        "## What is not read",
        "",
        "Files of the same collection; each of another form is refused by name rather than misread.",
        "",
        *_table(["files", "why"], [[f"`{pattern}`", why] for pattern, why in not_read.items()]),
    ]
    return _page(lines)


_COUNTS: Final = (
    ("stored", "events"),
    ("llm_calls", "model calls"),
    ("tool_calls", "tool calls"),
    ("input_tokens", "tokens in"),
    ("output_tokens", "tokens out"),
    ("cost_usd", "cost, USD"),
    ("errors", "errors"),
    ("denials", "denials"),
    ("rejected", "refused items"),
)

_ROUNDING: Final = 1e-6
"""USD that a note may have rounded a cost by."""

_FORMS: Final = {
    "claude-code": (
        "a session; sub-agents by `agent`",
        "`toolDenialKind`, or the `toolUseResult` of older versions: `rejected` by `user`, `denied` by a permission rule or automode",
        "when a reply began: its width begins at the line it answers; how long a person was asked",
    ),
    "codex": (
        "a rollout",
        "the status `declined` of `exec_command_end` and `patch_apply_end`, where a rollout keeps them",
        "how most calls ended; who declined. Read by its documented form: no whole rollout was at hand",
    ),
    "inspect": (
        "a sample of an evaluation",
        "a tool error of type `approval`, and an approver that said `reject` or `terminate`",
        "calls and times of a log without events: its usage stands on the run",
    ),
    "swe-agent": (
        "a trajectory",
        "none: the form has no field for one",
        "times; model; tokens and cost of each call: they stand on the run; how a command ended",
    ),
    "openhands": (
        "a trajectory; delegates by `agent`",
        "the observation `user_rejected`",
        "the zone of its times: it follows from a model's reply, else they are read as UTC; cost",
    ),
    "atif": (
        "a trajectory with those it refers to; sub-agents by `agent`",
        "none: the form has no field for one",
        "how a call ended, and how long it took",
    ),
}


def _differences(row) -> list[str]:
    return [
        key for key, count in row.get("stated", {}).items() if row[key] is None or abs(row[key] - count) > _ROUNDING
    ]


def _count(row, key: str) -> str:
    read = "" if row[key] is None else f"{row[key]:,}"
    stated = row.get("stated", {}).get(key)
    if stated is None:
        return read
    return f"{stated:,} → {read or 'unknown'}" if key in _differences(row) else f"= {read}"


def _attributes_of(field_keys, field: str) -> str:
    return ", ".join(f"`{key}`" for key in field_keys[field])


def _event_note(event) -> str:
    notes = [
        f"only with `{event.only_if[0]}` = `{event.only_if[1]}`, else `other`" if event.only_if else "",
        "`context` when it has a span, which then counts" if event.detail else "",
        "carries a decision" if event.decides else "",
        "always an error" if event.fails else "",
    ]
    return "; ".join(note for note in notes if note)


def clauses_page() -> str:
    """The clauses of the contract this version answers for, and the tests that name each."""
    promises, exceptions = clauses.clause_list("clauses"), clauses.clause_list("exceptions")
    named = clauses.named_by_tests()
    tested = sum(clause in named for clause in promises)
    missing = ", ".join(clause for clause in promises if clause not in named and clause not in exceptions)
    chapters: dict[str, list[str]] = {}
    for clause in promises:
        chapters.setdefault(clause.partition("-")[0], []).append(clause)
    lines = [
        *_head("The contract, clause by clause", "`tests/contract/clauses/*.toml` and the comments of the tests"),
        "Each promise has an id. A test that checks it names the id in a comment; a promise that no test names fails the",
        "build unless it is listed here with a reason. Paths begin at `tests/`. Where a file is named without a function, a",
        "comment of the whole file names the clause.",
        "",
        f"{len(promises)} clauses: {tested} tested, {len(exceptions)} with a reason instead, missing: {missing or 'none'}.",
        "",
        *_table(
            ["chapter", "ids", "clauses", "tested"],
            [
                [
                    f"[{_chapter(prefix)}](#{_anchor(_chapter(prefix))})",
                    f"{members[0]} to {members[-1]}" if len(members) > 1 else members[0],
                    str(len(members)),
                    str(sum(clause in named for clause in members)),
                ]
                for prefix, members in chapters.items()
            ],
        ),
    ]
    for prefix, members in chapters.items():
        rows = [
            [
                clause,
                promises[clause],
                _shortened(named.get(clause, [])),
                "tested" if clause in named else exceptions.get(clause, "missing"),
            ]
            for clause in members
        ]
        lines += ["", f"## {_chapter(prefix)}", "", *_table(["id", "promise", "tests", "state"], rows)]
    return _page(lines)


def import_map_page() -> str:
    """Where a program written for the documented runtime or engine finds each name here, and what differs."""
    import tracehold

    runtime = ImportMap(tracehold, documented.load())
    engine = ImportMap(tracehold, documented.load(documented_b.FROZEN))
    lines = [
        *_head(
            f"From {runtime.package} and {engine.package} to Tracehold",
            "`tests/contract/documented_*.json`, `tests/contract/import_map.toml` and the signatures in the code",
        ),
        f"A program written for the agent runtime of {runtime.distribution} {runtime.version} (imported as `{runtime.package}`)",
        f"or for the engine of {engine.distribution} {engine.version} (imported as `{engine.package}`) changes its imports and keeps",
        "its calls: every documented name comes from `tracehold` itself, whatever module it came from, with the documented",
        "parameters, order and defaults.",
        "",
        "```diff",
        f"-from {runtime.package} import Harness, Tracer",
        f"-from {runtime.package}.runtime.sessions import SqliteSessionStore",
        f"-from {engine.package}.runtime import Budget, Engine",
        f"-from {engine.package}.privacy import standard_redactor",
        "+from tracehold import Budget, Engine, Harness, SqliteSessionStore, Tracer, standard_redactor",
        "```",
        "",
        "Where the documented behaviour leaves a point open, or was changed on purpose, is listed as decisions (DEC) in",
        f"[clauses.md](clauses.md#{_anchor(clauses.CHAPTERS['DEC'])}).",
        "",
        *_imports("The agent runtime", runtime, "These public names are no part of the documented runtime, and"),
        "",
        *_imports(
            "The engine",
            engine,
            "These public names of the modules around the engine are no part of the documented one, and",
        ),
    ]
    return _page(lines)


def _imports(title: str, names: ImportMap, absence: str) -> list[str]:
    """The chapter of one documented package."""
    return [
        f"## {title}: {names.package}",
        "",
        f"### What has another name than in {names.package}",
        "",
        *_table(["there", "here", "why"], [[f"`{old}`", f"`{new}`", why] for old, new, why in names.renamed]),
        "",
        f"### Documented names of {names.package}",
        "",
        "What is added is keyword-only and has a default, so that a documented call means what it meant.",
        "",
        *_table(
            ["documented import", "here", "added parameters"],
            [[f"`{there}`", f"`{here}`", more] for there, here, more in names.documented()],
        ),
        "",
        f"### Further names of {names.package} that are here too",
        "",
        "The documented names or their clauses mention these, or programs expect them. Where a clause states how one is",
        "called, a test holds it.",
        "",
        *_table(["import", "here"], [[f"`{there}`", f"`{here}`"] for there, here in names.others()]),
        "",
        f"### What of {names.package} is not here",
        "",
        f"{absence} Tracehold exports none of that name:",
        "",
        *_table(
            ["module", "names"],
            [[f"`{module}`", ", ".join(f"`{name}`" for name in absent)] for module, absent in names.absent().items()],
        ),
    ]


_MADE_DEFAULTS = {"data_dir": "the platform's user data folder", "decoders": "one a core, at least 2"}


def settings_block() -> str:
    """The collector's settings as a table."""
    from tracehold_collector.core.settings import CollectorSettings

    flags = _flags("collect")
    rows = []
    for name, field in CollectorSettings.model_fields.items():
        flag = f"--{name.replace('_', '-')}"
        default = _MADE_DEFAULTS[name] if field.default_factory else field.default
        rows.append(
            [
                f"`{name}`",
                f"`TRACEHOLD_{name.upper()}`",
                f"`{flag}`" if flag in flags else "",
                "none" if default is None else str(default),
                field.description or "",
            ]
        )
    return "\n".join(_table(["setting", "variable", "flag of `collect`", "default", "meaning"], rows))


def limits_block() -> str:
    """The limits on what a sender may send."""
    from tracehold_collector.core.limits import Limits

    meanings = dict(re.findall(r"^ +(max_\w+): (.*)$", Limits.__doc__ or "", flags=re.MULTILINE))
    rows = [[f"`{item.name}`", f"{item.default:,}", meanings[item.name]] for item in dataclasses.fields(Limits)]
    return "\n".join(_table(["limit", "value", "of what"], rows))


def controls_block() -> str:
    """Which control serves which rule, and what shows it."""
    from tracehold_collector.controls.catalogue import load_controls

    rows = []
    for control in load_controls().controls.values():
        shown_by = [*map(_shown_command, control.commands), *([f"page {control.page}"] if control.page else [])]
        dates = ", ".join(f"`{name}`" for name in control.dates)
        rows.append([control.what, "; ".join(control.serves), ", ".join(shown_by), dates])
    return "\n".join(_table(["control", "serves", "shown by", "dates"], rows))


def _shown_command(command: str) -> str:
    """A command as it is typed; one that this version does not have yet is named as such."""
    _, verb, *inner = command.split()
    known = _command().commands.get(verb)
    below = getattr(known, "commands", None)
    exists = known is not None and (below is None or not inner or inner[0] in below)
    return f"`{command}`" if exists else f"{command} (not built yet)"


def dates_block() -> str:
    """When the rules apply, each with its source."""
    from tracehold_collector.controls.catalogue import load_controls

    catalogue = load_controls()
    rows = [[f"`{one.id}`", one.what, str(one.value), one.source, one.note or ""] for one in catalogue.dates.values()]
    table = _table(["id", "what", "from, or how long", "source", "note"], rows)
    return "\n".join([f"As of {catalogue.as_of}.", "", *table])


def roles_block() -> str:
    """What each role may."""
    from tracehold_collector.access.roles import MAY

    return "\n".join(_table(["role", "may"], [[f"`{role}`", may] for role, may in MAY.items()]))


def needs_block() -> str:
    """Which role each address needs."""
    from tracehold_collector.api.needs import GRPC, HTTP

    by_role: dict[str, list[str]] = {}
    for path, need in HTTP.items():
        by_role.setdefault(need.role, []).append(f"`{path}`")
    for service, need in GRPC.items():
        by_role[need.role].append(f"gRPC `{service.rpartition('.')[2]}`")
    return "\n".join(
        _table(["needs the role", "address"], [[f"`{role}`", ", ".join(at)] for role, at in by_role.items()])
    )


def api_page() -> str:
    """Every HTTP address, from the OpenAPI document."""
    from tracehold_collector.api.app import make_routes
    from tracehold_collector.api.contract.document import build_document

    document = build_document(make_routes())
    lines = [
        *_head("The HTTP API", "the OpenAPI document that the collector serves at `/openapi.json`"),
        "A running collector serves the whole contract as OpenAPI 3.1: parameters, bodies, answers and errors of each address,",
        "each named query with the types of its columns. Point Swagger UI, a generator of clients or a fuzzer at it:",
        "",
        "```sh",
        'curl -H "Authorization: Bearer $TRACEHOLD_API_KEY" http://127.0.0.1:4318/openapi.json',
        "```",
        "",
        "A test calls every operation with generated requests and holds what comes back to the document. A key is shown as",
        "`Authorization: Bearer KEY` or `x-api-key: KEY`. Errors are JSON, `error` and often `hint`; OTLP and Jaeger's API have",
        "their own forms. What Jaeger's answers hold is documented by Jaeger.",
    ]
    for tag, title in _TAGS.items():
        lines += ["", f"## {title}", ""]
        lines += _table(
            ["address", "role", "what", "parameters"],
            [
                [f"`{method.upper()} {path}`", _role(operation), operation["summary"], _parameter_names(operation)]
                for path, methods in document["paths"].items()
                for method, operation in methods.items()
                if operation["tags"] == [tag]
            ],
        )
    return _page(lines)


_TAGS: Final = {
    "ingest": "What agents send",
    "ask": "What people, dashboards and scripts ask",
    "jaeger": "Jaeger's query API",
    "operate": "For whoever runs it",
}


def _role(operation) -> str:
    found = re.search(r"Needs the role `(\w+)`", operation["description"])
    return f"`{found[1]}`" if found else "none"


def _parameter_names(operation) -> str:
    return ", ".join(
        f"`{one['name']}`" + (" (required)" if one["required"] else "")
        for one in operation["parameters"]
        if one["in"] == "query"
    )


PAGES: Final[dict[str, Callable[[], str]]] = {
    "queries.md": queries_page,
    "api.md": api_page,
    "cli.md": cli_page,
    "dialects.md": dialects_page,
    "recorded.md": recorded_page,
    "clauses.md": clauses_page,
    "import-map.md": import_map_page,
}
"""Pages that are made as a whole, by their name in `docs/`."""

BLOCKS: Final[dict[tuple[str, str], Callable[[], str]]] = {
    ("auditors.md", "controls"): controls_block,
    ("auditors.md", "dates"): dates_block,
    ("operators.md", "settings"): settings_block,
    ("operators.md", "limits"): limits_block,
    ("operators.md", "roles"): roles_block,
    ("operators.md", "needs"): needs_block,
}
"""Parts of written pages, between `<!-- made: NAME -->` and `<!-- end: NAME -->`."""


def with_block(text: str, name: str, block: str) -> str:
    """Return `text` with the part called `name` replaced.

    Raises:
        ValueError: the page has no such part.
    """
    begin, end = f"<!-- made: {name} -->", f"<!-- end: {name} -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the page has no part between {begin} and {end}")
    return f"{before}{begin}\n{block}\n{end}{after}"


def verbs() -> list[str]:
    """The verbs of the `tracehold` command, in the order its help lists them."""
    return list(_command().commands)


def _command():
    import typer
    from tracehold_collector.cli.app import app

    return typer.main.get_command(app)


def _flags(verb: str) -> set[str]:
    return {flag for parameter in _command().commands[verb].params for flag in parameter.opts}


def _help(*verb: str) -> str:
    return _helps()[verb]


@cache
def _helps() -> dict[tuple[str, ...], str]:
    """Every command's help, from one process: plain text of a fixed width, whoever makes the page, and where."""
    commands = _command().commands
    verbs: list[tuple[str, ...]] = [()]
    for verb, command in commands.items():
        verbs += [(verb,), *((verb, inner) for inner in getattr(command, "commands", {}))]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRACEHOLD_", "TYPER_"))}
    environment = kept | {"TYPER_USE_RICH": "0", "NO_COLOR": "1", "COLUMNS": "80", "TERM": "dumb"}
    done = subprocess.run(
        [sys.executable, "-c", _TELL_HELPS, json.dumps(verbs)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    told = zip(verbs, json.loads(done.stdout), strict=True)
    return {verb: "\n".join(line.rstrip() for line in text.strip().splitlines()) for verb, text in told}


_TELL_HELPS = """
import contextlib, io, json, sys
import typer
from tracehold_collector.cli.app import app
command = typer.main.get_command(app)
texts = []
for verb in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        command.main([*verb, "--help"], prog_name="tracehold", standalone_mode=False)
    texts.append(said.getvalue())
print(json.dumps(texts))
"""


def _chapter(prefix: str) -> str:
    return clauses.CHAPTERS.get(prefix, prefix)


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _shortened(tests: Sequence[str]) -> str:
    shown = ", ".join(f"`{test}`" for test in tests[:_SHOWN_TESTS])
    return f"{shown} and {len(tests) - _SHOWN_TESTS} more" if len(tests) > _SHOWN_TESTS else shown


def _allowed(choices: Sequence[str], minimum: int | None, maximum: int | None) -> str:
    if choices:
        return f"; one of {', '.join(choices)}"
    if minimum is not None and maximum is not None:
        return f"; {minimum} to {maximum}"
    return f"; at least {minimum}" if minimum is not None else ""


def _head(title: str, source: str) -> list[str]:
    return [f"# {title}", "", _NOTICE, "", f"Made from {source}.", ""]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    return [line(header), line(["---"] * len(header)), *map(line, rows)]


def _page(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write everything that is made, and name what changed."""
    made = {DOCS / name: page() for name, page in PAGES.items()}
    for (name, block), make in BLOCKS.items():
        path = DOCS / name
        made[path] = with_block(made.get(path) or path.read_text("utf-8"), block, make())
    for path, text in made.items():
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            print(f"written {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
