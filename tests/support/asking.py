"""Asks a running collector, over HTTP and by the command."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import httpx

from support.processes import COMMAND, clean_environment

Row = dict[str, Any]


class Asker:
    """What a collector at `url` answers."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url, trust_env=False, timeout=60)

    def rows(self, query: str, **parameters: Any) -> list[Row]:
        """The rows of a named query."""
        answer = self._http.get(f"/api/v1/queries/{query}", params=parameters)
        assert answer.status_code == 200, answer.text
        body = answer.json()
        return [dict(zip(body["columns"], row, strict=True)) for row in body["rows"]]

    def row(self, query: str, **parameters: Any) -> Row:
        """The only row of a named query."""
        (row,) = self.rows(query, **parameters)
        return row

    def content(self, event_id: str) -> Row:
        """What an event said."""
        content: Row = self._http.get(f"/api/v1/events/{event_id}").json()["content"]
        return content

    def command(self, *arguments: str) -> list[Row]:
        """What `tracehold` prints with `--json`, a row a line."""
        done = subprocess.run(
            [COMMAND, *arguments, "--json", "--url", self.url],
            env=clean_environment(), capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        return [json.loads(line) for line in done.stdout.splitlines()]

    def close(self) -> None:
        """Hang up."""
        self._http.close()
