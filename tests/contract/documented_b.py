"""Reads the reference of the engine: a mark of an object's kind stands in its heading, its annotated signature below.

    `aaa.runtime`¶              a package
    Engine ¶                    a class, a member of the class above, or a function
    abort `async` ¶             the same, with a mark

    abort() -> None             its signature, of one line or of many

Some signatures have no heading, some headings no signature. After the text the whole list of headings follows twice
more, for navigation. Write the facts anew with

    PYTHONPATH=tests python -m contract.documented_b PATH_OF_THE_REFERENCE > tests/contract/documented_b.json
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Final

from contract.documented import MARKS, Documented, Entry, dump, parameters

FROZEN: Final = Path(__file__).with_name("documented_b.json")

_FIRST_FUNCTION: Final = "standard_redactor"
"""Functions follow the methods of the last class, and nothing in the text divides them."""

_PACKAGE: Final = re.compile(r"`(\w+)\.\w+`¶")
_HEADING: Final = re.compile(rf"(?P<name>\w+)(?P<marks>(?: `(?:{'|'.join(MARKS)})`)*) ¶")
_SIGNATURE: Final = re.compile(r"(?P<name>\w+)(?P<parameters>\(.*\))(?: -> (?P<returns>[^()]+))?", re.DOTALL)
_GENERATES: Final = re.compile(r"Async(?:Iterator|Generator)\[")


def read_reference(path: Path) -> Documented:
    """Extract the facts of such a reference.

    Raises:
        ValueError: the text is no such reference, or a function in it has no signature.
    """
    blocks = [block.strip() for block in path.read_text("utf-8").strip("\0").split("\n\n")]
    package = _PACKAGE.fullmatch(blocks[0])
    if package is None:
        raise ValueError(f"{path} does not begin with a package: it is not the reference this parser reads")
    navigation = blocks[0].replace("`", "")
    return Documented(package[1], tuple(_entries(list(takewhile(lambda block: block != navigation, blocks)))))


def _entries(blocks: list[str]) -> Iterator[Entry]:
    owner, heading = "", ""
    marks: tuple[str, ...] = ()
    for place, block in enumerate(blocks):
        if found := _HEADING.fullmatch(block):
            heading, marks = found["name"], tuple(found["marks"].replace("`", "").split())
            if heading[0].isupper():
                owner = heading
                yield Entry(owner, "class", marks, bases=_bases(blocks[place + 1 :]))
            elif not blocks[place + 1].startswith(f"{heading}("):
                raise ValueError(f"below the heading {heading} stands no signature of it")
        elif found := _SIGNATURE.fullmatch(block):
            name = found["name"]
            owner = "" if name == _FIRST_FUNCTION else owner
            stated = parameters(found["parameters"])
            if name == owner:
                yield Entry(f"{owner}.__init__", "method", parameters=stated)
                continue
            known = marks if name == heading else ()
            returns = ast.unparse(ast.parse(found["returns"], mode="eval")) if found["returns"] else ""
            known = (*known, "generator") if _GENERATES.match(returns) else known
            full, kind = (f"{owner}.{name}", "method") if owner else (name, "function")
            yield Entry(full, kind, known, stated, returns=returns)


def _bases(about: list[str]) -> tuple[str, ...]:
    """The public bases of the class whose text begins here; what a private one is called is nobody's business."""
    own = takewhile(lambda block: not _HEADING.fullmatch(block), about)
    stated = next((block.removeprefix("Bases: ") for block in own if block.startswith("Bases: ")), "")
    return tuple(name for name in stated.split(", ") if name and not name.startswith("_"))


if __name__ == "__main__":
    sys.stdout.write(dump(read_reference(Path(sys.argv[1]))))
