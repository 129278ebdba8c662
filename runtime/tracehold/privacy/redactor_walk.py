"""The walk of the redactors through an event's payload: what nothing is found in is returned as the same object.

Nothing is copied on the way in; a container is copied when the first of its values changes (RED-19). Types stay, also
those of named tuples, dataclasses and bytes (DEC-09).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from numbers import Number
from typing import Any, Final, TypeVar

from tracehold.privacy.conversion import is_hashable, is_named_tuple, unused_name
from tracehold.privacy.redactor_keys import (
    ACCOUNT,
    BODY,
    IDENTIFIER,
    PAIR,
    PLAIN,
    RENAME,
    ROUTING,
    SECRET,
    WEAK,
    KeyCodes,
    SecretKeys,
)
from tracehold.privacy.redactor_shapes import (
    as_set,
    fields_of,
    is_attachment,
    is_base64,
    is_data_url,
    name_of,
    with_fields,
)
from tracehold.privacy.redactor_text import TextRules

TOO_DEEP: Final = "[REDACTED:too deep]"
CYCLE: Final = "[REDACTED:cycle]"

_DEPTHS: Final = (256, 64, 16, 4)
"""More than the event's JSON may have; less when the caller has left little of the stack."""
_CARD_FLOOR: Final = 10**12
_TEMPORARY: Final = -1
_ACCOUNTS: Final = -2
_PAIR_FIELDS: Final = ("name", "key", "header", "field")
_FIELD_NAME: Final = re.compile(r"[A-Za-z][\w.-]{0,63}")
_IDENTIFIER: Final = re.compile(r"[^\s\x00-\x1f\x7f]{1,256}")

_T = TypeVar("_T")

_Seen = dict[int, Any]
"""Id of a container to what became of it, so that one that stands in many places is walked through once. Under
`_TEMPORARY`, what was made on the way: an id means something only while its object lives. Under `_ACCOUNTS`, the same
for the event's accounts, in which numbers stay that would go elsewhere."""


