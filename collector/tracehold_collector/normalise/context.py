"""What every normaliser is given besides the item itself, and the error that refuses one item."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tracehold_collector.core.errors import CollectorError
from tracehold_collector.core.limits import DEFAULT_LIMITS, Limits
from tracehold_collector.core.names import Cleaner, fit_name, fit_principal, is_id, stand_in_id, try_clean
from tracehold_collector.core.pseudonyms import Pseudonyms


class ItemError(CollectorError):
    """One item of a request cannot be stored; its neighbours can. The text is for the sender: no content."""


@dataclass(frozen=True, slots=True)
class NormaliseContext:
    """Whose items these are and by what rules they are read.

    Attributes:
        tenant: whose data it is.
        pseudonyms: for users and sessions; made for the same tenant.
        cleaner: masks everything that goes into a record.
        limits: on sizes, depth and names.
        now_ns: when the request came in, UTC nanoseconds.
        select: for a key of several tenants, gives the context of the tenant an item claims; `None` when the key has
            one, and a claim is never obeyed.
    """

    tenant: str
    pseudonyms: Pseudonyms
    cleaner: Cleaner
    limits: Limits = DEFAULT_LIMITS
    now_ns: int = 0
    select: Callable[[object], NormaliseContext] | None = field(default=None, repr=False, compare=False)

    def of(self, claim: object) -> NormaliseContext:
        """Return the context of an item that claims the tenant `claim`; `None` claims nothing.

        Raises:
            ItemError: the key may not write that tenant.
        """
        return self if self.select is None else self.select(claim)

    def name(self, value: object) -> str | None:
        """Return `value` as an envelope name, or `None` when it is none."""
        return fit_name(self.cleaner, value, self.limits.max_name_chars) if isinstance(value, str) and value else None

    def principal(self, value: object) -> str | None:
        """Return who decided, as an envelope name, or `None`; an account's address is one (DEC-02)."""
        if not isinstance(value, str) or not value:
            return None
        return fit_principal(self.cleaner, value, self.limits.max_name_chars)

    def run_id(self, value: object) -> str | None:
        """Return `value` as a run id: itself, a stand-in when it is not fit for the envelope, or `None`."""
        if type(value) is int:
            value = str(value)
        if not isinstance(value, str) or not value:
            return None
        return value if is_id(value, self.limits.max_name_chars) else stand_in_id(value)

    def call_id(self, value: object) -> str | None:
        """Return the id of a tool call; `None` when it is not fit for the envelope or would be masked."""
        if not isinstance(value, str) or not is_id(value, self.limits.max_name_chars):
            return None
        return value if try_clean(self.cleaner, value) == value else None

    def user(self, value: object) -> str | None:
        """Return the pseudonym of a person's identifier, or `None` without one."""
        text = _identifier(value)
        return self.pseudonyms.user(text) if text else None

    def session(self, value: object) -> str | None:
        """Return the pseudonym of a conversation's identifier, or `None` without one."""
        text = _identifier(value)
        return self.pseudonyms.session(text) if text else None


def _identifier(value: object) -> str:
    if isinstance(value, str):
        return value
    return str(value) if type(value) is int else ""
