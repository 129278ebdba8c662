"""State as a fold over a stream, with snapshots so that a load reads the tail only (PRJ)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

from tracehold.events.event import Event
from tracehold.events.payload_json import decode_payload, encode_payload
from tracehold.events.state_types import Codec, codec_for
from tracehold.events.store import EventStore, StoredSnapshot

State = TypeVar("State")

PAGE: Final = 1024
"""Events read at once: a long stream is folded piece by piece, and other work gets its turn between them."""

_log = logging.getLogger(__name__)


# Without slots: `Loaded[int](...)` fails for a generic class that is frozen and has them.
@dataclass(frozen=True)
class Loaded(Generic[State]):
    """A state and where it comes from.

    Attributes:
        state: after the event `seq`.
        seq: number of the last event folded; -1 for an empty stream.
        from_snapshot: number of the last event of the snapshot it started from; -1 for none.
        replayed: events folded on top of it.
    """

    state: State
    seq: int
    from_snapshot: int = -1
    replayed: int = 0


class Projection(Generic[State]):
    """State computed from a stream's events, one after another (PRJ-01).

    With a name and a type it is snapshotted (PRJ-02). Change `version` whenever `fold` or the state's shape changes: a
    snapshot of another version is ignored (PRJ-03).

    Args:
        initial: makes the state before the first event; called anew for each replay.
        fold: takes a state and the next event and returns the new state; depends on nothing else.
        name: of its snapshots within a stream; "" takes none.
        version: of fold and state.
        state_type: how a snapshot is read: a pydantic model, a dataclass, or plain types such as `dict[str, int]`;
            `None` takes no snapshots.
        every: events folded since the last snapshot before the next is taken.

    Raises:
        TypeError: a function that cannot be called, a name that is no text, a state type without a JSON form.
        ValueError: `every` below 1.
    """

    def __init__(
        self,
        initial: Callable[[], State],
        fold: Callable[[State, Event], State],
        *,
        name: str = "",
        version: int = 1,
        state_type: Any = None,
        every: int = 64,
    ) -> None:
        if not callable(initial) or not callable(fold):
            raise TypeError("Projection(initial, fold): both must be callable")
        if not isinstance(name, str) or type(version) is not int:
            raise TypeError("a projection's name is a text and its version an integer")
        if type(every) is not int or every < 1:
            raise ValueError(f"every must be an integer of at least 1, not {every!r}")
        self.initial = initial
        self.fold = fold
        self.name = name
        self.version = version
        self.state_type = state_type
        self.every = every
        self._codec: Codec | None = codec_for(state_type) if name and state_type is not None else None
        self._warned = False

    def replay(self, events: Iterable[Event], state: State | None = None) -> State:
        """Return the fold over `events`, from `state` or else the initial one."""
        folded = self.initial() if state is None else state
        for event in events:
            folded = self.fold(folded, event)
        return folded

    async def load(
        self,
        store: EventStore,
        stream: str,
        *,
        hydrate: Callable[[Event], Awaitable[Event]] | None = None,
        use_snapshots: bool = True,
    ) -> Loaded[State]:
        """Return the current state of a stream, from its snapshot and the tail, and take a new snapshot when due.

        Args:
            store: the log.
            stream: whose state.
            hydrate: restores claim-checked payloads before they are folded.
            use_snapshots: `False` replays everything and takes none.
        """
        codec = self._codec if use_snapshots and hasattr(store, "load_snapshot") else None
        found = await self._from_snapshot(store, stream, codec) if codec is not None else None
        state, start = found or (self.initial(), -1)
        seq, replayed = start, 0
        last: str | None = None
        while True:
            events = await store.read(stream, seq + 1, PAGE)
            for event in events:
                state = self.fold(state, event if hydrate is None else await hydrate(event))
                seq, last, replayed = event.seq, event.id, replayed + 1
            if len(events) < PAGE:
                break
        if codec is not None and replayed >= self.every:
            await self._save(store, codec, state, StoredSnapshot(stream, self.name, seq, self.version, "", last))
        return Loaded(state, seq, start, replayed)

    async def _from_snapshot(self, store: EventStore, stream: str, codec: Codec) -> tuple[State, int] | None:
        """Return state and number of a usable snapshot (PRJ-03)."""
        snap = await store.load_snapshot(stream, self.name)
        if snap is None or snap.version != self.version or snap.seq < 0:
            return None
        if snap.seq > await store.last_seq(stream):
            return None  # of a log that was there before, or a copy that was restored without its end
        try:
            return codec.load(decode_payload(snap.state.encode())), snap.seq
        except Exception:  # noqa: BLE001 - whatever is wrong with it, the log has everything
            _log.debug("a snapshot of projection %s cannot be read; its stream is replayed", self.name)
            return None

    async def _save(self, store: EventStore, codec: Codec, state: State, snap: StoredSnapshot) -> None:
        try:
            text = _lossless(codec, state)
        except Exception as error:  # noqa: BLE001 - a state of another type than declared: the user's own code
            self._warn("its state is not what state_type declares, or does not come back exactly", error)
            return
        try:
            await store.save_snapshot(replace(snap, state=text))
        except Exception as error:  # noqa: BLE001 - it only saves time; the state itself is right
            self._warn("the store could not keep it", error)

    def _warn(self, what: str, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            _log.warning(
                "projection %s takes no snapshot: %s (%s); loads replay more than they need to",
                self.name,
                what,
                type(error).__name__,
            )


def _lossless(codec: Codec, state: Any) -> str:
    """Return the state's text, once it is sure that what is read back is written the same.

    Raises:
        ValueError: it is not.
    """
    raw = encode_payload(codec.dump(state), name="state")
    if encode_payload(codec.dump(codec.load(decode_payload(raw))), name="state") != raw:
        raise ValueError("the state does not come back as it was")
    return raw.decode()
