"""Links inside the documentation lead somewhere, and no page names a machine."""

from __future__ import annotations

import re
from pathlib import Path

import generate_docs

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), flags=re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_internal_link_leads_to_a_file_and_its_anchor(pages: dict[str, str]) -> None:
    broken = []
    for page, text in pages.items():
        for target in LINK.findall(text):
            if target.startswith(("http://", "https://")):
                continue
            name, _, anchor = target.partition("#")
            path = (ROOT / page).parent / name if name else ROOT / page
            if not path.exists() or (anchor and anchor not in anchors(path.read_text("utf-8"))):
                broken.append(f"{page}: {target}")
    assert not broken


def test_every_page_of_the_documentation_is_reached_from_its_index(pages: dict[str, str]) -> None:
    linked = {target.partition("#")[0] for target in LINK.findall(pages["docs/index.md"])}
    missing = [
        page for page in pages if page.startswith("docs/") and page.removeprefix("docs/") not in linked | {"index.md"}
    ]
    assert not missing


def test_no_page_or_example_names_a_path_of_somebodys_machine(pages: dict[str, str]) -> None:
    programs = {path.name: path.read_text("utf-8") for path in (ROOT / "examples").glob("*.py")}
    for name, text in (pages | programs).items():
        found = re.findall(r"(?:^|[\s`\"'(])(/(?:root|work|home/\w+|Users/\w+|tmp)/\S*)", text)
        assert not found, name
        assert str(ROOT) not in text, name


def test_lines_of_written_pages_are_no_longer_than_120(pages: dict[str, str]) -> None:
    made = {f"docs/{name}" for name in generate_docs.PAGES}
    for page, text in pages.items():
        prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        long = [line for line in prose.splitlines() if len(line) > 120 and not line.lstrip().startswith("|")]
        assert page in made or not long, (page, long)
