"""Which tools there are: registering, finding, showing."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core.errors import ConfigurationError, ToolError, ToolRegistrationError
from tracehold.tools import FunctionTool, ToolParameter, ToolRegistry, ToolResponse


def named(name: Any) -> FunctionTool:
    return FunctionTool(lambda _parameters: "x", name, f"Does {name}.")


def names_of(registry: ToolRegistry) -> list[str]:
    return [tool.name for tool in registry.list_tools()]


@pytest.mark.parametrize("name", ["a", "get_weather", "A-1", "0", "_", "x" * 64])
def test_letters_digits_underscore_and_hyphen_make_a_name(registry: ToolRegistry, name: str) -> None:  # REG-05
    registry.register(named(name))
    assert registry.get(name).name == name


@pytest.mark.parametrize("name", ["", "a b", "a.b", "a/b", "naïve", "工具", "a\n", "٣", "x" * 65, None, 3, b"a"])
def test_any_other_name_is_refused(registry: ToolRegistry, name: Any) -> None:  # REG-05
    with pytest.raises(ToolRegistrationError):
        registry.register(named(name))
    assert registry.list_tools() == []


def test_a_taken_name_is_refused_and_the_first_tool_stays(registry: ToolRegistry) -> None:  # REG-05
    first = named("a")
    registry.register(first)
    with pytest.raises(ToolRegistrationError, match="a tool named a is registered already"):
        registry.register(named("a"))
    assert registry.get("a") is first


def test_overwrite_replaces_in_place(registry: ToolRegistry) -> None:  # REG-05
    registry.register_all([named("a"), named("b")])
    second = named("a")
    registry.register(second, overwrite=True)
    assert registry.get("a") is second
    assert names_of(registry) == ["a", "b"]


def test_a_registration_error_is_a_value_error() -> None:  # REG-05
    assert issubclass(ToolRegistrationError, ValueError)


@pytest.mark.parametrize(
    ("thing", "advice"),
    [
        (len, "use register_callable"),
        (FunctionTool, "register an instance"),
        ({"name": "a"}, "needs a name"),
        (SimpleNamespace(name="a", get_parameters=list), "run"),
        (SimpleNamespace(name="a", run=print), "get_parameters"),
        (None, "is no tool"),
    ],
)
def test_what_is_no_tool_is_refused_with_advice(registry: ToolRegistry, thing: Any, advice: str) -> None:  # REG-05
    with pytest.raises(ToolRegistrationError, match=advice):
        registry.register(thing)


def test_a_duck_typed_tool_is_enough(registry: ToolRegistry) -> None:  # REG-05
    duck = SimpleNamespace(
        name="duck", description="Quack.", get_parameters=list, run=lambda _parameters: ToolResponse.ok("quack")
    )
    registry.register(duck)
    assert registry.to_openai_schema()[0]["function"]["name"] == "duck"
    assert registry.execute_tool("duck", {}).text == "quack"


def test_register_all_returns_the_names_registered(registry: ToolRegistry) -> None:  # REG-06
    assert registry.register_all(named(name) for name in "ab") == ["a", "b"]
    assert names_of(registry) == ["a", "b"]


def test_a_conflict_registers_none_of_them(registry: ToolRegistry) -> None:  # REG-06
    registry.register(named("b"))
    with pytest.raises(ToolRegistrationError, match="b"):
        registry.register_all([named("a"), named("b")])
    assert names_of(registry) == ["b"]


def test_skip_keeps_the_tool_that_was_there(registry: ToolRegistry) -> None:  # REG-06
    first = named("b")
    registry.register(first)
    assert registry.register_all([named("a"), named("b"), named("a")], on_conflict="skip") == ["a"]
    assert registry.get("b") is first


def test_overwriting_takes_the_newest(registry: ToolRegistry) -> None:  # REG-06
    registry.register(named("b"))
    newest = named("b")
    assert registry.register_all([named("a"), named("b"), newest], on_conflict="overwrite") == ["a", "b"]
    assert registry.get("b") is newest


def test_another_answer_to_conflicts_is_refused(registry: ToolRegistry) -> None:  # REG-06
    with pytest.raises(ValueError, match="error, skip and overwrite"):
        registry.register_all([], on_conflict="rename")  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", ["skip", "overwrite"])
def test_an_invalid_name_is_refused_whatever_the_conflict_policy(registry: ToolRegistry, policy: Any) -> None:
    # REG-05, REG-06
    with pytest.raises(ToolRegistrationError):
        registry.register_all([named("a"), named("b c")], on_conflict=policy)
    assert registry.list_tools() == []


def test_tools_are_found_by_name_and_listed_in_order(registry: ToolRegistry) -> None:  # REG-08
    tools = [named("b"), named("a")]
    registry.register_all(tools)
    assert registry.get("a") is tools[1]
    assert registry.list_tools() == tools


@pytest.mark.parametrize("name", ["missing", "", None, ["a"], {}])
def test_an_unknown_name_finds_nothing(registry: ToolRegistry, name: Any) -> None:  # REG-08
    assert registry.get(name) is None


def test_tools_are_shown_in_the_function_calling_shape(registry: ToolRegistry) -> None:  # REG-08
    city = ToolParameter("city", "string", "where")
    days = ToolParameter("days", "integer", "how far ahead", required=False, default=1)
    tags = ToolParameter("tags", "array", "", required=False, schema={"type": "array", "items": {"type": "string"}})
    registry.register_function(lambda _parameters: "sunny", "weather", "Tell the weather.", [city, days, tags])
    assert registry.to_openai_schema() == [
        {
            "type": "function",
            "function": {
                "name": "weather",
                "description": "Tell the weather.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "city": {"type": "string", "description": "where"},
                        "days": {"type": "integer", "description": "how far ahead", "default": 1},
                        "tags": {"type": "array", "items": {"type": "string"}},
                    },
                    "required": ["city"],
                },
            },
        }
    ]


def test_an_array_without_items_says_that_anything_goes(registry: ToolRegistry) -> None:  # REG-08
    registry.register_function(lambda _parameters: "", "t", "", [ToolParameter("list", "array", "")])
    shown = registry.to_openai_schema()[0]["function"]["parameters"]
    assert shown["properties"]["list"] == {"type": "array", "items": {}}


def test_a_tool_may_show_a_schema_of_its_own(registry: ToolRegistry, recorder_type: Any) -> None:  # REG-08, REG-10
    class Own(recorder_type):  # type: ignore[misc]
        def get_input_schema(self) -> dict[str, Any]:
            return {"properties": {"n": {"const": 7}}, "required": ["n"]}

    registry.register(Own())
    shown = registry.to_openai_schema()[0]["function"]["parameters"]
    assert shown == {"type": "object", "properties": {"n": {"const": 7}}, "required": ["n"]}
    assert registry.execute_tool("recorder", {"n": 7}).status == "success"
    assert registry.execute_tool("recorder", {"n": 8}).status == "error"


@pytest.mark.parametrize("show", ["to_openai_schema", "get_tools_description"])
def test_names_select_and_order_unknown_ones_are_skipped_repeats_collapse(
    registry: ToolRegistry, show: str
) -> None:  # REG-08
    registry.register_all([named("a"), named("b"), named("c")])
    shown = getattr(registry, show)(["c", "missing", "a", "c"])
    if isinstance(shown, str):
        assert shown == "- c: Does c.\n- a: Does a."
    else:
        assert [tool["function"]["name"] for tool in shown] == ["c", "a"]
    assert not getattr(registry, show)([])


@given(st.lists(st.sampled_from("abcdxyz")))
def test_a_selection_is_the_known_names_once_each_in_the_order_asked(names: list[str]) -> None:  # REG-08
    registry = ToolRegistry()
    registry.register_all(named(name) for name in "abcd")
    shown = [tool["function"]["name"] for tool in registry.to_openai_schema(names)]
    assert shown == [name for name in dict.fromkeys(names) if name in "abcd"]


def test_what_is_shown_belongs_to_the_caller(registry: ToolRegistry, recorder: Any) -> None:  # REG-08, REG-10
    shown = registry.to_openai_schema()[0]["function"]["parameters"]
    shown["properties"]["n"]["type"] = "string"
    assert registry.to_openai_schema()[0]["function"]["parameters"]["properties"]["n"]["type"] == "integer"
    assert registry.execute_tool(recorder.name, {"n": 1}).status == "success"


def test_the_description_tells_the_parameters_of_each_tool(registry: ToolRegistry, recorder: Any) -> None:  # REG-08
    optional = ToolParameter("unit", "string", "", required=False)
    registry.register_function(lambda _parameters: "", "weather", "", [optional])
    assert registry.get_tools_description() == (
        "- recorder: Note a number.\n    n (integer, required): which number\n- weather\n    unit (string, optional)"
    )


def test_the_catalogue_is_a_line_a_tool(registry: ToolRegistry) -> None:  # REG-08
    registry.register(FunctionTool(lambda _parameters: "", "a", "Does a.\n\nAt length."))
    registry.register(FunctionTool(lambda _parameters: "", "b", ""))
    assert registry.get_catalog() == "- a: Does a.\n- b"
    assert ToolRegistry().get_catalog() == ""


@pytest.mark.parametrize(
    "schema", [["no", "dict"], {"x": object()}, {"x": "\ud800"}, {1: "x"}], ids=["list", "object", "surrogate", "key"]
)
def test_showing_a_schema_that_is_no_json_names_the_tool(
    registry: ToolRegistry, recorder: Any, schema: Any
) -> None:  # REG-08
    recorder.get_input_schema = lambda: schema
    with pytest.raises(ToolError, match="recorder"):
        registry.to_openai_schema()


def test_a_registry_can_be_made_from_a_list_or_is_kept(registry: ToolRegistry) -> None:
    assert ToolRegistry.from_tools(registry) is registry
    assert ToolRegistry.from_tools(None) is None
    made = ToolRegistry.from_tools([named("a")])
    assert made is not None
    assert names_of(made) == ["a"]


def test_the_texts_of_refusals_can_be_replaced() -> None:
    registry = ToolRegistry(prompts={"tool_unknown": 'Kein {tool}. {"json": {reason}}', "recap_marker": "another's"})
    assert registry.execute_tool("{reason}", {}).text == 'Kein {reason}. {"json": }'


def test_a_text_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="tool_unknown"):
        ToolRegistry(prompts={"tool_unknown": 1})  # type: ignore[dict-item]


def test_many_threads_can_register_at_once(registry: ToolRegistry) -> None:  # REG-05
    start = threading.Barrier(8)
    refused: list[str] = []

    def register(worker: int) -> None:
        start.wait()
        for number in range(20):
            registry.register(named(f"own-{worker}-{number}"))
            try:
                registry.register(named(f"shared-{number}"))
            except ToolRegistrationError as error:
                refused.append(str(error))

    threads = [threading.Thread(target=register, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(registry.list_tools()) == 8 * 20 + 20
    assert len(refused) == 7 * 20
