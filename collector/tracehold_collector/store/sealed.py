"""Seals the chunks of a commit, each under a key of its run."""

from __future__ import annotations

import pyarrow as pa

from tracehold_collector.sealing.vault import Place, Vault
from tracehold_collector.store.chunks import SEALED
from tracehold_collector.store.columns import CHUNK_SCHEMA

_SCHEMA = CHUNK_SCHEMA.append(pa.field("key_id", pa.uuid()))


def seal_batch(vault: Vault, packed: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of `contents` as they are stored.

    Args:
        vault: seals.
        packed: the same rows as the decoder packed them.

    Raises:
        StoreError: there is no key to be had.
    """
    places = map(Place, *(packed.column(name).to_pylist() for name in ("chunk_id", "tenant", "run_id")))
    bodies = packed.column("body").to_pylist()
    sealed = [vault.seal(place, body) for place, body in zip(places, bodies, strict=True)]
    return pa.record_batch(
        [
            packed.column("chunk_id"),
            packed.column("tenant"),
            packed.column("run_id"),
            pa.array([SEALED] * len(sealed), pa.string()),
            packed.column("entries"),
            pa.array([body for _, body in sealed], pa.binary()),
            pa.ExtensionArray.from_storage(pa.uuid(), pa.array([key_id.bytes for key_id, _ in sealed], pa.binary(16))),
        ],
        schema=_SCHEMA,
    )
