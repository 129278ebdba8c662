"""The content of a record: masked as a whole, then held to the size limits (FR-35, FR-19, DEC-19)."""

from __future__ import annotations

from typing import Any, Final

import orjson

from tracehold_collector.normalise.context import NormaliseContext

CUT_MARK: Final = "…[truncated, {} bytes in all]"
_MIN_TEXT_BYTES: Final = 256
_MAX_UTF8: Final = 4
_MARGIN: Final = 4


def clean_content(
    content: dict[str, Any], context: NormaliseContext, *, size_hint: int | None = None
) -> dict[str, Any]:
    """Return a masked copy of `content`, JSON-like, within the limits.

    What cannot be masked is not stored: the record keeps its envelope, and the content says only why
    (DEC-19).

    Args:
        content: what an event said, JSON-like; not modified.
        context: the cleaner and the limits.
        size_hint: about how many bytes it came in, when that is known: a small one needs no measuring.
    """
    try:
        cleaned: dict[str, Any] = context.cleaner.clean(content)
    except Exception as error:  # noqa: BLE001 - whatever a cleaner raises, nothing unmasked may pass
        return {"uncleanable": type(error).__name__}
    limits = context.limits
    # The margin is for masks that are longer than what they stand for.
    if size_hint is not None and size_hint * _MARGIN <= min(limits.max_value_bytes, limits.max_content_bytes):
        return cleaned
    return fit_content(cleaned, context)


def fit_content(content: dict[str, Any], context: NormaliseContext) -> dict[str, Any]:
    """Return `content` with long texts cut and marked, so that both size limits hold.

    Args:
        content: masked already: a cut before masking could leave half a secret that no detector knows
            (FR-19).
        context: the limits.
    """
    cap, limit = context.limits.max_value_bytes, context.limits.max_content_bytes
    total, longest = _measure(content)
    if longest * _MAX_UTF8 > cap:
        content = _cut(content, cap)
    if total * _MAX_UTF8 <= limit:
        return content
    while len(_dump(content)) > limit and cap > _MIN_TEXT_BYTES:
        cap //= 4
        content = _cut(content, cap)
    size = len(_dump(content))
    return content if size <= limit else {"too_large": size}


def _measure(value: Any) -> tuple[int, int]:
    """Return an upper estimate of the characters in all, and the longest text's characters."""
    total = longest = 0
    if value.__class__ is dict:
        for key in value:
            total += len(key) + 8
        value = value.values()
    for item in value:
        kind = item.__class__
        if kind is str:
            size = len(item)
            total += size + 8
            longest = max(longest, size)
        elif kind is dict or kind is list:
            size, inner = _measure(item)
            total += size + 8
            longest = max(longest, inner)
        else:
            total += 24
    return total, longest


def _cut(value: Any, cap: int) -> Any:
    if isinstance(value, str):
        if len(value) * _MAX_UTF8 <= cap:
            return value
        raw = value.encode("utf-8", "replace")
        return value if len(raw) <= cap else raw[:cap].decode("utf-8", "ignore") + CUT_MARK.format(len(raw))
    if isinstance(value, dict):
        return {key: _cut(item, cap) for key, item in value.items()}
    return [_cut(item, cap) for item in value] if isinstance(value, list) else value


def _dump(content: dict[str, Any]) -> bytes:
    return orjson.dumps(content, default=str)
