"""Tools made of functions."""

from __future__ import annotations

import asyncio
import functools
from typing import Annotated, Any

import pydantic
import pytest
from tracehold.core.errors import ToolRegistrationError
from tracehold.tools import Tool, ToolParameter, ToolRegistry, ToolResponse, tool

CITY = ToolParameter("city", "string", "where")


def shown(made: Tool) -> dict[str, Any]:
    registry = ToolRegistry()
    registry.register(made)
    function: dict[str, Any] = registry.to_openai_schema()[0]["function"]
    return function


# --- of one dict


def test_a_function_of_one_dict_becomes_a_tool(registry: ToolRegistry) -> None:  # REG-07
    made = registry.register_function(lambda got: f"sunny in {got['city']}", "weather", "Tell the weather.", [CITY])
    assert registry.get("weather") is made
    assert (made.description, made.get_parameters(), made.origin) == ("Tell the weather.", [CITY], "builtin")
    assert registry.execute_tool("weather", {"city": "Rome"}) == ToolResponse.ok("sunny in Rome")
    assert registry.execute_tool("weather", {}).status == "error"


def test_an_async_function_of_one_dict_is_awaited(registry: ToolRegistry) -> None:  # REG-07
    async def weather(got: dict[str, Any]) -> ToolResponse:
        await asyncio.sleep(0)
        return ToolResponse.partial(got["city"])

    registry.register_function(weather, "weather", "", [CITY])
    assert asyncio.run(registry.aexecute_tool("weather", {"city": "Rome"})) == ToolResponse.partial("Rome")
    assert registry.execute_tool("weather", {"city": "Rome"}) == ToolResponse.partial("Rome")


@pytest.mark.parametrize("path", ["sync", "async"])
def test_a_sync_looking_function_that_returns_an_awaitable_is_an_error_response(
    registry: ToolRegistry, path: str
) -> None:  # REG-07
    async def weather(got: dict[str, Any]) -> str:
        return str(got)

    registry.register_function(lambda got: weather(got), "weather", "")  # noqa: PLW0108 - sync-looking on purpose
    call = registry.execute_tool if path == "sync" else lambda *args: asyncio.run(registry.aexecute_tool(*args))
    response = call("weather", {})
    assert response.status == "error"
    assert "awaitable" in response.text


def test_without_parameters_nothing_is_declared_and_anything_taken(registry: ToolRegistry) -> None:  # REG-07
    registry.register_function(str, "t", "")
    assert registry.to_openai_schema()[0]["function"]["parameters"] == {
        "type": "object",
        "properties": {},
        "required": [],
    }
    assert registry.execute_tool("t", {"a": 1}).text == "{'a': 1}"


def test_the_flags_and_overwrite_are_passed_on(registry: ToolRegistry) -> None:  # REG-07
    registry.register_function(lambda _got: "", "t", "")
    with pytest.raises(ToolRegistrationError):
        registry.register_function(lambda _got: "", "t", "")
    made = registry.register_function(
        lambda _got: "",
        "t",
        "",
        requires_confirmation=True,
        supports_parallel=True,
        external_content=True,
        overwrite=True,
    )
    assert registry.get("t") is made
    assert (made.requires_confirmation, made.supports_parallel, made.external_content) == (True, True, True)
    assert made.needs_confirmation({}) is True


def test_what_is_no_function_is_refused(registry: ToolRegistry) -> None:  # REG-07
    with pytest.raises(ToolRegistrationError, match="made of a function, not of str"):
        registry.register_function("weather", "weather", "")  # type: ignore[arg-type]


# --- of ordinary parameters


@tool
def weather(city: str, days: int = 1, *, unit: Annotated[str, "C or F"] = "C") -> str:
    """Tell the weather.

    From a station nearby.

    Args:
        city: where, as people
            call it
        days (int): how far ahead

    Returns:
        A sentence.
    """
    return f"{city} {days} {unit}"


def test_a_function_tells_its_name_description_and_schema() -> None:
    assert shown(weather) == {
        "name": "weather",
        "description": "Tell the weather.\n\nFrom a station nearby.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "where, as people call it"},
                "days": {"type": "integer", "description": "how far ahead", "default": 1},
                "unit": {"type": "string", "description": "C or F", "default": "C"},
            },
            "required": ["city"],
        },
    }


def test_its_parameters_are_told_one_by_one_too() -> None:
    city, days, unit = weather.get_parameters()
    assert (city.name, city.type, city.required) == ("city", "string", True)
    assert (days.type, days.required, days.default) == ("integer", False, 1)
    assert unit.description == "C or F"


def test_it_runs_with_what_the_model_gave_and_its_own_defaults(registry: ToolRegistry) -> None:
    registry.register(weather)
    assert registry.execute_tool("weather", {"city": "Rome"}).text == "Rome 1 C"
    assert registry.execute_tool("weather", {"city": "Rome", "days": 2, "unit": "F", "extra": 1}).text == "Rome 2 F"


def test_it_can_still_be_called_as_a_function() -> None:
    assert weather("Rome", unit="F") == "Rome 1 F"  # type: ignore[operator]


def test_the_decorator_takes_name_description_and_flags() -> None:
    @tool(
        name="pay",
        description="Pay.",
        requires_confirmation=True,
        external_content=True,
        supports_parallel=True,
    )
    def refund(cents: int) -> str:
        return str(cents)

    assert (refund.name, refund.description) == ("pay", "Pay.")
    assert (refund.requires_confirmation, refund.external_content, refund.supports_parallel) == (True, True, True)


