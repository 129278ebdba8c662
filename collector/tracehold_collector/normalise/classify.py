"""Which envelope field an attribute fills, and what kind of event a span is: the dialect table, compiled.

The set of a span's attribute names is met with the set of known ones (in C). Spans of one sender have a few such sets:
what each means is worked out once. Twenty attributes cost 2 to 3 microseconds, however many dialects the table knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from tracehold_collector.normalise.dialects import FIELD_KEYS, KIND_KEYS

_FIELD_OF: Final = {key: field for field, keys in FIELD_KEYS.items() for key in keys}
_RANK_OF: Final = {key: -rank for keys in FIELD_KEYS.values() for rank, key in enumerate(keys)}
_KNOWN: Final = frozenset(_FIELD_OF)
_KIND_KNOWN: Final = frozenset(KIND_KEYS)
_KIND_OF: Final = {key: {value.lower(): kind for value, kind in values.items()} for key, values in KIND_KEYS.items()}
# MLflow writes its own values as JSON: a word stands in quotes.
_KIND_OF["mlflow.spanType"] |= {f'"{word}"': kind for word, kind in KIND_KEYS["mlflow.spanType"].items()}
_KIND_ORDER: Final = {key: rank for rank, key in enumerate(KIND_KEYS)}


class Classified(NamedTuple):
    """What kind of event a span is.

    Attributes:
        kind: our kind, or `wrapper` for a task whose usage another span repeats.
        type: the source's own word for it.
        key: the attribute that said so, "" when none did.
    """

    kind: str
    type: str
    key: str


_UNKNOWN: Final = Classified("other", "span", "")


def fields_of(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the envelope fields a span's attributes fill, raw; of several sources the first usable wins."""
    return {
        field: value
        for field, key in _plan(frozenset(attributes.keys() & _KNOWN))
        if (value := attributes[key]) is not None and value != ""
    }


def sources_of(attributes: Mapping[str, Any]) -> dict[str, str]:
    """Return which attribute `fields_of` takes each field from."""
    return {
        field: key
        for field, key in _plan(frozenset(attributes.keys() & _KNOWN))
        if attributes[key] is not None and attributes[key] != ""
    }


@lru_cache(maxsize=1024)
def _plan(known: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """Return field and attribute, the least trusted first: a later one overrules."""
    return tuple((_FIELD_OF[key], key) for key in sorted(known, key=lambda key: (_RANK_OF[key], key)))


def classify(attributes: Mapping[str, Any]) -> Classified:
    """Return the kind of a span by the first attribute that names one in a word listed for it."""
    hits = attributes.keys() & _KIND_KNOWN
    if not hits:
        return _UNKNOWN
    for key in sorted(hits, key=_KIND_ORDER.__getitem__) if len(hits) > 1 else hits:
        value = attributes[key]
        if isinstance(value, str):
            kind = _KIND_OF[key].get(value.lower())
            if kind is not None:
                return Classified(kind, value, key)
    # A word that is not listed is still the source's own word for the span.
    operation = attributes.get("gen_ai.operation.name")
    return Classified("other", operation, "") if isinstance(operation, str) and operation else _UNKNOWN
