"""Payload schemas: versions, steps between them, and errors that do not quote the payload."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Self

import pytest
from pydantic import BaseModel, ConfigDict, Field
from tracehold.core.errors import SchemaError
from tracehold.events.event import Event
from tracehold.events.schemas import SchemaRegistry


class OrderV1(BaseModel):
    number: int


class OrderV2(BaseModel):
    number: int
    currency: str = "EUR"
    placed: date | None = None


class OrderV3(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    number: int
    amount: dict[str, float] = Field(alias="amountBy")


@dataclass
class Homemade:
    """Anything with `model_validate` and `model_dump` is a model."""

    data: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def model_validate(cls, data: Any) -> Self:
        if "name" not in data:
            raise KeyError("ann@example.org")
        return cls(data)

    def model_dump(self) -> dict[str, Any]:
        return {"name": self.data["name"]}


JSON_SCHEMA = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}


def order(version: str, **data: Any) -> Event:
    return Event(type="order", schema_ref=version, data=data)


@pytest.fixture
def registry() -> SchemaRegistry:
    made = SchemaRegistry()
    made.register("order/v1", OrderV1)
    made.register("order/v2", OrderV2)
    made.register("order/v3", OrderV3)
    made.upcaster("order", 1, lambda data: data | {"currency": "USD"})
    made.upcaster("order", 2, lambda data: {"number": data["number"], "amountBy": {data["currency"]: 1.0}})
    return made


@pytest.mark.parametrize(
    "ref", ["order", "order/2", "order/v0", "order/v-1", "order/v1.0", "/v1", "", None, 5, "order/v01"]
)
def test_a_ref_is_a_name_and_a_version(ref: Any) -> None:  # SCH-01
    with pytest.raises(ValueError, match="order/v2"):
        SchemaRegistry().register(ref, OrderV1)


def test_a_name_may_hold_slashes(registry: SchemaRegistry) -> None:  # SCH-01
    registry.register("shop/order/v1", OrderV1)
    assert registry.validate(order("shop/order/v1", number="5")).data == {"number": 5}


def test_a_version_means_one_model_for_good(registry: SchemaRegistry) -> None:  # SCH-01
    registry.register("order/v1", OrderV1)
    with pytest.raises(ValueError, match="another model"):
        registry.register("order/v1", OrderV2)
    with pytest.raises(ValueError, match="another upcaster"):
        registry.upcaster("order", 1, lambda data: data)


@pytest.mark.parametrize("model", [None, 5, object(), "OrderV1"])
def test_what_is_no_model_is_refused(model: Any) -> None:  # SCH-01
    with pytest.raises(TypeError, match="model_validate"):
        SchemaRegistry().register("order/v1", model)


@pytest.mark.parametrize(
    ("version", "fn", "error"), [(0, dict, ValueError), (True, dict, ValueError), (1, None, TypeError)]
)
def test_an_upcaster_that_cannot_be_meant_is_refused(version: Any, fn: Any, error: type[Exception]) -> None:  # SCH-01
    with pytest.raises(error):
        SchemaRegistry().upcaster("order", version, fn)


@pytest.mark.parametrize("ref", ["", "unknown/v1", "unknown/v9", "order", "nonsense"])
def test_no_ref_or_an_unknown_name_passes_unchanged(registry: SchemaRegistry, ref: str) -> None:  # SCH-02
    event = order(ref, anything=[1])
    assert registry.validate(event) is event


def test_an_older_version_is_lifted_step_by_step_to_the_newest(registry: SchemaRegistry) -> None:  # SCH-02
    event = order("order/v1", number=7)
    lifted = registry.validate(event)
    assert lifted.schema_ref == "order/v3"
    assert lifted.data == {"number": 7, "amountBy": {"USD": 1.0}}
    assert lifted == event.with_(data=lifted.data, schema_ref="order/v3")
    assert event.data == {"number": 7}
    assert registry.validate(order("order/v2", number=7, currency="CHF")).data["amountBy"] == {"CHF": 1.0}


def test_the_newest_version_becomes_what_the_model_makes_of_it() -> None:  # SCH-02
    registry = SchemaRegistry()
    registry.register("order/v2", OrderV2)
    checked = registry.validate(order("order/v2", number="7", placed="2026-01-31"))
    assert checked.data == {"number": 7, "currency": "EUR", "placed": "2026-01-31"}
    assert registry.validate(checked) == checked


def test_a_missing_step_is_an_error_that_says_which(registry: SchemaRegistry) -> None:  # SCH-02
    registry.register("order/v5", OrderV3)
    with pytest.raises(SchemaError, match=r"order/v3 to v4.*upcaster\('order', 3, fn\)"):
        registry.validate(order("order/v1", number=7))


def test_a_version_newer_than_all_known_is_an_error(registry: SchemaRegistry) -> None:  # SCH-02
    with pytest.raises(SchemaError, match="order/v4 is newer than order/v3"):
        registry.validate(order("order/v4"))


def test_an_invalid_payload_is_an_error_that_names_the_place_and_not_the_value(registry: SchemaRegistry) -> None:
    # SCH-02
    with pytest.raises(SchemaError, match=r"order/v3: number: int_parsing.*amountBy") as caught:
        registry.validate(order("order/v3", number="ann@example.org", amountBy={"ann@example.org": "x"}, extra=1))
    assert "ann" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_failing_upcaster_is_an_error_without_its_words(registry: SchemaRegistry) -> None:  # SCH-02
    def fail(data: dict[str, Any]) -> dict[str, Any]:
        raise KeyError(data["name"])

    registry.register("user/v2", OrderV1)
    registry.upcaster("user", 1, fail)
    with pytest.raises(SchemaError, match=r"user/v1 failed with KeyError at test_schemas\.py:\d+") as caught:
        registry.validate(order("user/v1", name="ann"))
    assert "ann" not in str(caught.value)


def test_an_upcaster_cannot_change_the_event_it_reads(registry: SchemaRegistry) -> None:  # SCH-02
    def greedy(data: dict[str, Any]) -> dict[str, Any]:
        data["lines"].clear()
        return {"number": 1}

    registry.register("cart/v2", OrderV1)
    registry.upcaster("cart", 1, greedy)
    event = order("cart/v1", lines=[1, 2])
    registry.validate(event)
    assert event.data == {"lines": [1, 2]}


def test_an_upcaster_may_return_a_model(registry: SchemaRegistry) -> None:  # SCH-01
    registry.register("cart/v2", OrderV1)
    registry.upcaster("cart", 1, lambda data: OrderV1(number=data["n"]))  # type: ignore[arg-type,return-value]
    assert registry.validate(order("cart/v1", n=3)).data == {"number": 3}


def test_anything_with_model_validate_and_model_dump_is_a_model() -> None:  # SCH-01
    registry = SchemaRegistry()
    registry.register("user/v1", Homemade)
    assert registry.validate(order("user/v1", name="ann", age=3)).data == {"name": "ann"}
    with pytest.raises(SchemaError, match=r"user/v1: KeyError at test_schemas\.py") as caught:
        registry.validate(order("user/v1"))
    assert "ann" not in str(caught.value)


def test_a_json_schema_is_a_model_that_changes_nothing() -> None:  # SCH-01
    registry = SchemaRegistry()
    registry.register("user/v1", JSON_SCHEMA)
    event = order("user/v1", age=3, more="x")
    assert registry.validate(event) is event
    with pytest.raises(SchemaError, match="user/v1: age: type") as caught:
        registry.validate(order("user/v1", age="ann"))
    assert "ann" not in str(caught.value)
    with pytest.raises(SchemaError, match="user/v1: data: required"):
        registry.validate(order("user/v1"))
    with pytest.raises(SchemaError, match="user/v1"):
        registry.validate(order("user/v1", age=object()))


def test_a_json_schema_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="user/v1 is invalid"):
        SchemaRegistry().register("user/v1", {"type": "nonsense"})


def test_a_registry_without_pydantic_models_does_not_import_pydantic() -> None:  # SCH-01
    program = """
import sys
from tracehold.events.event import Event
from tracehold.events.schemas import SchemaRegistry
registry = SchemaRegistry()
registry.register("user/v1", {"type": "object"})
registry.validate(Event(type="x", schema_ref="user/v1"))
print("pydantic" in sys.modules)
"""
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout == "False\n"
    )
