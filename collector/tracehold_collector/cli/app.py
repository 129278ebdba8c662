"""The whole command, every verb of it: for its help, its documentation and its tests."""

from __future__ import annotations

from tracehold_collector.cli.verbs import VERBS, make_app

app = make_app(VERBS)
