"""The collector's HTTP API, as the pages use it."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any, Final, Self
from urllib.parse import quote

import httpx
import pandas as pd
import pyarrow as pa

from tracehold_dashboard.content import WITHHELD
from tracehold_dashboard.errors import (
    DashboardError,
    NotAllowedError,
    NotFoundError,
    RefusedError,
    UnreachableError,
)
from tracehold_dashboard.settings import KEY_VARIABLE, URL_VARIABLE, Settings

ARROW: Final = "application/vnd.apache.arrow.stream"
CONTENTS_AT_ONCE: Final = 200
"""Event ids the collector takes in one request for contents."""

_TIMEOUT: Final = httpx.Timeout(30.0, connect=3.0)
_Params = list[tuple[str, str | int | float | bool | None]]

_WHOLE: Final = {pa.int64(): pd.Int64Dtype()}


class Client:
    """Asks one collector. Cheap to make; use it as a context manager so that its connections are closed."""

    def __init__(self, settings: Settings) -> None:
        """Prepare a client; nothing is sent yet."""
        headers = {"Authorization": f"Bearer {settings.api_key}"} if settings.api_key else {}
        self._settings = settings
        # A proxy named in the environment must not stand between this page and a collector on the same machine.
        # Authorities are the system's and those of SSL_CERT_FILE.
        verify = ssl.create_default_context() if settings.url.startswith("https:") else True
        self._http = httpx.Client(
            base_url=settings.url,
            headers=headers,
            timeout=_TIMEOUT,
            trust_env=not settings.is_loopback,
            verify=verify,
        )

    def __enter__(self) -> Self:
        """Give the client itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close its connections."""
        self._http.close()

    def frame(self, query: str, **params: Any) -> pd.DataFrame:
        """Run a named query and give its rows.

        Args:
            query: the query's name in the catalogue.
            **params: its parameters; `None` leaves one at its default.

        Returns:
            A frame with the query's columns. Whole numbers stay whole beside a NULL (`Int64`).

        Raises:
            DashboardError: see the module `errors`.
        """
        response = self._get(f"/api/v1/queries/{quote(query, safe='')}", _text(params), accept=ARROW)
        try:
            table = pa.ipc.open_stream(response.content).read_all()
        except pa.ArrowInvalid as error:
            raise self._not_a_collector() from error
        frame: pd.DataFrame = table.to_pandas(types_mapper=_WHOLE.get)
        return frame

    def csv(self, query: str, **params: Any) -> bytes:
        """Run a named query and give its rows as the collector writes CSV. Raises as `frame` does."""
        return self._get(f"/api/v1/queries/{quote(query, safe='')}", _text(params), accept="text/csv").content

    def event(self, event_id: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Give one event whole: its envelope, and its content, `None` when there is none or it was erased.

        Content that this key may not see is a mapping that says so under `content_withheld`.

        Raises:
            DashboardError: see the module `errors`.
        """
        answer = self._json(f"/api/v1/events/{quote(event_id, safe='')}", [])
        return answer.get("event") or {}, _said(answer.get("content"), answer)

    def contents(self, event_ids: Iterable[str]) -> dict[str, dict[str, Any] | None]:
        """Give the contents of several events by id. Raises as `frame` does."""
        ids = list(event_ids)
        found: dict[str, dict[str, Any] | None] = {}
        for start in range(0, len(ids), CONTENTS_AT_ONCE):
            params: _Params = [("event_id", event_id) for event_id in ids[start : start + CONTENTS_AT_ONCE]]
            answer = self._json("/api/v1/contents", params)
            found |= {event_id: _said(content, answer) for event_id, content in (answer.get("contents") or {}).items()}
        return found

    def search(self, text: str, **params: Any) -> Iterator[dict[str, Any]]:
        """Look for a text in what events said, and yield what the collector tells of it as it comes.

        Each is a mapping of one key: `hit`, `progress`, and at last `done`. To stop early, close the iterator.

        Args:
            text: what to look for.
            **params: filters, `limit`, `cursor`; `None` leaves one out.

        Raises:
            DashboardError: see the module `errors`.
        """
        with (
            self._translated(),
            self._http.stream("GET", "/api/v1/search/content", params=_text({"text": text, **params})) as response,
        ):
            if not response.is_success:
                response.read()
                raise self._refusal(response)
            for line in response.iter_lines():
                told = json.loads(line) if line else {}
                if "error" in told:
                    raise RefusedError(str(told["error"]), "")
                if told:
                    yield told

    def budgets(self) -> list[dict[str, Any]]:
        """Give how the budgets stand; none from a collector that knows no budgets. Raises as `frame` does."""
        try:
            return list(self._json("/api/v1/budgets", []).get("budgets") or [])
        except NotFoundError:
            return []

    def review(self, event_id: str, tenant: str) -> dict[str, Any]:
        """Give the review of a denial: how it stands, the acts on it, the retries, and who asks. Raises as `frame`."""
        return self._json(f"/api/v1/reviews/{quote(event_id, safe='')}", [("tenant", tenant)])

    def review_act(self, event_id: str, act: dict[str, Any]) -> dict[str, Any]:
        """Act on a denial under this client's key; give how its review stands then. Raises as `frame`."""
        done = self._post(f"/api/v1/reviews/{quote(event_id, safe='')}/acts", act)
        return dict(done.get("review") or {})

    def sign_day(self, day: str, seen: dict[str, Any]) -> dict[str, Any]:
        """Sign a day off under this client's key, with the figures that were seen. Raises as `frame`."""
        return dict(self._post(f"/api/v1/review-days/{quote(day, safe='')}/signatures", seen).get("day") or {})

    def erasure_register(self) -> list[dict[str, Any]]:
        """Give the register of erasures, the overdue ones first. Raises as `frame`."""
        return list(self._json("/api/v1/erasure-register", []).get("erasures") or [])

    def erasure_report(self, erasure_id: str) -> dict[str, Any]:
        """Give the signed report of an erasure, as the file that is handed on. Raises as `frame`."""
        return self._json(f"/api/v1/erasures/{quote(erasure_id, safe='')}/report", [])

    def erasure_report_pdf(self, erasure_id: str) -> bytes:
        """Give the report of an erasure as a PDF. Raises as `frame`."""
        path = f"/api/v1/erasures/{quote(erasure_id, safe='')}/report.pdf"
        return self._get(path, [], accept="application/pdf").content

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        with self._translated():
            response = self._http.post(path, json=body)
        if not response.is_success:
            raise self._refusal(response)
        return self._object(response)

    def _json(self, path: str, params: _Params) -> dict[str, Any]:
        return self._object(self._get(path, params, accept="application/json"))

    def _object(self, response: httpx.Response) -> dict[str, Any]:
        try:
            answer = response.json()
        except ValueError as error:
            raise self._not_a_collector() from error
        if not isinstance(answer, dict):
            raise self._not_a_collector()
        return answer

    def _get(self, path: str, params: _Params, *, accept: str) -> httpx.Response:
        with self._translated():
            response = self._http.get(path, params=params, headers={"Accept": accept})
        if response.is_success:
            return response
        raise self._refusal(response)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        url = self._settings.url
        try:
            yield
        except httpx.TimeoutException as error:
            raise UnreachableError(
                f"The collector at {url} did not answer in time.",
                "It may be busy, or the range too wide. Try again, or choose a shorter range.",
            ) from error
        except httpx.HTTPError as error:
            raise UnreachableError(
                f"No collector answers at {url}.",
                f"Start one with `tracehold up`, or set {URL_VARIABLE} to where yours runs "
                "and start the dashboard again.",
            ) from error

    def _refusal(self, response: httpx.Response) -> DashboardError:
        try:
            answer = response.json()
        except ValueError:
            answer = None
        said = answer if isinstance(answer, dict) else {}
        message, hint = str(said.get("error") or ""), str(said.get("hint") or "")
        if response.status_code == 403 and self._settings.api_key:  # noqa: PLR2004 - HTTP's own number
            return NotAllowedError(message or f"The collector at {self._settings.url} refuses this key.", hint)
        if response.status_code in {401, 403}:
            problem = "does not take this key" if self._settings.api_key else "wants a key"
            return NotAllowedError(
                f"The collector at {self._settings.url} {problem}.",
                f"Set {KEY_VARIABLE} to a key that may read, and start the dashboard again.",
            )
        if response.status_code == 404:  # noqa: PLR2004 - HTTP's own number
            return NotFoundError(message or "The collector holds nothing under that id.", hint)
        return RefusedError(message or f"The collector answered {response.status_code}.", hint)

    def _not_a_collector(self) -> DashboardError:
        return RefusedError(
            f"What answers at {self._settings.url} is not a Tracehold collector, or one of another version.",
            f"Check {URL_VARIABLE}.",
        )


def _said(content: dict[str, Any] | None, answer: dict[str, Any]) -> dict[str, Any] | None:
    """Give the content, or in its place why the collector keeps it back."""
    why = answer.get(WITHHELD)
    return {WITHHELD: str(why)} if content is None and why else content


def _text(params: dict[str, Any]) -> _Params:
    """Write parameters the way a URL carries them; what is `None` is left out."""
    written: _Params = []
    for name, value in params.items():
        if isinstance(value, bool):
            written.append((name, "true" if value else "false"))
        elif isinstance(value, date):
            written.append((name, value.isoformat()))
        elif value is not None:
            written.append((name, str(value)))
    return written
