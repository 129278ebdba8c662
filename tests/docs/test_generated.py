"""Pages that are made from the code are as the code is now."""

from __future__ import annotations

import generate_docs as made
import pytest


@pytest.mark.parametrize("name", made.PAGES)
def test_a_generated_page_is_current(name: str) -> None:
    assert (made.DOCS / name).read_text("utf-8") == made.PAGES[name](), f"docs/{name} is stale: run `make docs`"


@pytest.mark.parametrize(("name", "block"), made.BLOCKS)
def test_a_generated_part_of_a_page_is_current(name: str, block: str) -> None:
    text = (made.DOCS / name).read_text("utf-8")
    fresh = made.with_block(text, block, made.BLOCKS[name, block]())
    assert text == fresh, f"docs/{name} is stale: run `make docs`"


def test_a_page_without_the_part_is_refused() -> None:
    with pytest.raises(ValueError, match="made: settings"):
        made.with_block("# A page", "settings", "table")
