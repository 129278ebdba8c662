"""`import tracehold`: light, complete, true to its own list."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import tracehold

HEAVY = (
    "duckdb",
    "streamlit",
    "pandas",
    "pyarrow",
    "opentelemetry",
    "starlette",
    "uvicorn",
    "pydantic",
    "numpy",
    "httpx",
)


def test_every_declared_name_is_a_real_one() -> None:
    for name in tracehold.__all__:
        assert getattr(tracehold, name) is not None


def test_dir_lists_what_is_declared() -> None:
    assert dir(tracehold) == sorted(tracehold.__all__)


def test_an_unknown_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Tracr'"):
        tracehold.Tracr  # noqa: B018


def test_the_type_checking_block_and_the_table_name_the_same_objects() -> None:
    source = importlib.util.find_spec("tracehold").origin
    with Path(source).open(encoding="utf-8") as file:
        declared = {
            line.split(" as ")[1].strip() for line in file if line.startswith("    from tracehold") and " as " in line
        }
    assert declared == set(tracehold.__all__) - {"__version__"}


def test_a_cold_import_loads_no_optional_package() -> None:
    code = f"import sys, tracehold; print([name for name in {HEAVY!r} if name in sys.modules])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "[]"


def test_the_tracer_itself_needs_no_optional_package() -> None:
    code = (
        "import sys; from tracehold import Tracer, CollectorExporter; Tracer()\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "[]"
