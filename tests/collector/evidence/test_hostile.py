"""Bundles that strangers wrote: the verifier answers, and never breaks down."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.evidence import Outcome, World, check_bundle, tampered

JUNK: list[Any] = [None, True, -1, 5, 1 << 70, 1e400, "", "x", "\ud800", "9" * 25, [], [5], [[]], {}, {"a": {}}]
NAMES = ("evidence.json", "records.jsonl", "content.jsonl", "population.jsonl", "others.jsonl", "erased.jsonl")


@pytest.fixture(scope="module")
def whole(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with every file there can be."""
    folder = tmp_path_factory.mktemp("hostile")
    path = world.bundle(folder / "b.zip", complete=True, with_content=True, sample=("seed", 4))
    erased = b'{"leaf_index": 3, "event_id": "00000000-0000-0000-0000-0000000000ff", "erasure_id": "e"}\n'
    return tampered(path, {"erased.jsonl": lambda _data: erased})


def places(item: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value."""
    yield path
    children: Iterator[tuple[Any, Any]] = iter(())
    if isinstance(item, dict):
        children = iter(item.items())
    elif isinstance(item, list):
        children = iter(enumerate(item[:3]))
    for key, child in children:
        yield from places(child, (*path, key))


def put(item: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The JSON value with another one at a place."""
    if not path:
        return value
    copy = item.copy()
    copy[path[0]] = put(item[path[0]], path[1:], value)
    return copy


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_any_value_of_a_bundle_may_be_anything_and_the_verifier_still_answers(
    whole: Path, world: World, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(NAMES))

    def edit(text: bytes) -> bytes:
        lines = [text] if name == "evidence.json" else text.splitlines()
        item = json.loads(lines[0])
        path = data.draw(st.sampled_from(list(places(item))))
        lines[0] = json.dumps(put(item, path, data.draw(st.sampled_from(JUNK)))).encode()
        return b"\n".join(lines)

    found: Outcome = check_bundle(tampered(whole, {name: edit}), "--key", world.key())
    assert found.code in {0, 1, 2}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(at=st.integers(0, 1 << 30), bit=st.integers(0, 7), cut=st.booleans())
def test_any_byte_of_the_zip_file_may_be_another_and_the_verifier_still_answers(
    whole: Path, world: World, at: int, bit: int, cut: bool
) -> None:
    data = bytearray(whole.read_bytes())
    place = at % len(data)
    data[place] ^= 1 << bit
    path = whole.with_name("flipped.zip")
    path.write_bytes(data[:place] if cut else data)
    assert check_bundle(path, "--key", world.key()).code in {0, 1, 2}


def test_small_file_that_unpacks_to_a_huge_one_is_refused(
    whole: Path, world: World, check: Callable[..., Outcome]
) -> None:
    path = whole.with_name("bomb.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bomb, bomb.open("evidence.json", "w") as file:
        for _ in range(65):
            file.write(b" " * 1024 * 1024)
    found = check(path, "--key", world.key())
    assert (found.code, "larger than" in found.said["error"]) == (2, True)
