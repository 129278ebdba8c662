"""Asks a collector as a notebook would, and works on with pandas.

pip install httpx pandas pyarrow
"""

from __future__ import annotations

import os

import httpx
import pandas as pd
import pyarrow as pa

URL = os.environ.get("TRACEHOLD_URL", "http://127.0.0.1:4318")
KEY = os.environ.get("TRACEHOLD_API_KEY")


def ask(query: str, **parameters: str | int) -> pd.DataFrame:
    """Return the rows of a named query; whole numbers stay whole beside an unknown."""
    headers = {"Accept": "application/vnd.apache.arrow.stream"}
    if KEY:
        headers["Authorization"] = f"Bearer {KEY}"
    try:
        answer = httpx.get(f"{URL}/api/v1/queries/{query}", params=parameters, headers=headers)
    except httpx.TransportError:
        raise SystemExit(f"no collector answers at {URL}; start one with `tracehold up`") from None
    answer.raise_for_status()
    table = pa.ipc.open_stream(answer.content).read_all()
    return table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)


def main() -> None:
    """Print which agents were stopped how often, and what each cost."""
    runs = ask("runs", limit=500)
    figures = runs.groupby("agent", dropna=False).agg(
        runs=("run_id", "count"), denials=("denials", "sum"), unpriced_calls=("unpriced_calls", "sum")
    )
    # min_count: the sum of unknown costs is unknown, not zero.
    figures["cost_usd"] = runs.groupby("agent", dropna=False)["cost_usd"].sum(min_count=1)
    print(figures.to_string())


if __name__ == "__main__":
    main()