def test_one_tool_does_not_change_the_flags_of_others() -> None:
    tool(requires_confirmation=True)(lambda: "")
    assert tool(lambda: "").requires_confirmation is False


def test_from_callable_sets_the_origin() -> None:
    assert Tool.from_callable(weather_of, origin="plugin").origin == "plugin"


def weather_of(place: str, /, day: int = 0, *, exact: bool = False) -> str:
    return f"{place} {day} {exact}"


def test_positional_and_named_parameters_are_both_filled(registry: ToolRegistry) -> None:
    registry.register_callable(weather_of)
    assert registry.execute_tool("weather_of", {"exact": True, "place": "Rome"}).text == "Rome 0 True"


def test_a_positional_parameter_left_out_does_not_shift_the_next(registry: ToolRegistry) -> None:
    def pair(a: int = 1, b: int = 2, /) -> str:
        return f"{a} {b}"

    registry.register_callable(pair)
    assert registry.execute_tool("pair", {"b": 5}).text == "1 5"


def test_an_async_function_is_awaited_on_the_loop(registry: ToolRegistry) -> None:
    async def where(city: str) -> str:
        asyncio.get_running_loop()
        return city

    registry.register_callable(where)
    assert asyncio.run(registry.aexecute_tool("where", {"city": "Rome"})).text == "Rome"
    assert registry.execute_tool("where", {"city": "Rome"}).text == "Rome"


class Station:
    """Measures."""

    def read(self, sensor: int) -> str:
        """Read a sensor."""
        return f"read {sensor}"

    def __call__(self, sensor: int) -> str:
        """Call a sensor."""
        return f"called {sensor}"


@pytest.mark.parametrize(
    ("func", "name", "text"),
    [
        (Station().read, "read", "read 1"),
        (Station(), "Station", "called 1"),
        (functools.partial(weather_of, day=3), "weather_of", "1 3 False"),
    ],
    ids=["method", "object", "partial"],
)
def test_anything_that_can_be_called_will_do(registry: ToolRegistry, func: Any, name: str, text: str) -> None:
    made = registry.register_callable(func)
    assert made.name == name
    parameter = made.get_parameters()[0].name
    assert registry.execute_tool(name, {parameter: 1 if parameter == "sensor" else "1"}).text == text


def test_a_lambda_needs_a_name_a_model_can_say(registry: ToolRegistry) -> None:
    with pytest.raises(ToolRegistrationError, match="<lambda>"):
        registry.register_callable(lambda: "x")
    registry.register_callable(lambda: "x", name="x")
    assert registry.execute_tool("x", {}).text == "x"


def test_a_tool_of_another_name_can_overwrite(registry: ToolRegistry) -> None:
    registry.register(weather)
    made = registry.register_callable(weather_of, name="weather", overwrite=True, description="New.")
    assert registry.get("weather") is made
    assert made.description == "New."


def starred(*args: str) -> str:
    return str(args)


def double_starred(city: str, **rest: str) -> str:
    return f"{city} {rest}"


@pytest.mark.parametrize(("func", "named"), [(starred, r"\*args"), (double_starred, r"\*\*rest")])
def test_a_function_of_unnamed_parameters_is_refused(func: Any, named: str) -> None:
    with pytest.raises(ToolRegistrationError, match=named):
        tool(func)


def test_a_hint_that_names_nothing_is_refused_by_name() -> None:
    def lost(city: NoSuchThing) -> str:  # type: ignore[name-defined]  # noqa: F821 - the point
        return str(city)

    with pytest.raises(ToolRegistrationError, match="NoSuchThing"):
        tool(lost)


def test_a_parameter_that_json_cannot_say_is_refused_by_name() -> None:
    def odd(callback: type) -> str:
        return str(callback)

    with pytest.raises(ToolRegistrationError, match=r"parameter callback of odd: .*type"):
        tool(odd)


@pytest.mark.parametrize("thing", [3, None, "weather"])
def test_only_a_function_becomes_a_tool(thing: Any) -> None:
    with pytest.raises(ToolRegistrationError, match="made of a function"):
        Tool.from_callable(thing)


def test_a_default_that_json_cannot_say_is_not_shown(registry: ToolRegistry) -> None:
    def odd(a: Any = object(), b: float = float("nan"), c: str | None = None) -> str:  # noqa: B008 - the point
        return f"{type(a).__name__} {b} {c}"

    made = registry.register_callable(odd)
    schema = made.get_input_schema()
    assert schema is not None
    assert ["default" in schema["properties"][name] for name in "abc"] == [False, False, True]
    assert registry.execute_tool("odd", {}).text == "object nan None"


class Order(pydantic.BaseModel):
    id: int
    note: str = pydantic.Field(default="", max_length=3)


def test_a_model_that_refuses_what_the_schema_let_through_gives_an_error_response(registry: ToolRegistry) -> None:
    class Even(Order):
        @pydantic.field_validator("id")
        @classmethod
        def check(cls, value: int) -> int:
            if value % 2:
                raise ValueError("odd")
            return value

    def buy(order: Any) -> str:
        return str(order.id)

    buy.__annotations__["order"] = Even
    registry.register_callable(buy)
    assert registry.execute_tool("buy", {"order": {"id": 2}}).text == "2"
    assert registry.execute_tool("buy", {"order": {"id": 3}}).status == "error"
    assert registry.execute_tool_checked("buy", {"order": {"id": 2, "note": "long"}})[1] is False
