"""What the values of an event can be besides plain JSON, and how each is taken apart and put together again."""

from __future__ import annotations

import copy
import dataclasses
import re
from enum import Enum
from typing import Any, Final

from tracehold.privacy.conversion import is_hashable

_MEDIA_FIELDS: Final = ("media_type", "mime_type", "mimeType", "mediaType", "content_type", "contentType")
_PADDING_MAX: Final = 2
_BASE64: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_WHITE: Final = b" \t\r\n"
_DATA_URL: Final = re.compile(r"data:[\w.+-]{1,64}/[\w.+-]{1,64}(?:;[\w.-]{1,32}=[\w.-]{1,64}){0,4};base64,")


def name_of(key: Any) -> str | None:
    """Return the text that a key is in JSON, or `None` for what names nothing."""
    if isinstance(key, Enum):
        key = key.value
    if isinstance(key, str):
        return str.__str__(key)
    return key.decode("latin-1") if isinstance(key, bytes) else None


def fields_of(value: Any) -> dict[str, Any] | None:
    """Return the fields of a dataclass instance, with what else it holds, or of a pydantic model; `None` for others."""
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value) if hasattr(value, field.name)]
        return {name: getattr(value, name) for name in names} | getattr(value, "__dict__", {})
    dump = getattr(value, "model_dump", None)
    return dict(dump()) if callable(dump) else None


def with_fields(value: Any, fields: dict[str, Any], done: dict[str, Any]) -> Any:
    """Return a dataclass instance like `value` with other values, or plain fields where no such copy can be made."""
    if not dataclasses.is_dataclass(value) or fields.keys() != done.keys():
        return done
    try:
        made = copy.copy(value)
        for name, new in done.items():
            if new is not fields[name]:
                object.__setattr__(made, name, new)
    except Exception:  # noqa: BLE001 - the class's own code; what it refuses must not keep a secret in the event
        return done
    return made


def as_set(items: list[Any], *, frozen: bool) -> set[Any] | frozenset[Any]:
    """Return a set of `items`; what cannot stand in one stands there as text."""
    hashable = [item if is_hashable(item) else str(item) for item in items]
    return frozenset(hashable) if frozen else set(hashable)


def is_attachment(fields: dict[Any, Any]) -> bool:
    """Return whether a body stands beside its media type, as in the parts of a message (RED-20)."""
    for field in _MEDIA_FIELDS:
        media_type = fields.get(field)
        if isinstance(media_type, str) and "/" in media_type:
            return True
    return False


def is_base64(text: str) -> bool:
    """Return whether a text is base64 as RFC 4648 section 4 has it, white space aside."""
    if not text.isascii():
        return False
    compact = text.encode().translate(None, _WHITE)
    padding = len(compact) - len(compact.rstrip(b"="))
    return len(compact) % 4 == 0 and padding <= _PADDING_MAX and len(compact.translate(None, _BASE64)) == padding


def is_data_url(text: str) -> bool:
    """Return whether a text is a data URL with a base64 body (RFC 2397)."""
    head = _DATA_URL.match(text)
    return head is not None and is_base64(text[head.end() :])
