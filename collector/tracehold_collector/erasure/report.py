"""The erasure report: one JSON object that says what was erased, for whom and why, signed with the log's key.

What is signed is a note (https://c2sp.org/signed-note) of two lines: `FIRST_LINE`, and the SHA-256 of the object as
canonical JSON (RFC 8785). So anybody checks it with the verifier key alone, on a machine that never saw the server,
whatever became of the file's spaces and line ends on the way; and the note, which stands on the PDF too, vouches for
that.

A report tells of the steps that are done, as they stand in the register. It is the same, byte for byte, each time it is
asked for until another step is done, or the first tree head after that step is signed; so the SHA-256 on the PDF is
that of the JSON.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import orjson
from tracehold.core.errors import CanonicalJsonError
from tracehold.core.version import __version__
from tracehold.governance.canonical import canonical_json

from tracehold_collector.audit.notes import ED25519, VerifierKey, open_note, parse_note
from tracehold_collector.audit.signing import Signer
from tracehold_collector.core.errors import BadBodyError, NoteError
from tracehold_collector.core.times import iso_utc
from tracehold_collector.erasure.record import ErasureRecord
from tracehold_collector.erasure.wire import record_json

TYPE: Final = "tracehold.erasure-report"
FIRST_LINE: Final = "tracehold.erasure-report/1\n"

_MAX_BYTES: Final = 16 * 1024 * 1024
_MAX_CHARS: Final = 10_000

_HEAD: Final = """
SELECT size, root, note
FROM tree_heads
WHERE tenant = ? AND signed_at >= ?
ORDER BY signed_at, size
LIMIT 1
"""

_OF_REQUEST: Final = (
    "requester",
    "approver",
    "strict",
    "policy",
    "basis",
    "basis_text",
    "received_at",
    "due_at",
    "requested_at",
    "approved_at",
    "refused_at",
    "refused_why",
)
_OF_DONE: Final = ("started_at", "unreadable_since", "completed_at", "bytes_gone_since")
_OF_MANIFEST: Final = ("runs", "whole_runs", "events", "chunks", "content_bytes", "keys")
_BACKUPS: Final = frozenset({"key backup", "database backup"})

LIMIT_OF_FILES: Final = (
    "The collector wrote its database file anew without what was erased, overwrote the old file with zeros and removed "
    "it. A file system that never writes in place (copy-on-write, snapshots), the spare blocks of a flash drive and "
    "copies of the disk below the file system are out of its reach."
)
LIMIT_OF_COPIES: Final = (
    "What was handed over before is with whoever has it: see the recipients. A backup of the database from before "
    "holds sealed content, which only a backup of the keys from before can open: see the backups."
)


@dataclass(frozen=True, slots=True)
class HeadSeen:
    """The first tree head that was signed after the last step of an erasure.

    Attributes:
        size: leaves it covers.
        root: over these, 32 bytes.
        note: the signed note.
    """

    size: int
    root: bytes
    note: str


def head_after(cursor: duckdb.DuckDBPyConnection, record: ErasureRecord) -> HeadSeen | None:
    """Return the first tree head that covers all that is told of an erasure; `None` while there is none.

    Raises:
        duckdb.Error: the store cannot be read.
    """
    last = max((at for _, at in record.steps), default=record.requested_at)
    row = cursor.execute(_HEAD, [record.tenant, last]).fetchone()
    return None if row is None else HeadSeen(*row)


def build_report(record: ErasureRecord, signer: Signer, head: HeadSeen | None) -> dict[str, Any]:
    """Return the report of an erasure as it stands: JSON values only, times in ISO 8601 (UTC), unknown as null."""
    told = record_json(record, 0)
    last = max((at for _, at in record.steps), default=record.requested_at)
    # The ids of events are in the manifest and the log; here they would take the place of everything else.
    value = None if record.scope == "event" else told["scope_value"]
    report: dict[str, Any] = {
        "type": TYPE,
        "version": 1,
        "as_of": iso_utc(last),
        "made_by": f"tracehold {__version__}",
        "erasure": {
            "id": record.id,
            "run_id": record.run_id,
            "tenant": record.tenant,
            "status": record.status,
            "scope": record.scope,
            "scope_value": value,
            "agent": record.agent,
            "kinds": list(record.kinds),
            "mode": record.mode,
        },
        "request": {name: told[name] for name in _OF_REQUEST},
        "done": {name: told[name] for name in _OF_DONE} | {"late": _late(record)},
        "steps": told["steps"],
        "manifest": {name: told[name] for name in _OF_MANIFEST},
        "places": told["places"],
        "stayed": [*_always_stays(record), *told["stayed"]],
        "recipients": [each for each in told["recipients"] if each["kind"] not in _BACKUPS],
        "backups": [each for each in told["recipients"] if each["kind"] in _BACKUPS],
        "remains": told["canaries"],
        "limits": [LIMIT_OF_FILES, LIMIT_OF_COPIES] if record.bytes_gone_since is not None else [LIMIT_OF_COPIES],
        "evidence": _evidence(record, signer, head),
    }
    cleaned: dict[str, Any] = _clean(report)
    return cleaned


def _late(record: ErasureRecord) -> bool | None:
    """Whether it was done after it was due; `None` while it is not done."""
    return None if record.completed_at is None else record.completed_at > record.due_at


def _always_stays(record: ErasureRecord) -> list[dict[str, Any]]:
    if record.started_at is None:
        return []
    proof = {
        "what": f"{record.leaves} leaf hashes of the audit log, the ids of the events, and the erasure's own id",
        "why": "so that the log still verifies and a resend is refused; a leaf hash is salted with 32 random bytes "
        "that are erased, so that nobody can confirm a guess by it",
        "count": record.leaves,
        "until": None,
    }
    own = {
        "what": f"the record of this erasure, run {record.run_id}",
        "why": "to be able to show that the duty was met (GDPR Art. 5(2) and 17(3)(b))",
        "count": None,
        "until": None,
    }
    envelopes = {
        "what": f"{record.events} envelopes: ids, types, times, counts, costs, decisions and pseudonyms",
        "why": "the mode was scrub, which empties what was said and keeps that it was",
        "count": record.events,
        "until": None,
    }
    return [proof, own] if record.mode == "delete" else [envelopes, proof, own]


def _evidence(record: ErasureRecord, signer: Signer, head: HeadSeen | None) -> dict[str, Any]:
    key, tenant = str(signer.verifier_keys()[0]), _clean(record.tenant)
    return {
        "erased_leaves": record.leaves,
        "erased_leaves_root": None if record.root is None else record.root.hex(),
        "log": signer.origin(tenant),
        "tree_head": None if head is None else {"size": head.size, "root": head.root.hex(), "note": head.note},
        "report_key": key,
        "log_keys": [str(each) for each in signer.verifier_keys(tenant)],
        "how_to_verify": [
            f"tracehold erasure verify-report FILE --key {key}",
            f"tracehold verify --tenant {shlex.quote(tenant)}",
        ],
    }


def _clean(value: Any) -> Any:
    """Replace half surrogate pairs, which no UTF-8 text can hold, and cut what is longer than anybody reads (FR-15)."""
    if isinstance(value, str):
        text = value if len(value) <= _MAX_CHARS else f"{value[:_MAX_CHARS]}... (cut, of {len(value)} characters)"
        return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if isinstance(value, Mapping):
        return {_clean(name): _clean(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(each) for each in value]
    return value


def report_bytes(report: Mapping[str, Any]) -> bytes:
    """Return a report as canonical JSON (RFC 8785): what its SHA-256 is of."""
    return canonical_json(report)


def report_digest(report: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a report's canonical JSON, as 64 hex digits."""
    return hashlib.sha256(report_bytes(report)).hexdigest()


