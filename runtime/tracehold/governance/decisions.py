"""What people decided about the calls of one turn, and who they are (DEC-02)."""

from __future__ import annotations

from collections.abc import Collection, Mapping


class Decisions(dict[str, bool]):
    """The decision table of a resume, `{call_id: bool}`, with the person behind it.

    `Harness.aexec_tool` takes any mapping; this one also says who decided, so that the record can.

    Args:
        decided: call id to yes or no.
        decided_by: the principal behind all of them, or `None`.
        deciders: the principal by call id, where they differ.
        expired: ids of calls whose approval came too late; they are refused whatever was decided.
    """

    def __init__(
        self,
        decided: Mapping[str, bool] | None = None,
        *,
        decided_by: str | None = None,
        deciders: Mapping[str, str] | None = None,
        expired: Collection[str] = (),
    ) -> None:
        super().__init__(decided or {})
        self._decided_by = decided_by
        self._deciders = dict(deciders or {})
        self.expired = frozenset(expired)

    def decider(self, call_id: str) -> str | None:
        """Return who decided on a call, or `None` when nobody said."""
        return self._deciders.get(call_id, self._decided_by)
