"""All limits on hostile input, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What the collector takes from one sender at most.

    Attributes:
        max_body_bytes: a request body as it arrives, compressed or not.
        max_decompressed_bytes: the same after decompression.
        max_depth: nesting of a JSON body or of an attribute value; deeper JSON is refused, a deeper value is cut.
        max_json_bytes: a JSON body after decompression; parsed JSON takes many times its size.
        max_json_values: numbers, texts, lists and objects in a JSON body, about.
        max_held_bytes: all bodies under way together, decompressed; beyond it senders get 429.
        max_items: spans, log records or events in one request.
        max_value_bytes: one text value of an event's content, UTF-8; longer ones are cut and marked.
        max_content_bytes: the content of one event, JSON; larger content keeps its shape and loses its longest texts.
        max_name_chars: an envelope name; a longer one is content.
    """

    max_body_bytes: int = 32 * 1024 * 1024
    max_decompressed_bytes: int = 128 * 1024 * 1024
    max_json_bytes: int = 48 * 1024 * 1024
    max_json_values: int = 4_000_000
    max_held_bytes: int = 256 * 1024 * 1024
    max_depth: int = 96
    max_items: int = 200_000
    max_value_bytes: int = 256 * 1024
    max_content_bytes: int = 4 * 1024 * 1024
    max_name_chars: int = 128


DEFAULT_LIMITS = Limits()