def sign_report(report: Mapping[str, Any], signer: Signer) -> dict[str, Any]:
    """Return the file of a report: the object, its SHA-256, and the signed note that names it.

    Raises:
        StoreError: the key cannot be read.
    """
    sha256 = report_digest(report)
    return {"report": dict(report), "sha256": sha256, "note": signer.sign_statement(_text(sha256))}


def open_report(data: bytes, keys: Sequence[VerifierKey]) -> tuple[dict[str, Any], tuple[VerifierKey, ...]]:
    """Check a report's file without asking anybody; return the report and the keys that signed it, at least one.

    Args:
        data: the file, from a stranger.
        keys: verifier keys that were got by other means than this file, of the log or of a tenant's log.

    Raises:
        BadBodyError: it is no file of a report.
        NoteError: it was altered, or none of the keys signed it.
    """
    if len(data) > _MAX_BYTES:
        raise BadBodyError(f"a report has less than {_MAX_BYTES // 1024 // 1024} MiB")
    try:
        told = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise BadBodyError("this is no erasure report: no JSON") from None
    if not isinstance(told, dict) or not isinstance(told.get("report"), dict) or told["report"].get("type") != TYPE:
        raise BadBodyError("this is no erasure report: it has no 'report' of the type tracehold.erasure-report")
    if not isinstance(told.get("note"), str):
        raise BadBodyError("this is no erasure report: it has no 'note' that is signed")
    try:
        expected = _text(report_digest(told["report"]))
    except CanonicalJsonError:
        raise BadBodyError("this is no erasure report: it holds what canonical JSON cannot") from None
    try:
        note, signers = open_note(told["note"], _under_the_logs_name(told["note"], keys))
    except NoteError as error:
        raise NoteError(f"the signature of this report is not to be believed: {error}") from None
    if note.text != expected:
        raise NoteError("this report is not as it was signed: its SHA-256 is not the one that the note names")
    return told["report"], signers


def _under_the_logs_name(note: str, keys: Sequence[VerifierKey]) -> list[VerifierKey]:
    """A log signs statements under its own name, and tree heads under that of a tenant's log: it is the same key."""
    found = []
    for name in {line.name for line in parse_note(note).signatures}:
        own = (key for key in keys if key.name == name or key.name.startswith(f"{name}/"))
        found += [VerifierKey(name, ED25519, key.public) for key in own]
    return list(dict.fromkeys(found))


def _text(sha256: str) -> str:
    return f"{FIRST_LINE}sha256 {sha256}\n"
