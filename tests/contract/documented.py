"""What an API reference documents, as facts: names, parameters, kinds, defaults and marks; none of its sentences.

The references do not ship. `documented_a.json` (the agent runtime) and `documented_b.json` (the engine, read by
`documented_b.py`) keep the facts, so that the check of our signatures runs everywhere; where a reference is at hand, a
test holds the facts against it. Write those of the agent runtime anew with

    python tests/contract/documented.py PATH_OF_THE_REFERENCE > tests/contract/documented_a.json
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

FROZEN: Final = Path(__file__).with_name("documented_a.json")

MARKS: Final = ("async", "abstractmethod", "property", "dataclass", "classmethod")
"""Words that stand after a heading and say what it is."""

_SECTIONS: Final = frozenset({"Notes", "Fields", "Parameters", "Attributes", "Returns", "Raises"})
_FIRST_FUNCTION: Final = "cli_confirm"
"""Functions of the module follow the methods of the last class, and nothing in the text divides them."""

_MARKED: Final = rf"(?P<marks>(?: (?:{'|'.join(MARKS)}))*)"
_CLASS: Final = re.compile(rf"(?P<name>[A-Z]\w*){_MARKED}")
_CALLABLE: Final = re.compile(rf"(?P<name>[a-z_]\w*)(?P<parameters>\(.*\)){_MARKED}")
_PROPERTY: Final = re.compile(r"(?P<name>[a-z_]\w*)(?P<marks> property)")
_PACKAGE: Final = re.compile(r"public contract is (\w+)\.__all__")
_FIELD: Final = re.compile(r"\b([a-z_]+): (?=[A-Z])")
_FIELD_ROW: Final = re.compile(r"(?!Name\t)(\w+)\t[\w\[\], ]+\t")


@dataclass(frozen=True)
class Parameter:
    """One parameter.

    Attributes:
        name: its name.
        kind: "positional" (or by keyword), "/" (positional only), "keyword" (only), "*" or "**".
        default: the source text of its default, "..." for any; `None` when it is required.
    """

    name: str
    kind: str
    default: str | None = None


@dataclass(frozen=True)
class Entry:
    """One documented name.

    Attributes:
        name: `Class`, `Class.member` or `function`.
        kind: "class", "method", "property" or "function".
        marks: of `MARKS`, and "generator" for what is consumed with `async for`.
        parameters: in order, without `self` and `cls`; empty for a class, whose constructor is an entry of its own.
        bases: what the class is said to derive from.
        fields: of a dataclass, as far as they are listed, in the order of the list.
        returns: the source text of what a call returns; empty where it is not stated.
    """

    name: str
    kind: str
    marks: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    bases: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    returns: str = ""

    @property
    def owner(self) -> str:
        """The name to import."""
        return self.name.partition(".")[0]

    @property
    def member(self) -> str:
        """The member's own name; empty for a class or a function."""
        return self.name.partition(".")[2]


@dataclass(frozen=True)
class Documented:
    """A whole reference: the package it describes, and what it documents."""

    package: str
    entries: tuple[Entry, ...]


def read_reference(path: Path) -> Documented:
    """Extract the facts of a reference whose headings are `Class marks`, `name(parameters) marks`, `name property`.

    Raises:
        ValueError: the text is no such reference.
    """
    blocks = [block.strip() for block in path.read_text("utf-8").strip("\0").split("\n\n")]
    package = next((found[1] for block in blocks if (found := _PACKAGE.search(block))), None)
    if package is None:
        raise ValueError(f"{path} names no package: it is not the reference this parser reads")
    return Documented(package, tuple(_entries(blocks[1:])))  # the first block is the page's title


