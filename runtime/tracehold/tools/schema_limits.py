"""What the schemas of tools, and the parameters checked with them, may cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class SchemaLimits:
    """Limits on input that strangers write: a server its schemas, a model its parameters.

    A visit is one subschema applied to one value: 10 to 50 ns while looking for a verdict, some 20 us while looking
    for what to tell. Levels and visits are bounded because the validator recurses on the machine's stack, which it
    can exhaust, and holds the interpreter until it is done.

    Attributes:
        schema_bytes: length of a schema as JSON.
        schema_levels: nesting of a schema as JSON; the validator's parser has 127 itself.
        schema_containers: objects and arrays in a schema.
        chain: subschemas applied one inside the other to one value, references counted.
        visits_per_value: visits that one value may cause in the worst case, what recursion adds left out.
        visits: visits of a whole check.
        listed_visits: visits up to which several problems are told, where each alternative tells its own.
        told_visits: visits up to which the first problem is told, where each alternative tells its own; beyond, only
            that there is one.
        stack: visits one inside the other.
        estimate_steps: additions made for the estimate of all these.
        value_levels: nesting of parameters.
        values: values that parameters hold, all levels counted; also what ends the walk through shared containers.
    """

    schema_bytes: int = 1_000_000
    schema_levels: int = 100
    schema_containers: int = 100_000
    chain: int = 64
    visits_per_value: int = 50_000
    visits: int = 20_000_000
    listed_visits: int = 2_000
    told_visits: int = 20_000
    stack: int = 600
    estimate_steps: int = 500_000
    value_levels: int = 64
    values: int = 1_000_000


LIMITS: Final = SchemaLimits()
