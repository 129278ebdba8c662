"""Reads the map of controls and rules: the file that ships, and a file of the user's own on top of it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from importlib import resources
from pathlib import Path
from typing import Any, Final

from tracehold_collector.core.errors import CollectorError

FILE_NAME: Final = "controls.toml"
MAX_BYTES: Final = 1024 * 1024

_DATE_KEYS: Final = frozenset({"id", "what", "from", "period", "source", "note"})
_CONTROL_KEYS: Final = frozenset({"id", "what", "serves", "commands", "page", "dates"})


class ControlsError(CollectorError):
    """A file of controls cannot be used; the text names the file and the entry."""


@dataclass(frozen=True, slots=True)
class RuleDate:
    """When a rule applies, or how long something is kept.

    Attributes:
        id: what controls refer to it by.
        what: for people.
        value: a date, or words such as "6 months".
        source: where it stands.
        note: what else to know; `None` for nothing.
    """

    id: str
    what: str
    value: date | str
    source: str
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Control:
    """One control.

    Attributes:
        id: its short name.
        what: what it does, for people.
        serves: the rules, each as "LAW article or requirement".
        commands: those that show it, each as typed up to its arguments.
        page: the dashboard's page that shows it; `None` when none does.
        dates: ids of the dates that matter for it.
    """

    id: str
    what: str
    serves: tuple[str, ...]
    commands: tuple[str, ...]
    page: str | None = None
    dates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All controls and dates, as of a day on which somebody looked them up."""

    as_of: date
    dates: Mapping[str, RuleDate]
    controls: Mapping[str, Control]


def load_controls(own: Path | None = None) -> Catalogue:
    """Return the map that ships, with what a file of the user's own puts in place of its entries or adds to them.

    Args:
        own: a TOML file of the same form; `as_of` is then that of the file, where it says one.

    Raises:
        ControlsError: a file cannot be read, or an entry is not what it must be.
    """
    shipped = resources.files("tracehold_collector.controls") / FILE_NAME
    base = _parsed(shipped.read_bytes(), FILE_NAME)
    if own is None:
        return _checked(base, FILE_NAME)
    try:
        with own.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ControlsError(f"{own} cannot be read: {error.strerror}") from error
    if len(raw) > MAX_BYTES:
        raise ControlsError(f"{own} is larger than {MAX_BYTES:,} bytes")
    change = _parsed(raw, str(own))
    merged = Catalogue(
        change.as_of if change.as_of != date.min else base.as_of,
        {**base.dates, **change.dates},
        {**base.controls, **change.controls},
    )
    return _checked(merged, str(own))


def _parsed(raw: bytes, name: str) -> Catalogue:
    try:
        document = tomllib.loads(raw.decode("utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ControlsError(f"{name} is no TOML in UTF-8: {error}") from error
    if unknown := document.keys() - {"as_of", "dates", "controls"}:
        raise ControlsError(f"{name}: unknown key {min(unknown)!r}; known are as_of, dates, controls")
    as_of = document.get("as_of", date.min)
    if type(as_of) is not date:
        raise ControlsError(f"{name}: as_of is a date, such as 2026-11-30")
    dates = [_date(entry, name) for entry in _entries(document, "dates", name)]
    controls = [_control(entry, name) for entry in _entries(document, "controls", name)]
    return Catalogue(as_of, {one.id: one for one in dates}, {one.id: one for one in controls})


def _checked(catalogue: Catalogue, name: str) -> Catalogue:
    for control in catalogue.controls.values():
        for reference in control.dates:
            if reference not in catalogue.dates:
                raise ControlsError(
                    f"{name}: the control {control.id!r} names the date {reference!r}, which is not there"
                )
    return catalogue


def _entries(document: Mapping[str, Any], key: str, name: str) -> list[Mapping[str, Any]]:
    entries = document.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise ControlsError(f"{name}: {key} is a list of tables, [[{key}]]")
    ids = [entry.get("id") for entry in entries]
    for one in ids:
        if not isinstance(one, str) or not one or ids.count(one) > 1:
            raise ControlsError(f"{name}: each of [[{key}]] has an id of its own; see {one!r}")
    return entries


def _date(entry: Mapping[str, Any], name: str) -> RuleDate:
    where = f"{name}: the date {entry['id']!r}"
    _known(entry, _DATE_KEYS, where)
    value = entry.get("from", entry.get("period"))
    if ("from" in entry) == ("period" in entry) or not isinstance(value, date | str) or not value:
        raise ControlsError(f"{where} has either from, a date, or period, words such as '6 months'")
    if "from" in entry and type(value) is not date:
        raise ControlsError(f"{where}: from is a date, such as 2026-11-30")
    note = entry.get("note")
    return RuleDate(entry["id"], _text(entry, "what", where), value, _text(entry, "source", where), note)


def _control(entry: Mapping[str, Any], name: str) -> Control:
    where = f"{name}: the control {entry['id']!r}"
    _known(entry, _CONTROL_KEYS, where)
    return Control(
        entry["id"],
        _text(entry, "what", where),
        _texts(entry, "serves", where),
        _texts(entry, "commands", where),
        entry.get("page"),
        _texts(entry, "dates", where) if "dates" in entry else (),
    )


def _known(entry: Mapping[str, Any], keys: frozenset[str], where: str) -> None:
    if unknown := entry.keys() - keys:
        raise ControlsError(f"{where}: unknown key {min(unknown)!r}; known are {', '.join(sorted(keys))}")
    for key in ("note", "page"):
        if not isinstance(entry.get(key, ""), str):
            raise ControlsError(f"{where}: {key} is a text")


def _text(entry: Mapping[str, Any], key: str, where: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise ControlsError(f"{where} lacks {key}, a text" + ("; every date has a source" if key == "source" else ""))
    return value


def _texts(entry: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = entry.get(key)
    if not isinstance(value, list) or not value or not all(isinstance(one, str) and one for one in value):
        raise ControlsError(f"{where}: {key} is a list of texts, not empty")
    return tuple(value)