def parameters(text: str) -> tuple[Parameter, ...]:
    """Read `(a, /, b, *, c=1, **kw)`; annotations are allowed and left out, and so is a leading `self` or `cls`.

    Raises:
        SyntaxError: this is no list of parameters.
    """
    function = ast.parse(f"def f{text}: ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    stated = function.args
    positional = [
        *((argument, "/") for argument in stated.posonlyargs),
        *((argument, "positional") for argument in stated.args),
    ]
    missing: list[ast.expr | None] = [None] * (len(positional) - len(stated.defaults))
    found = [
        Parameter(argument.arg, kind, _source(default))
        for (argument, kind), default in zip(positional, [*missing, *stated.defaults], strict=True)
    ]
    if stated.vararg:
        found.append(Parameter(stated.vararg.arg, "*"))
    found += [
        Parameter(argument.arg, "keyword", _source(default))
        for argument, default in zip(stated.kwonlyargs, stated.kw_defaults, strict=True)
    ]
    if stated.kwarg:
        found.append(Parameter(stated.kwarg.arg, "**"))
    return tuple(found[1:] if found and found[0].name in {"self", "cls"} else found)


def dump(documented: Documented) -> str:
    """Return the facts as JSON, an entry a line; what is empty is left out."""
    lines = [
        json.dumps({key: value for key, value in _plain(entry).items() if value not in ([], None, "")})
        for entry in documented.entries
    ]
    body = ",\n    ".join(lines)
    return f'{{\n  "package": {json.dumps(documented.package)},\n  "entries": [\n    {body}\n  ]\n}}\n'


def load(path: Path = FROZEN) -> Documented:
    """Read what `dump` wrote."""
    kept = json.loads(path.read_text("utf-8"))
    return Documented(kept["package"], tuple(_entry(item) for item in kept["entries"]))


def _entries(blocks: list[str]) -> Iterator[Entry]:
    owner = ""
    for place, block in enumerate(blocks):
        if found := _CLASS.fullmatch(block):
            if found["name"] in _SECTIONS:
                continue
            owner = found["name"]
            about = list(_until_next_heading(blocks[place + 1 :]))
            marks = tuple(found["marks"].split())
            fields = tuple(_fields(about)) if "dataclass" in marks else ()
            yield Entry(owner, "class", marks, bases=tuple(_bases(about)), fields=fields)
        elif found := _CALLABLE.fullmatch(block):
            owner = "" if found["name"] == _FIRST_FUNCTION else owner
            marks = tuple(found["marks"].split())
            if "async" in marks and re.match(r"[^:.]*[:.]? *yield\b", blocks[place + 1]):
                marks = (*marks, "generator")
            name, kind = (f"{owner}.{found['name']}", "method") if owner else (found["name"], "function")
            yield Entry(name, kind, marks, parameters(found["parameters"]))
        elif found := _PROPERTY.fullmatch(block):
            yield Entry(f"{owner}.{found['name']}", "property")


def _until_next_heading(blocks: list[str]) -> Iterator[str]:
    for block in blocks:
        heading = _CLASS.fullmatch(block)
        if _CALLABLE.fullmatch(block) or _PROPERTY.fullmatch(block) or (heading and heading["name"] not in _SECTIONS):
            return
        yield block


def _bases(about: list[str]) -> Iterator[str]:
    for block in about:
        if block.startswith("Bases: "):
            yield from block.removeprefix("Bases: ").split(", ")


def _fields(about: list[str]) -> list[str]:
    """The fields of a dataclass: rows of a table, else `name: Sentence` one after the other in a paragraph."""
    rows = [row[1] for block in about for line in block.splitlines() if (row := _FIELD_ROW.match(line))]
    if rows:
        return rows
    return next((names for block in about if len(names := _FIELD.findall(block)) > 1), [])


def _source(default: ast.expr | None) -> str | None:
    return None if default is None else ast.unparse(default)


def _plain(entry: Entry) -> dict[str, Any]:
    plain = asdict(entry)
    plain["parameters"] = [
        [item.name, item.kind] if item.default is None else [item.name, item.kind, item.default]
        for item in entry.parameters
    ]
    return {key: list(value) if isinstance(value, tuple) else value for key, value in plain.items()}


def _entry(item: dict[str, Any]) -> Entry:
    lists = {key: tuple(item.get(key, ())) for key in ("marks", "bases", "fields")}
    found = tuple(Parameter(*parameter) for parameter in item.get("parameters", ()))
    return Entry(item["name"], item["kind"], parameters=found, returns=item.get("returns", ""), **lists)


if __name__ == "__main__":
    sys.stdout.write(dump(read_reference(Path(sys.argv[1]))))
