"""The content of a record: masked as a whole, then held to the size limits (FR-35, FR-19, DEC-19)."""

from __future__ import annotations

from typing import Any, Final

import orjson

from tracehold_collector.normalise.context import NormaliseContext

CUT_MARK: Final = "…[truncated, {} bytes in all]"
_MIN_TEXT_BYTES: Final = 256


def clean_content(content: dict[str, Any], context: NormaliseContext) -> dict[str, Any]:
    """Return a masked copy of `content`, JSON-like, within the limits.

    What cannot be masked is not stored: the record keeps its envelope, and the content says only why (DEC-19).

    Args:
        content: what an event said, JSON-like; not modified.
        context: the cleaner and the limits.
    """
    try:
        cleaned: dict[str, Any] = context.cleaner.clean(content)
    except Exception as error:  # noqa: BLE001 - whatever a cleaner raises, nothing unmasked may pass
        return {"uncleanable": type(error).__name__}
    return fit_content(cleaned, context)


def fit_content(content: dict[str, Any], context: NormaliseContext) -> dict[str, Any]:
    """Return `content` with long texts cut and marked, so that both size limits hold.

    Args:
        content: masked already: a cut before masking could leave half a secret that no detector knows (FR-19).
        context: the limits.
    """
    cap = context.limits.max_value_bytes
    if _has_long_text(content, cap // 4):
        content = _cut(content, cap)
    # A quarter of the limit in characters is the limit in bytes at worst; only large contents are measured.
    if _characters(content) * 4 <= context.limits.max_content_bytes:
        return content
    while len(_dump(content)) > context.limits.max_content_bytes and cap > _MIN_TEXT_BYTES:
        cap //= 4
        content = _cut(content, cap)
    size = len(_dump(content))
    return content if size <= context.limits.max_content_bytes else {"too_large": size}


def _has_long_text(value: Any, chars: int) -> bool:
    for item in value.values() if value.__class__ is dict else value:
        kind = item.__class__
        if kind is str:
            if len(item) > chars:
                return True
        elif (kind is dict or kind is list) and item and _has_long_text(item, chars):
            return True
    return False


def _characters(value: Any) -> int:
    """An upper estimate of the characters of all texts, with a few for everything else."""
    total = 0
    if value.__class__ is dict:
        for key in value:
            total += len(key) + 8
        value = value.values()
    for item in value:
        kind = item.__class__
        if kind is str:
            total += len(item) + 8
        elif kind is dict or kind is list:
            total += _characters(item) + 8
        else:
            total += 24
    return total


def _cut(value: Any, cap: int) -> Any:
    if isinstance(value, str):
        if len(value) * 4 <= cap:
            return value
        raw = value.encode("utf-8", "replace")
        return value if len(raw) <= cap else raw[:cap].decode("utf-8", "ignore") + CUT_MARK.format(len(raw))
    if isinstance(value, dict):
        return {key: _cut(item, cap) for key, item in value.items()}
    return [_cut(item, cap) for item in value] if isinstance(value, list) else value


def _dump(content: dict[str, Any]) -> bytes:
    return orjson.dumps(content, default=str)
