"""Where the history of conversations is kept: the interface (SES-01..06)."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tracehold.core.message import Message
from tracehold.core.scope import Scope


@dataclass(frozen=True, slots=True)
class ScopeSummary:
    """What is stored under one value of a dimension (SES-25).

    Attributes:
        dimension: the dimension listed, such as "session".
        value: its value; `""` stands for messages that leave it unset.
        message_count: how many messages, over all matching scopes.
        first_at: the earliest message's time, aware UTC; `None` when unknown.
        last_at: the latest message's time, aware UTC; `None` when unknown.
    """

    dimension: str
    value: str
    message_count: int
    first_at: datetime | None
    last_at: datetime | None


class SessionStore(ABC):
    """The history of conversations, told apart by `Scope`.

    Every implementation MUST keep to these rules:

    - `load` and `clear` compare every dimension, unset ones included: no scope is the bucket whose dimensions are all
      unset, and never "everything" (SES-02).
    - `all_scopes=True` is the only way to reach across sessions; `scope` is then ignored (SES-03).
    - What `append` has returned from survives the process.

    The async twins run the sync method on a worker thread (SES-05). A cancelled call does not stop that thread: its
    message may still be stored.
    """

    @abstractmethod
    def append(self, message: Message, *, scope: Scope | None = None) -> None:
        """Add one message at the end of the session `scope`."""

    def append_many(self, messages: Sequence[Message], *, scope: Scope | None = None) -> None:
        """Add messages in order, one by one: a failure leaves the earlier ones stored (SES-04).

        A store with transactions should override this, so that a turn is there as a whole or not at all.
        """
        for message in messages:
            self.append(message, scope=scope)

    @abstractmethod
    def load(self, *, scope: Scope | None = None, all_scopes: bool = False) -> list[Message]:
        """Return the messages of the session `scope` in the order of insertion; `[]` when there are none."""

    @abstractmethod
    def clear(self, *, scope: Scope | None = None, all_scopes: bool = False) -> None:
        """Delete the messages of the session `scope`; with `all_scopes`, those of all sessions."""

    def list_scopes(self, *, along: str = "session", scope: Scope | None = None) -> list[ScopeSummary]:
        """List the values of the dimension `along`, most recently active first, restricted by `scope`'s others.

        Raises:
            NotImplementedError: this store cannot list (SES-06).
        """
        raise NotImplementedError(f"{type(self).__name__} cannot list scopes; use a store that can, or keep a list")

    def close(self) -> None:  # noqa: B027 - overriding it is a choice: not every store holds something
        """Release what the store holds; the base holds nothing."""

    async def aappend(self, message: Message, *, scope: Scope | None = None) -> None:
        """`append` on a worker thread."""
        await asyncio.to_thread(self.append, message, scope=scope)

    async def aappend_many(self, messages: Sequence[Message], *, scope: Scope | None = None) -> None:
        """`append_many` on a worker thread."""
        await asyncio.to_thread(self.append_many, messages, scope=scope)

    async def aload(self, *, scope: Scope | None = None, all_scopes: bool = False) -> list[Message]:
        """`load` on a worker thread."""
        return await asyncio.to_thread(self.load, scope=scope, all_scopes=all_scopes)

    async def aclear(self, *, scope: Scope | None = None, all_scopes: bool = False) -> None:
        """`clear` on a worker thread."""
        await asyncio.to_thread(self.clear, scope=scope, all_scopes=all_scopes)

    async def alist_scopes(self, *, along: str = "session", scope: Scope | None = None) -> list[ScopeSummary]:
        """`list_scopes` on a worker thread."""
        return await asyncio.to_thread(self.list_scopes, along=along, scope=scope)
