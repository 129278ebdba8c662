"""Getting a validated object out of a model (HAR-33 to HAR-39)."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, Protocol, TypeVar

from tracehold.core.errors import LLMResponseError
from tracehold.llm.protocol import ChatMessage, LLMResponse


class SchemaModel(Protocol):
    """What we need of a pydantic class."""

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        """Return the JSON Schema."""

    @classmethod
    def model_validate(cls, obj: Any) -> Any:
        """Return an instance, or raise a `ValueError`."""


Model = TypeVar("Model", bound=SchemaModel)

INSTRUCTIONS: Final = (
    "Answer with one JSON value that conforms to the JSON Schema below, and nothing else.\n\nJSON Schema:\n{schema}"
)
CORRECTION: Final = (
    "That reply is not valid: {problem}\n"
    "Answer again with one JSON value that conforms to the schema, and nothing else."
)

_FENCE: Final = "```"
_OPENING: Final = re.compile(r"[{\[]")
_MAX_CANDIDATES: Final = 32
"""How many places in a reply are tried: each failing one may cost a pass over the rest."""


async def structured(
    call: Callable[..., Awaitable[LLMResponse]],
    messages: list[ChatMessage],
    schema_model: type[Model],
    retries: int,
    kwargs: dict[str, Any],
) -> Model:
    """Ask until the reply validates; `Harness.astructured` documents it.

    Args:
        call: makes one governed model call (HAR-37).
        messages: not modified (HAR-38).
        schema_model: a pydantic class.
        retries: further attempts after the first.
        kwargs: for each call.
    """
    if retries < 0:
        raise ValueError(f"retries must be at least 0, not {retries}")
    schema = schema_model.model_json_schema()
    instructions = INSTRUCTIONS.format(schema=json.dumps(schema, ensure_ascii=False))
    asked: list[ChatMessage] = [{"role": "system", "content": instructions}, *messages]
    problem = ""
    for _ in range(retries + 1):
        response = await call(asked, output_schema=schema, **kwargs)
        try:
            return _validated(response.content or "", schema_model)
        except ValueError as error:
            problem = describe(error)
        asked = [
            *asked,
            {"role": "assistant", "content": response.content or ""},
            {"role": "user", "content": CORRECTION.format(problem=problem)},
        ]
    raise LLMResponseError(
        f"no valid {schema_model.__name__} after {retries + 1} model calls; the last reply failed with: {problem}"
    )


def _validated(text: str, schema_model: type[Model]) -> Model:
    """Return the first value in `text` that validates, else raise why the first one found did not."""
    first: ValueError | None = None
    for value in json_values(text):
        try:
            instance: Model = schema_model.model_validate(value)
        except ValueError as error:
            first = first or error
        else:
            return instance
    raise first or ValueError("it holds no JSON value")


def json_values(text: str) -> Iterator[Any]:
    """Yield the JSON values found in a reply: the whole of it, fenced blocks, then what stands in prose (HAR-39)."""
    for candidate in (text, *_fenced(text)):
        try:
            yield json.loads(candidate)
        except (ValueError, RecursionError):
            continue
    decoder = json.JSONDecoder()
    position = 0
    for _ in range(_MAX_CANDIDATES):
        opening = _OPENING.search(text, position)
        if opening is None:
            return
        try:
            value, position = decoder.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            position = opening.end()
        else:
            yield value


def _fenced(text: str) -> list[str]:
    """Return what stands between pairs of fences, without the language on the opening one's line."""
    parts = text.split(_FENCE, 2 * _MAX_CANDIDATES)
    return [block.partition("\n")[2] for block in parts[1:-1:2]]


def describe(error: ValueError) -> str:
    """Return what is wrong, without the values: pydantic's own text repeats the reply."""
    errors = getattr(error, "errors", None)
    if callable(errors):
        details = errors(include_url=False, include_input=False, include_context=False)
        return "; ".join(f"{'.'.join(map(str, item['loc'])) or 'the value'}: {item['msg']}" for item in details)
    return str(error)
