"""A projection's state as JSON and back, by its declared type; what would not come back exactly is refused."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Final, Literal, NamedTuple, Union

import orjson

_SCALARS: Final = (str, int, float, bool, type(None))


class Codec(NamedTuple):
    """How one type is written and read.

    Attributes:
        dump: value to JSON value; raises `TypeError` for a value of another type.
        load: JSON value to value; raises `TypeError` or `ValueError` for what `dump` never wrote.
    """

    dump: Callable[[Any], Any]
    load: Callable[[Any], Any]


def codec_for(tp: Any) -> Codec:
    """Return the codec of a type.

    Known are pydantic models (and whatever has `model_validate` and `model_dump`), dataclasses, enums, times, decimals,
    lists, tuples, sets and dicts of these, unions, and plain JSON.

    Raises:
        TypeError: a type without a codec.
    """
    origin, args = typing.get_origin(tp), typing.get_args(tp)
    if origin is typing.Annotated:
        return codec_for(args[0])
    if origin in (Union, types.UnionType):
        return _union([codec_for(arg) for arg in args])
    if origin is Literal:
        return _plain()
    kind = origin or tp
    if kind in (list, tuple, set, frozenset, dict):
        return _container(kind, args)
    if kind in (Any, object):
        return _plain()
    if kind is None or kind in _SCALARS:
        return _scalar(type(None) if kind is None else kind)
    if isinstance(kind, type):
        return _class(tp, kind)
    raise TypeError(f"no JSON form is known for a state of type {tp!r}")


def _class(tp: Any, kind: type) -> Codec:
    if callable(getattr(kind, "model_validate", None)):
        return _model(tp)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind)
    if issubclass(kind, Enum):
        return Codec(lambda value: _of(kind, value).value, kind)
    if kind in (datetime, date):
        return Codec(lambda value: _of(kind, value).isoformat(), kind.fromisoformat)
    if kind is Decimal:
        return Codec(lambda value: str(_of(kind, value)), Decimal)
    raise TypeError(f"no JSON form is known for a state of type {kind.__qualname__}")


def _of(kind: type, value: Any) -> Any:
    # The very type: a subclass would come back as its base, with other methods.
    if type(value) is not kind:
        raise TypeError(f"{kind.__qualname__} expected, {type(value).__qualname__} found")
    return value


def _scalar(kind: type) -> Codec:
    if kind is float:
        # A fold may put a whole number where a float is declared.
        return Codec(_plain_number, _plain_number)
    return Codec(lambda value: _of(kind, value), lambda value: _of(kind, value))


def _plain_number(value: Any) -> Any:
    if type(value) not in (int, float):
        raise TypeError(f"a number expected, {type(value).__qualname__} found")
    return value


def _plain() -> Codec:
    return Codec(_plain_json, lambda value: value)


def _plain_json(value: Any) -> Any:
    if type(value) in _SCALARS:
        return value
    if type(value) is list:
        return [_plain_json(item) for item in value]
    if type(value) is dict:
        return {_of(str, key): _plain_json(item) for key, item in value.items()}
    raise TypeError(f"plain JSON expected, {type(value).__qualname__} found")


def _container(kind: Any, args: tuple[Any, ...]) -> Codec:
    if kind is dict:
        return _dict(*(codec_for(arg) for arg in args or (str, Any)))
    if kind is tuple and args and args[-1] is not Ellipsis:
        return _fixed_tuple([codec_for(arg) for arg in args])
    item = codec_for(args[0]) if args else _plain()
    if kind in (set, frozenset):
        # A set has no order; sorted, equal states have one text.
        return Codec(
            lambda value: sorted(map(item.dump, _of(kind, value)), key=orjson.dumps),
            lambda value: kind(map(item.load, _of(list, value))),
        )
    return Codec(
        lambda value: list(map(item.dump, _of(kind, value))),
        lambda value: kind(map(item.load, _of(list, value))),
    )


def _fixed_tuple(items: list[Codec]) -> Codec:
    return Codec(
        lambda value: [item.dump(one) for item, one in zip(items, _of(tuple, value), strict=True)],
        lambda value: tuple(item.load(one) for item, one in zip(items, _of(list, value), strict=True)),
    )


def _dict(key: Codec, item: Codec) -> Codec:
    # Keys that are no text (numbers, enums, times) stand in JSON as pairs.
    return Codec(
        lambda value: [[key.dump(one), item.dump(two)] for one, two in _of(dict, value).items()],
        lambda value: {key.load(one): item.load(two) for one, two in _of(list, value)},
    )


def _union(options: list[Codec]) -> Codec:
    """Note which of the types it was: several may accept the same JSON."""

    def dump(value: Any) -> Any:
        for index, option in enumerate(options):
            try:
                return [index, option.dump(value)]
            except TypeError:
                continue
        raise TypeError(f"{type(value).__qualname__} is none of the union's types")

    return Codec(dump, lambda value: options[_of(int, value[0])].load(value[1]))


def _dataclass(kind: type) -> Codec:
    hints = typing.get_type_hints(kind, include_extras=True)
    parts = [(field.name, codec_for(hints[field.name]), field.init) for field in dataclasses.fields(kind)]

    def dump(value: Any) -> Any:
        return {name: part.dump(getattr(value, name)) for name, part, _ in parts if _of(kind, value) is value}

    def load(value: Any) -> Any:
        made = kind(**{name: part.load(value[name]) for name, part, init in parts if init})
        for name, part, init in parts:
            if not init:
                object.__setattr__(made, name, part.load(value[name]))
        return made

    return Codec(dump, load)


def _model(tp: Any) -> Codec:
    def dump(value: Any) -> Any:
        _of(typing.get_origin(tp) or tp, value)
        if hasattr(tp, "model_validate_json"):  # pydantic
            return value.model_dump(mode="json", by_alias=True, round_trip=True)
        made = value.model_dump()
        return dict(made) if isinstance(made, Mapping) else made

    def load(value: Any) -> Any:
        from_json = getattr(tp, "model_validate_json", None)
        # By way of text, so that strict models take their own JSON.
        return from_json(orjson.dumps(value)) if from_json is not None else tp.model_validate(value)

    return Codec(dump, load)
