"""How much work a schema can make of one call, estimated before the validator is let loose.

A validator applies subschemas to values: each application is a visit. A schema of a few kilobytes can ask for more
visits than anybody can wait for: `d0` applies `d1` twice, that one `d2` twice, and so on. So visits are counted over
the graph of subschemas, each subschema once (a memoised count), before anything is validated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tracehold.tools.schema_graph import ANY_INDEX, ANY_KEY, Graph, SchemaTooComplexError, Slot
from tracehold.tools.schema_limits import LIMITS, SchemaLimits

_Slots = dict[Slot, int]

_MANY: Final = 10**12
"""Counts stop here: beyond it the exact number changes no verdict and would only grow."""

_COLLECTING: Final = 4
"""Times a subschema is gone over where the validator also collects what it evaluated (measured, rounded up)."""


class _Steps:
    """The additions one count may still make; each has its own, for threads share an estimate."""

    def __init__(self, left: int) -> None:
        self._left = left

    def add(self, additions: int) -> None:
        self._left -= 1 + additions
        if self._left < 0:
            raise SchemaTooComplexError("its parts refer to each other in too many ways")


class Estimate:
    """What a schema costs at most.

    Attributes:
        chain: subschemas applied one inside the other to one value.
        alternatives: whether problems of several alternatives may have to be told for one value.

    Raises:
        SchemaTooComplexError: a limit is exceeded, or a subschema applies itself to the same value.
    """

    def __init__(self, graph: Graph, limits: SchemaLimits = LIMITS) -> None:
        self.alternatives = graph.alternatives
        self._nodes = graph.nodes
        self._limits = limits
        steps = _Steps(limits.estimate_steps)
        same = [node.same for node in graph.nodes]
        self._order, goes_round = _finished(same)
        if goes_round:
            raise SchemaTooComplexError("it applies a part of itself to the same value again and again")
        self._times = self._repetitions()
        self._alone = self._count_alone(steps)
        self.chain = self._longest_chain()
        self._visits, self._recursive = self._remembering(steps)
        if self._visits > limits.visits_per_value:
            raise SchemaTooComplexError(f"one value could take more than {limits.visits_per_value} steps to check")

    def visits(self, values: int, levels: int) -> int:
        """Return the visits while a verdict is looked for, to so many values nested that deep.

        The validator remembers verdicts of a recursive subschema. Until it does, it goes at most twice through each way
        that leads back to one (measured), so the square of the visits is a bound, which depth does not change. For
        shallow parameters the count without remembering is the lower one.
        """
        remembering = self._visits**2 if self._recursive else self._visits
        if values * remembering <= self._limits.visits:
            return values * remembering
        return min(values * remembering, self.gathering_visits(values, levels))

    def gathering_visits(self, values: int, levels: int) -> int:
        """Return the visits when nothing is remembered, as while problems are gathered.

        A very large number where counting itself would take too long.
        """
        steps = _Steps(self._limits.estimate_steps)
        visits = self._alone
        slots: list[_Slots] = [{} for _ in self._nodes]
        try:
            for _ in range(levels):
                below = visits
                for number in self._order:
                    slots[number] = self._parts(number, slots, below, steps)
                visits = [max(one) for one in zip(self._alone, map(_worst, slots), below, strict=True)]
        except SchemaTooComplexError:
            return _MANY
        return values * visits[0]

    def _repetitions(self) -> list[int]:
        """Return for each subschema how often what it applies to the same value is gone over."""
        times = [1] * len(self._nodes)
        for number in reversed(self._order):  # from the outside inwards
            node = self._nodes[number]
            if node.collects:
                times[number] = _COLLECTING
            if times[number] > 1:
                for inner in node.same:
                    times[inner] = _COLLECTING
        return times

    def _count_alone(self, steps: _Steps) -> list[int]:
        """Return for each subschema the visits to a value that has no parts."""
        alone = [1] * len(self._nodes)
        for number in self._order:
            alone[number] = self._to_one_value(number, alone, steps)
        return alone

    def _longest_chain(self) -> int:
        chains = [1] * len(self._nodes)
        for number in self._order:
            chains[number] += max((chains[inner] for inner in self._nodes[number].same), default=0)
        chain = max(chains)
        if chain > self._limits.chain:
            raise SchemaTooComplexError(f"more than {self._limits.chain} parts apply one inside the other to one value")
        return chain

    def _remembering(self, steps: _Steps) -> tuple[int, bool]:
        """Return the visits per value, where what leads back counts once, and whether anything leads back."""
        order, leads_back = _finished([[*node.same, *(inner for _, inner in node.parts)] for node in self._nodes])
        # What is still open when it is met again counts as it stands here: once, and with no parts.
        alone = [1] * len(self._nodes)
        visits = [1] * len(self._nodes)
        slots: list[_Slots] = [{} for _ in self._nodes]
        for number in order:
            alone[number] = self._to_one_value(number, alone, steps)
            slots[number] = self._parts(number, slots, visits, steps)
            visits[number] = max(alone[number], _worst(slots[number]))
        return visits[0], leads_back

    def _to_one_value(self, number: int, alone: list[int], steps: _Steps) -> int:
        """Return the visits of this subschema and of those inside it to a value that has no parts."""
        same = self._nodes[number].same
        steps.add(len(same))
        return _capped(1 + self._times[number] * sum(alone[inner] for inner in same))

    def _parts(self, number: int, slots: list[_Slots], visits: list[int], steps: _Steps) -> _Slots:
        """Return the visits to each part of a value that this subschema is applied to."""
        node, times = self._nodes[number], self._times[number]
        summed: _Slots = {}
        for inner in node.same:
            steps.add(len(slots[inner]))
            for slot, count in slots[inner].items():
                summed[slot] = _capped(summed.get(slot, 0) + times * count)
        steps.add(len(node.parts))
        for slot, inner in node.parts:
            summed[slot] = _capped(summed.get(slot, 0) + visits[inner])
        return summed


def _worst(slots: _Slots) -> int:
    """Return the visits to the part of a value that has most."""
    keys = max((count for (kind, _), count in slots.items() if kind == "key"), default=0)
    indexes = max((count for (kind, _), count in slots.items() if kind == "index"), default=0)
    return max(keys + slots.get(ANY_KEY, 0), indexes + slots.get(ANY_INDEX, 0))


def _capped(count: int) -> int:
    return min(count, _MANY)


def _finished(edges: list[list[int]]) -> tuple[list[int], bool]:
    """Return the nodes, each after all it leads to, and whether an edge leads back to a node still open."""
    order: list[int] = []
    opened: set[int] = set()
    done: set[int] = set()
    leads_back = False
    for start in range(len(edges)):
        stack: list[tuple[int, Iterator[int]]] = [] if start in opened else [(start, iter(edges[start]))]
        opened.add(start)
        while stack:
            number, rest = stack[-1]
            inner = next(rest, None)
            if inner is None:
                stack.pop()
                done.add(number)
                order.append(number)
            elif inner not in opened:
                opened.add(inner)
                stack.append((inner, iter(edges[inner])))
            elif inner not in done:
                leads_back = True
    return order, leads_back
