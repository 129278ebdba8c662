"""The map of imports leads to names that are there."""

from __future__ import annotations

import importlib
import re

import pytest
import tracehold
from contract import documented, documented_b
from contract.import_map import ImportMap

MAPS = [
    pytest.param(ImportMap(tracehold, documented.load()), id="agent runtime"),
    pytest.param(ImportMap(tracehold, documented.load(documented_b.FROZEN)), id="engine"),
]


@pytest.mark.parametrize("names", MAPS)
def test_every_documented_name_is_imported_from_the_top(names: ImportMap) -> None:  # DEC-16
    rows = list(names.documented())
    assert len(rows) > 10
    for there, here, _ in rows:
        assert there.startswith(f"{names.package}.")
        assert here == f"tracehold.{there.rpartition('.')[2]}"
        assert here.partition(".")[2] in tracehold.__all__


@pytest.mark.parametrize("names", MAPS)
def test_every_further_name_can_be_imported_from_where_the_map_says(names: ImportMap) -> None:
    for _, here in names.others():
        module, _, name = here.rpartition(".")
        assert hasattr(importlib.import_module(module), name), here


@pytest.mark.parametrize("names", MAPS)
def test_what_has_another_name_leads_to_one_that_is_there(names: ImportMap) -> None:
    for _, here, _ in names.renamed:
        name, _, member = re.match(r"[\w.]+", here)[0].partition(".")
        assert name in tracehold.__all__
        assert not member or hasattr(getattr(tracehold, name), member), here


@pytest.mark.parametrize("names", MAPS)
def test_a_name_stands_in_one_chapter_only(names: ImportMap) -> None:
    told = [there.rpartition(".")[2] for there, _, _ in names.documented()]
    told += [there.rpartition(".")[2] for there, _ in names.others()]
    told += [name for absent in names.absent().values() for name in absent]
    assert len(told) == len(set(told))
    assert not set(told) & {old for old, _, _ in names.renamed}


def test_the_memory_scope_is_not_taken_for_the_scope_of_a_conversation() -> None:  # DEC-16
    engine = ImportMap(tracehold, documented.load(documented_b.FROZEN))
    assert "tracehold.Scope" not in [here for _, here in engine.others()]
    assert ["Scope", "MemoryScope"] in [[old, new] for old, new, _ in engine.renamed]
