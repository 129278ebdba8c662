"""Events: the envelope, the stores that keep them, the buses that carry them."""

from tracehold.events.event import BlobRef as BlobRef
from tracehold.events.event import Event as Event
from tracehold.events.store import ANY_SEQ as ANY_SEQ
from tracehold.events.store import EventStore as EventStore
from tracehold.events.store import RunInfo as RunInfo
from tracehold.events.store import StoredSnapshot as StoredSnapshot