class Walk:
    """Redacts values. Safe to use from several threads.

    Args:
        keys: says which keys name a secret; `None` for none.
        texts: what to look for in texts, keys and numbers; `None` for nothing.
        replacement: stands in the place of a value under a secret key.
    """

    __slots__ = ("_codes", "_floor", "_keys", "_known", "_replacement", "_texts", "_top_codes")

    def __init__(self, keys: SecretKeys | None, texts: TextRules | None, replacement: str) -> None:
        self._keys = keys
        self._texts = texts or TextRules(())
        self._known = self._texts.known_clean
        self._replacement = self._texts.mask(replacement)
        self._floor: float = _CARD_FLOOR if self._texts.card is not None else float("inf")
        self._codes = KeyCodes(keys, texts, top=False)
        self._top_codes = KeyCodes(keys, texts, top=True)

    def top(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the `data` or `meta` of an event, redacted: a new dict, or `fields` itself if nothing was found."""
        if not isinstance(fields, dict):
            fields = dict(fields)
        for depth in _DEPTHS:
            try:
                return self._dict(fields, self._top_codes, depth, {id(fields): CYCLE})
            except RecursionError:
                if depth == _DEPTHS[-1]:
                    raise
        return fields

    def _value(self, value: Any, depth: int, seen: _Seen) -> Any:
        kind = type(value)
        if kind is str:
            return self._text(value)
        if kind is bool or value is None:
            return value
        if kind is int or kind is float:
            return self._texts.mask_number(value)
        if not (kind is dict or kind is list or isinstance(value, (Mapping, list, tuple, set, frozenset))):
            return self._object(value, depth, seen)
        known = id(value)
        if known in seen:
            return seen[known]
        if depth <= 0:
            return TOO_DEEP
        seen[known] = CYCLE
        # Called from here, since each level of nesting should take few frames of the stack.
        if isinstance(value, dict):
            done: Any = self._dict(value, self._codes, depth - 1, seen)
        elif isinstance(value, list):
            done = self._list(value, depth - 1, seen)
        else:
            done = self._container(value, depth - 1, seen)
        seen[known] = done
        return done

    def _container(self, value: Any, depth: int, seen: _Seen) -> Any:
        if isinstance(value, Mapping):
            plain = _kept(dict(value), seen)
            done = self._dict(plain, self._codes, depth, seen)
            return value if done is plain else done
        if is_named_tuple(value):
            plain = _kept(dict(zip(value._fields, tuple.__iter__(value), strict=False)), seen)
            done = self._dict(plain, self._codes, depth, seen)
            return value if done is plain else tuple.__new__(type(value), done.values())
        if isinstance(value, tuple):
            return self._tuple(value, depth, seen)
        items = _kept(list(value), seen)
        cleaned = self._list(items, depth, seen)
        return value if cleaned is items else as_set(cleaned, frozen=isinstance(value, frozenset))

    def _dict(self, source: dict[Any, Any], codes: KeyCodes, depth: int, seen: _Seen) -> dict[Any, Any]:
        out: dict[Any, Any] | None = None
        known, floor = self._known, self._floor
        new: Any
        for key, value in dict.items(source):
            code = codes[key] if type(key) is str else RENAME
            kind = type(value)
            if code == PLAIN:
                if kind is str:
                    if value in known:
                        continue
                    new = self._text(value)
                elif kind is bool or value is None or ((kind is int or kind is float) and value < floor):
                    continue
                else:
                    new = self._value(value, depth, seen)
            elif code == RENAME:
                return self._renamed(source, codes, depth, seen)
            else:
                new = self._special(code, key, value, source, depth, seen)
            if new is not value:
                if out is None:
                    out = dict(source)
                out[key] = new
        return source if out is None else out

    def _special(self, code: int, key: str, value: Any, source: dict[Any, Any], depth: int, seen: _Seen) -> Any:
        """Redact a value whose key has a meaning of its own."""
        if code in {SECRET, WEAK}:
            return self._hidden(value) if self._hides(key, value) else self._value(value, depth, seen)
        if code == ROUTING:
            # A routing value is a scalar; anything else under its name is the user's (DEC-09).
            scalar = value is None or isinstance(value, (str, int, float))
            return value if scalar else self._value(value, depth, seen)
        if code == ACCOUNT:
            return self._account(value, depth, seen)
        if code == IDENTIFIER and type(value) is str and _IDENTIFIER.fullmatch(value):
            return self._texts.mask_identifier(value)
        if code == BODY and type(value) is str and is_attachment(source) and is_base64(value):
            return value  # RED-20
        if code == PAIR and any(self._names_secret(source.get(field), value) for field in _PAIR_FIELDS):
            return self._hidden(value)
        return self._value(value, depth, seen)

    def _account(self, value: Any, depth: int, seen: _Seen) -> Any:
        """Redact the event's own usage, cost or budget: its numbers stay, whatever their keys are called (DEC-09)."""
        kind = type(value)
        if kind is int or kind is float:
            return value
        if kind is not dict or depth <= 0:
            return self._value(value, depth, seen)
        if self._is_plain_account(value):
            return value
        known = id(value)
        accounts = seen.setdefault(_ACCOUNTS, {})
        if known in accounts:
            return accounts[known]
        accounts[known] = CYCLE
        names = self._names(value, self._codes, depth, seen)
        done = [
            self._account_item(name, key, item, value, depth - 1, seen)
            for name, (key, item) in zip(names, value.items(), strict=True)
        ]
        accounts[known] = result = _rebuilt(value, names, done)
        return result

    def _is_plain_account(self, value: dict[Any, Any]) -> bool:
        """Return whether a mapping holds nothing but numbers under plain names, as nearly all of them do."""
        for key, item in value.items():
            kind = type(item)
            if (kind is not int and kind is not float) or type(key) is not str or self._codes[key] == RENAME:
                return False
        return True

    def _account_item(self, name: Any, key: Any, item: Any, source: dict[Any, Any], depth: int, seen: _Seen) -> Any:
        if type(item) is int or type(item) is float:
            return item
        if type(item) is dict and not self._hides(key, item) and not self._hides(name, item):
            return self._account(item, depth, seen)
        return self._item(name, key, item, source, self._codes, depth, seen)

    def _renamed(self, source: dict[Any, Any], codes: KeyCodes, depth: int, seen: _Seen) -> dict[Any, Any]:
        """Redact a dict some of whose keys may change."""
        names = self._names(source, codes, depth, seen)
        pairs = zip(names, dict.items(source), strict=True)
        done = [self._item(name, key, value, source, codes, depth, seen) for name, (key, value) in pairs]
        return _rebuilt(source, names, done)

    def _item(
        self, name: Any, key: Any, value: Any, source: dict[Any, Any], codes: KeyCodes, depth: int, seen: _Seen
    ) -> Any:
        """Redact the value of a key that is called `name` from now on."""
        if name is key and type(key) is str:
            return self._special(codes[key], key, value, source, depth, seen)
        if self._hides(key, value) or (name is not key and self._hides(name, value)):
            return self._hidden(value)
        return self._value(value, depth, seen)

    def _names(self, source: dict[Any, Any], codes: KeyCodes, depth: int, seen: _Seen) -> list[Any]:
        """Return the keys of a dict, masked; two of them never become one (DEC-09)."""
        names = [self._key(key, codes, depth, seen) for key in dict.keys(source)]
        taken = {key for key, name in zip(dict.keys(source), names, strict=True) if name is key}
        numbers: dict[Any, int] = {}
        for place, (name, key) in enumerate(zip(names, dict.keys(source), strict=True)):
            if name is not key:
                names[place] = unused_name(name, taken, numbers)
                taken.add(names[place])
        return names

    def _key(self, key: Any, codes: KeyCodes, depth: int, seen: _Seen) -> Any:
        if type(key) is str:
            return self._texts.mask_key(key) if codes[key] == RENAME else key
        new = self._value(key, depth, seen)
        return new if new is key or is_hashable(new) else self._text(str(new))

    def _list(self, source: list[Any], depth: int, seen: _Seen) -> list[Any]:
        out: list[Any] | None = None
        known, floor = self._known, self._floor
        for place, item in enumerate(list.__iter__(source)):
            kind = type(item)
            if kind is str:
                if item in known:
                    continue
                new = self._text(item)
            elif kind is bool or item is None or ((kind is int or kind is float) and item < floor):
                continue
            else:
                new = self._value(item, depth, seen)
            if new is not item:
                if out is None:
                    out = list(source)
                out[place] = new
        return source if out is None else out

    def _tuple(self, value: tuple[Any, ...], depth: int, seen: _Seen) -> tuple[Any, ...]:
        items = _kept(list(tuple.__iter__(value)), seen)
        if len(items) == 2 and self._names_secret(items[0], items[1]):  # noqa: PLR2004 - (name, value): a header
            name, hidden = self._value(items[0], depth, seen), self._hidden(items[1])
            return value if hidden is items[1] and name is items[0] else (name, hidden)
        done = self._list(items, depth, seen)
        return value if done is items else tuple(done)

    def _object(self, value: Any, depth: int, seen: _Seen) -> Any:
        if isinstance(value, str):
            plain = str.__str__(value)
            done = self._text(plain)
            return value if done is plain else done
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self._bytes(value)
        if isinstance(value, Enum):
            done = self._value(value.value, depth, seen)
            return value if done is value.value else done
        if isinstance(value, Number):
            return self._texts.mask_number(value)
        if isinstance(value, type):
            return value
        fields = fields_of(value)
        if fields is not None:
            return self._record(value, _kept(fields, seen), depth, seen)
        plain = str(value)
        done = self._text(plain)
        return value if done is plain else done

    def _record(self, value: Any, fields: dict[str, Any], depth: int, seen: _Seen) -> Any:
        known = id(value)
        if known in seen:
            return seen[known]
        if depth <= 0:
            return TOO_DEEP
        seen[known] = CYCLE
        done = self._dict(fields, self._codes, depth - 1, seen)
        seen[known] = new = value if done is fields else with_fields(value, fields, done)
        return new

    def _bytes(self, value: bytes | bytearray | memoryview) -> Any:
        text = bytes(value).decode("utf-8", "surrogateescape")
        done = self._texts.mask(text)
        if done is text:
            return value
        data = done.encode("utf-8", "surrogateescape")
        return bytearray(data) if isinstance(value, bytearray) else data

    def _text(self, text: str) -> str:
        if text.startswith("data:") and is_data_url(text):
            return text  # RED-20
        return self._texts.mask(text)

    def _hides(self, key: Any, value: Any) -> bool:
        name = name_of(key)
        return self._keys is not None and name is not None and self._keys.hides(name, value)

    def _names_secret(self, name: Any, value: Any) -> bool:
        """Return whether a name that stands beside a value is that of a secret: a header in a list or a tuple."""
        text = name_of(name)
        return text is not None and _FIELD_NAME.fullmatch(text) is not None and self._hides(text, value)

    def _hidden(self, value: Any) -> Any:
        return value if type(value) is str and value == self._replacement else self._replacement


def _kept(value: _T, seen: _Seen) -> _T:
    """Keep a temporary object alive until the walk is over."""
    seen.setdefault(_TEMPORARY, []).append(value)
    return value


def _rebuilt(source: dict[Any, Any], names: list[Any], values: list[Any]) -> dict[Any, Any]:
    """Return a dict of `names` and `values`, or `source` if these are its own."""
    same = zip(names, values, dict.items(source), strict=True)
    if all(name is key and value is item for name, value, (key, item) in same):
        return source
    return dict(zip(names, values, strict=True))
