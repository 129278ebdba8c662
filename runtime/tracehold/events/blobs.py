"""Payloads outside the log: where they are kept, and how an event gives one away and gets it back (BLB)."""

from tracehold.events.blob_store import BlobStore, InMemoryBlobStore, StreamBlobs, bound_to, salted, unsalted
from tracehold.events.claims import CLAIM, claim, hydrate
from tracehold.events.file_blobs import FileBlobStore

__all__ = [
    "CLAIM",
    "BlobStore",
    "FileBlobStore",
    "InMemoryBlobStore",
    "StreamBlobs",
    "bound_to",
    "claim",
    "hydrate",
    "salted",
    "unsalted",
]
