"""Checks a Tracehold evidence bundle on any machine, without the server that made it and without a network.

    python verify_evidence.py bundle.zip --key 'log.example/acme+1a2b3c4d+AbCd...'

Needs Python 3.9 or later and one library: pip install cryptography

What it checks: that the log's key signed the tree heads; that each record leads to its leaf, and the leaf to the
signed root; that what was said (when it is in the bundle) is what was recorded; that the tree heads in the bundle, and
the ones you bring from another day or place, belong to one log that only grew; that every record answers the question;
that the population was counted right; and that the sample is the one its seed draws.

The verifier key must reach you by another way than the bundle: whoever can make up records can make up a key as well.

Exit codes: 0 everything holds; 1 something is altered, missing or not proven; 2 the bundle cannot be read; 3 everything
holds together, but only by keys that came in the bundle itself.

One file, and longer than a module should be, so that it can be copied and read as a whole. Written from the published
specifications alone, and sharing no code with the server: RFC 6962 and RFC 9162 (Merkle trees), c2sp.org/signed-note,
c2sp.org/tlog-checkpoint, c2sp.org/tlog-cosignature, and the page "Evidence bundles" of Tracehold's documentation.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import hashlib
import json
import struct
import sys
import uuid
import zipfile
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
except ImportError:  # pragma: no cover - said to whoever runs it bare
    sys.exit("This needs the library 'cryptography': pip install cryptography")

VERSION = 1
MAX_FILES = 1_000
MAX_SMALL_BYTES = 64 * 1024 * 1024
MAX_LINE_BYTES = 256 * 1024 * 1024
MAX_NOTE_BYTES = 1_000_000
MAX_SIZE = 1 << 62
HASH = 32

INTEGERS = (
    "seq",
    "started_at",
    "duration_ns",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)
DECIMALS = ("cost_usd",)
TEXTS = (
    "tenant",
    "run_id",
    "trace_id",
    "span_id",
    "parent_span_id",
    "kind",
    "type",
    "name",
    "status",
    "agent",
    "user_ref",
    "session_id",
    "service",
    "model",
    "provider",
    "price_source",
    "decision",
    "decided_by",
    "rule",
    "error_type",
    "source",
    "attributes",
)
FIELDS = INTEGERS + DECIMALS + TEXTS
"""The envelope's fields in the order of their presence bits."""


class BundleError(Exception):
    """The bundle cannot be read as one."""


class NotProven(Exception):
    """Something does not hold, or what would show it is not in the bundle."""


class UnknownSigner(NotProven):
    """Nobody known signed it: it says nothing, and accuses nobody (signed-note, "Signatures")."""


class Key(NamedTuple):
    """A verifier key: c2sp.org/signed-note, "Verifier keys"."""

    name: str
    kind: int
    public: bytes

    def id(self) -> bytes:
        """The first four bytes of SHA-256(name || newline || type || key)."""
        return hashlib.sha256(self.name.encode() + b"\n" + bytes([self.kind]) + self.public).digest()[:4]


class Head(NamedTuple):
    """A tree head whose signature holds."""

    origin: str
    size: int
    root: bytes
    signed_at: int | None
    key: Key


_NO_HEAD = Head("", 0, hashlib.sha256(b"").digest(), None, Key("", 1, b""))


class Finding(NamedTuple):
    """What was found out about one record."""

    state: str
    leaf_index: int | None
    event_id: str
    why: str


# --- signed notes and tree heads -------------------------------------------------------------------------------------


def decode64(text: Any, what: str, size: int | None = None) -> bytes:
    """Read base64, of `size` bytes when given."""
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (AttributeError, ValueError, binascii.Error):
        raise BundleError(f"{what} is no base64") from None
    if size is not None and len(data) != size:
        raise BundleError(f"{what} has {len(data)} bytes, not {size}")
    return data


def parse_key(text: str) -> Key:
    """Read `name+id+base64`."""
    parts = text.strip().split("+", 2)
    if len(parts) != 3 or not parts[0] or any(char.isspace() for char in parts[0]):
        raise BundleError("a verifier key looks like name+1a2b3c4d+AbCd...")
    material = decode64(parts[2], "the verifier key")
    if len(material) != 33 or material[0] not in (1, 4):
        raise BundleError("the verifier key is no Ed25519 key")
    key = Key(parts[0], material[0], material[1:])
    if key.id().hex() != parts[1]:
        raise BundleError(f"the verifier key {parts[0]}+{parts[1]} is damaged: it should be {key.id().hex()}")
    return key


def signed_by(key: Key, message: bytes, signature: bytes) -> bool:
    """Whether the Ed25519 signature holds."""
    try:
        Ed25519PublicKey.from_public_bytes(key.public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def split_note(data: bytes) -> tuple[str, list[tuple[str, bytes]]]:
    """Split a signed note into its text and (name, key id and signature)."""
    if len(data) > MAX_NOTE_BYTES:
        raise BundleError("a tree head is too long to be one")
    try:
        whole = data.decode("utf-8")
    except UnicodeDecodeError:
        raise BundleError("a tree head is no UTF-8") from None
    if any(char < " " and char != "\n" for char in whole):
        raise BundleError("a tree head holds a control character")
    text, gap, lines = whole.rpartition("\n\n")
    if not gap or not lines.endswith("\n"):
        raise BundleError("a tree head is no signed note")
    signatures = []
    for line in lines[:-1].split("\n"):
        words = line.split(" ")
        if len(words) != 3 or words[0] != "\u2014" or not words[1]:
            raise BundleError("a tree head has a line of signature that is none")
        signatures.append((words[1], decode64(words[2], "a signature")))
    return text + "\n", signatures


def open_head(data: bytes, keys: Sequence[Key]) -> Head:
    """Read a tree head and check that a key of its own log signed it; its time counts when that key signed it too."""
    text, signatures = split_note(data)
    lines = text.split("\n")
    if len(lines) < 4 or not all(lines[:-1]) or lines[-1]:
        raise BundleError("a tree head has an origin, a size and a root")
    origin, count = lines[0], lines[1]
    if not (count.isascii() and count.isdigit() and len(count) <= 19 and str(int(count)) == count):
        raise BundleError("the size of a tree head is no number")
    size = int(count)
    if size > MAX_SIZE:
        raise BundleError("the size of a tree head is beyond any log")
    root = decode64(lines[2], "the root of a tree head", HASH)
    signer = None
    for key in keys:
        for name, material in signatures:
            if key.kind == 1 and key.name == name == origin and material[:4] == key.id():
                if not signed_by(key, text.encode(), material[4:]):
                    raise NotProven(f"the signature under the tree head of size {size} is wrong: it was altered")
                signer = signer or key
    if signer is None:
        raise UnknownSigner(f"none of the keys given signed the tree head of size {size} of {origin}")
    return Head(origin, size, root, signed_time(text, signatures, signer), signer)


def signed_time(text: str, signatures: Sequence[tuple[str, bytes]], signer: Key) -> int | None:
    """Return the time that the log's key cosigned (c2sp.org/tlog-cosignature), in seconds since 1970."""
    times = []
    for name, material in signatures:
        key = Key(name, 4, signer.public)
        if material[:4] != key.id():
            continue
        if len(material) != 4 + 8 + 64:
            raise NotProven("the time in a tree head is damaged")
        moment = int.from_bytes(material[4:12], "big")
        if not signed_by(key, f"cosignature/v1\ntime {moment}\n{text}".encode(), material[12:]):
            raise NotProven("the time in a tree head was altered")
        times.append(moment)
    return min(times) if times else None


# --- the tree --------------------------------------------------------------------------------------------------------


def hash_leaf(data: bytes) -> bytes:
    """RFC 9162 section 2.1.1."""
    return hashlib.sha256(b"\x00" + data).digest()


def hash_pair(left: bytes, right: bytes) -> bytes:
    """RFC 9162 section 2.1.1."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def split_at(count: int) -> int:
    """The largest power of two smaller than `count`."""
    power = 1
    while power * 2 < count:
        power *= 2
    return power


class Tree:
    """What the bundle tells of the tree: some nodes, and the hashes of a range of leaves."""

    def __init__(self, nodes: dict[tuple[int, int], bytes], first: int, leaves: bytes) -> None:
        self.nodes = nodes
        self.first = first
        self.count = len(leaves) // HASH
        self.rows = [leaves]
        self.starts = [first]
        while len(self.rows[-1]) >= 2 * HASH:
            row, start = self.rows[-1], self.starts[-1]
            skip = start & 1
            above = [
                hashlib.sha256(b"\x01" + row[at : at + 64]).digest()
                for at in range(skip * HASH, len(row) - 2 * HASH + 1, 2 * HASH)
            ]
            self.rows.append(b"".join(above))
            self.starts.append((start + skip) >> 1)

    def leaf(self, index: int) -> bytes | None:
        """The hash of a leaf in the range, else `None`."""
        at = index - self.first
        return self.rows[0][at * HASH : (at + 1) * HASH] if 0 <= at < self.count else None

    def root(self, low: int, high: int) -> bytes:
        """The root over the leaves [low, high): MTH of RFC 9162 section 2.1.1."""
        count = high - low
        if count & (count - 1) == 0 and low % count == 0:
            level, index = count.bit_length() - 1, low // count
            # Above a listed leaf no node is believed: the leaves would go unchecked, and the list prove nothing.
            beside = high <= self.first or low >= self.first + self.count
            known = self.nodes.get((level, index)) if beside else self._from_leaves(level, index)
            if known is not None:
                return known
            if beside or count == 1:
                raise NotProven("the bundle lacks a hash that the proof needs")
        middle = low + split_at(count)
        return hash_pair(self.root(low, middle), self.root(middle, high))

    def _from_leaves(self, level: int, index: int) -> bytes | None:
        if level >= len(self.rows):
            return None
        at = (index - self.starts[level]) * HASH
        return self.rows[level][at : at + HASH] if 0 <= at < len(self.rows[level]) else None

    def path(self, index: int, size: int) -> list[bytes]:
        """The inclusion proof of a leaf: RFC 9162 section 2.1.3.1."""
        found = []
        low, high = 0, size
        while high - low > 1:
            middle = low + split_at(high - low)
            if index < middle:
                found.append(self.root(middle, high))
                high = middle
            else:
                found.append(self.root(low, middle))
                low = middle
        return found[::-1]

    def path_between(self, old: int, new: int) -> list[bytes]:
        """The consistency proof between two sizes: RFC 9162 section 2.1.4.1."""
        found = []
        low, high, whole = 0, new, True
        while high != old:
            middle = low + split_at(high - low)
            if old <= middle:
                found.append(self.root(middle, high))
                high = middle
            else:
                found.append(self.root(low, middle))
                low, whole = middle, False
        if not whole:
            found.append(self.root(low, high))
        return found[::-1]


def check_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> bool:
    """RFC 9162 section 2.1.3.2."""
    if not 0 <= index < size:
        return False
    fn, sn, r = index, size - 1, leaf
    for p in path:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            r = hash_pair(p, r)
            while fn and not fn & 1:
                fn >>= 1
                sn >>= 1
        else:
            r = hash_pair(r, p)
        fn >>= 1
        sn >>= 1
    return sn == 0 and r == root


def check_consistency(old: int, new: int, path: Sequence[bytes], old_root: bytes, new_root: bytes) -> bool:
    """RFC 9162 section 2.1.4.2."""
    if old == new:
        return not path and old_root == new_root
    if old == 0:
        return not path and old_root == hashlib.sha256(b"").digest()
    if not 0 < old < new or not path:
        return False
    steps = list(path)
    if old & (old - 1) == 0:
        steps.insert(0, old_root)
    fn, sn = old - 1, new - 1
    while fn & 1:
        fn >>= 1
        sn >>= 1
    fr = sr = steps[0]
    for c in steps[1:]:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            fr, sr = hash_pair(c, fr), hash_pair(c, sr)
            while fn and not fn & 1:
                fn >>= 1
                sn >>= 1
        else:
            sr = hash_pair(sr, c)
        fn >>= 1
        sn >>= 1
    return sn == 0 and fr == old_root and sr == new_root


# --- records ---------------------------------------------------------------------------------------------------------


def whole_number(value: Any, what: str) -> int:
    """A 64-bit integer, which JSON holds as a text so that no reader rounds it."""
    if not isinstance(value, str) or len(value) > 20:
        raise BundleError(f"{what} is no 64-bit integer in a text")
    try:
        number = int(value)
    except ValueError:
        number = 1 << 63
    if not -(1 << 63) <= number < 1 << 63 or str(number) != value:
        raise BundleError(f"{what} is no 64-bit integer in a text")
    return number


def decimal(value: Any, what: str) -> float:
    """A double: a number, or one of the texts NaN, Infinity, -Infinity."""
    if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BundleError(f"{what} is no number")
    return float(value)


def envelope_of(record: dict[str, Any]) -> bytes:
    """The envelope's binary form, version 1."""
    fields = record["envelope"]
    if not isinstance(fields, dict) or set(fields) - set(FIELDS):
        raise BundleError("a record has a field that no envelope of version 1 has")
    presence = 1 if record.get("has_content") is True else 0
    for place, name in enumerate(FIELDS):
        if name in fields:
            presence |= 1 << (31 - place)
    texts = []
    for name in TEXTS:
        text = fields.get(name, "")
        if not isinstance(text, str):
            raise BundleError(f"the field {name} of a record is no text")
        try:
            texts.append(text.encode("utf-8"))
        except UnicodeEncodeError:
            raise BundleError(f"the field {name} of a record is no text") from None
    return b"".join(
        [
            struct.pack(">BI", 1, presence),
            *(struct.pack(">q", whole_number(fields.get(name, "0"), name)) for name in INTEGERS),
            *(struct.pack(">d", decimal(fields.get(name, 0), name)) for name in DECIMALS),
            *(struct.pack(">I", len(text)) for text in texts),
            decode64(record["commitment"], "a commitment", HASH),
            *texts,
        ]
    )


def leaf_of(record: dict[str, Any], digest: bytes) -> bytes:
    """The hash of the record's leaf."""
    kind = record.get("leaf_type", 1)
    if kind not in (1, 2):
        raise BundleError("a leaf is of type 1 or 2")
    return hash_leaf(
        struct.pack(">BBq", 1, kind, whole_number(record["received_at"], "received_at"))
        + event_bytes(record["event_id"])
        + digest
    )


def event_bytes(text: Any) -> bytes:
    """An event's id, 16 bytes."""
    digits = text.replace("-", "") if isinstance(text, str) else ""
    if len(digits) != 32 or not set(digits) <= set("0123456789abcdefABCDEF"):
        raise BundleError("an event id is no UUID")
    return bytes.fromhex(digits)


def is_index(value: Any) -> bool:
    """Whether it can be the index of a leaf, or a count."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_SIZE


def is_text(value: Any) -> bool:
    """Whether it is a text that has UTF-8."""
    return isinstance(value, str) and not any("\ud800" <= char <= "\udfff" for char in value)


def conditions_of(question: dict[str, Any]) -> list[dict[str, Any]]:
    """The conditions of the question; checked, since they come from the bundle."""
    conditions = question.get("conditions")
    if not isinstance(conditions, list):
        raise BundleError("the question has no conditions")
    for one in conditions:
        if not isinstance(one, dict) or one.get("field") not in FIELDS or not isinstance(one.get("in", []), list):
            raise BundleError("the question has a condition that is none")
        if "in" not in one and (one["field"] not in INTEGERS or not {"at_least", "below"} & set(one)):
            raise BundleError("the question has a condition that is none")
    return conditions


def answers(record: dict[str, Any], conditions: Sequence[dict[str, Any]]) -> bool:
    """Whether a record meets every condition of the question."""
    for condition in conditions:
        value = record["envelope"].get(condition["field"])
        if "in" in condition:
            if value not in condition["in"]:
                return False
        else:
            if value is None:
                return False
            number = whole_number(value, condition["field"])
            if "at_least" in condition and number < whole_number(condition["at_least"], "a condition"):
                return False
            if "below" in condition and number >= whole_number(condition["below"], "a condition"):
                return False
    return True


def draw(seed: str, size: int, events: Sequence[str]) -> list[str]:
    """The sample: the `size` events with the lowest SHA-256(seed || 0x00 || event id)."""
    prefix = seed.encode("utf-8") + b"\x00"
    return sorted(events, key=lambda event: hashlib.sha256(prefix + event_bytes(event)).digest())[:size]


# --- the bundle ------------------------------------------------------------------------------------------------------


class Bundle:
    """The files of a bundle; hostile until proven otherwise."""

    def __init__(self, path: str) -> None:
        try:
            self.zip = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile) as error:
            raise BundleError(f"{path} is no whole zip file ({error})") from None
        names = self.zip.namelist()
        if len(names) > MAX_FILES or len(names) != len(set(names)):
            raise BundleError("the zip file has too many files, or one twice")
        self.names = set(names)
        manifest = self.json("evidence.json")
        if not isinstance(manifest, dict) or manifest.get("format") != "tracehold-evidence":
            raise BundleError("this is no evidence bundle: evidence.json does not say so")
        if manifest.get("version") != VERSION:
            raise BundleError(f"the bundle is of version {manifest.get('version')!r}; this reads version {VERSION}")
        self.manifest: dict[str, Any] = manifest

    def read(self, name: str, limit: int = MAX_SMALL_BYTES) -> bytes:
        """A whole file, up to `limit` bytes."""
        if name not in self.names:
            raise BundleError(f"the bundle has no {name}")
        try:
            with self.zip.open(name) as file:
                data = file.read(limit + 1)
        except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError, EOFError, ValueError) as error:
            raise BundleError(f"{name} cannot be read from the zip file: {type(error).__name__}") from None
        except Exception as error:  # zlib.error has no common base  # noqa: BLE001
            raise BundleError(f"{name} cannot be read from the zip file: {type(error).__name__}") from None
        if len(data) > limit:
            raise BundleError(f"{name} is larger than {limit} bytes")
        return data

    def json(self, name: str) -> Any:
        """A JSON file."""
        return parse_json(self.read(name), name)

    def lines(self, name: str) -> Iterator[dict[str, Any]]:
        """The objects of a JSON lines file."""
        if name not in self.names:
            raise BundleError(f"the bundle has no {name}")
        try:
            with self.zip.open(name) as file:
                while True:
                    line = file.readline(MAX_LINE_BYTES)
                    if not line:
                        return
                    item = parse_json(line, name)
                    if not isinstance(item, dict):
                        raise BundleError(f"{name} has a line that is no object")
                    yield item
        except (BundleError, NotProven, GeneratorExit):
            raise
        except Exception as error:  # noqa: BLE001 - whatever zipfile and zlib raise on damage
            raise BundleError(f"{name} cannot be read from the zip file: {type(error).__name__}") from None

    def nodes(self) -> dict[tuple[int, int], bytes]:
        """The nodes of the tree, by level and index."""
        found = {}
        for line in self.read("nodes.txt", MAX_LINE_BYTES).decode("ascii", "replace").splitlines():
            words = line.split(" ")
            if len(words) != 3 or not (words[0] + words[1]).isdigit() or len(words[0]) > 2 or len(words[1]) > 19:
                raise BundleError("nodes.txt has a line that is no node")
            found[(int(words[0]), int(words[1]))] = decode64(words[2], "a node", HASH)
        return found


def parse_json(data: bytes, name: str) -> Any:
    """JSON, with our own error."""
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        raise BundleError(f"{name} is no JSON") from None


def moment(seconds: int | None) -> str:
    """A time as people read it."""
    if seconds is None:
        return "at no signed time"
    try:
        return (datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=seconds)).strftime(
            "%Y-%m-%d %H:%M:%S UTC"
        )
    except OverflowError:
        return f"{seconds} s after 1970"


class Verification:
    """One check of one bundle.

    Args:
        bundle: what to check.
        keys: the verifier keys that the reader believes; none: those in the bundle, which prove nothing by themselves.
        brought: tree heads from elsewhere, as (name, bytes).
        proofs: consistency proofs from elsewhere, as the server gives them.
    """

    def __init__(
        self,
        bundle: Bundle,
        keys: Sequence[Key],
        brought: Sequence[tuple[str, bytes]] = (),
        proofs: Sequence[dict[str, Any]] = (),
    ) -> None:
        self.bundle = bundle
        self.manifest = bundle.manifest
        self.own_keys = not keys
        self.keys = list(keys) or [parse_key(str(key)) for key in self._list("verifier_keys")]
        self.brought = brought
        self.consistency = [*self._list("consistency"), *proofs]
        self.origin = str(self._section("log").get("origin"))
        self.good: list[str] = []
        self.bad: list[str] = []
        self.notes: list[str] = []
        self.findings: list[Finding] = []
        self.heads: list[Head] = []
        self.head = _NO_HEAD
        self.tree = Tree({}, 0, b"")
        self.whole_leaves = False
        self.counted = 0

    def run(self) -> None:
        """Check everything."""
        if not self._heads():
            return
        self._tree()
        self._consistency()
        self._stamps()
        events = self._records()
        self._population(events)
        self._contents(events)
        self._others()

    def _list(self, name: str) -> list[Any]:
        found = self.manifest.get(name) or []
        if not isinstance(found, list) or len(found) > MAX_FILES:
            raise BundleError(f"evidence.json has no list {name}")
        return found

    def _section(self, name: str) -> dict[str, Any]:
        found = self.manifest.get(name)
        if not isinstance(found, dict):
            raise BundleError(f"evidence.json has no {name}")
        return found

    def _heads(self) -> bool:
        for name in self._list("heads"):
            try:
                head = open_head(self.bundle.read(str(name), MAX_NOTE_BYTES), self.keys)
                if head.origin != self.origin:
                    raise NotProven(f"the tree head {name} is of another log, {head.origin}")
            except UnknownSigner as error:
                # After a rotation of the log's key, heads from before are signed by the key from before.
                self.notes.append(f"{error}: it is left aside")
                continue
            except NotProven as error:
                self.bad.append(str(error))
                continue
            self.heads.append(head)
        if not self.heads:
            self.bad.append("no tree head in the bundle is signed by a key you gave: nothing in it is proven")
            return False
        self.head = max(self.heads, key=lambda head: head.size)
        self.good.append(
            f"{len(self.heads)} tree head(s) signed by {self.head.key.name}; the newest has {self.head.size:,} leaves, "
            f"signed {moment(self.head.signed_at)}"
        )
        return True

    def _tree(self) -> None:
        listed = self.manifest.get("leaves")
        first, leaves = 0, b""
        if isinstance(listed, dict):
            first = listed.get("first", 0)
            leaves = self.bundle.read("leaves.bin", MAX_LINE_BYTES)
            if not is_index(first) or len(leaves) % HASH:
                raise BundleError("leaves.bin is no list of leaves")
        self.tree = Tree(self.bundle.nodes(), first, leaves)
        if not leaves:
            return
        try:
            if first + self.tree.count > self.head.size or self.tree.root(0, self.head.size) != self.head.root:
                raise NotProven("leaves.bin and nodes.txt do not lead to the root")
        except NotProven as error:
            self.bad.append(f"the list of leaves is damaged or made up: {error}")
            return
        self.whole_leaves = True
        self.good.append(
            f"leaves {first:,} to {first + self.tree.count - 1:,} are listed without a gap, and lead to the signed root"
        )

    def _consistency(self) -> None:
        for head in self.heads:
            if head is not self.head:
                self._grew("in the bundle", head, self.head)
        for name, data in self.brought:
            try:
                head = open_head(data, self.keys)
                if head.origin != self.head.origin:
                    raise NotProven(f"it is of another log, {head.origin}")
            except (NotProven, BundleError) as error:
                self.bad.append(f"the tree head you brought ({name}) is not believed: {error}")
                continue
            old, new = sorted((head, self.head), key=lambda one: one.size)
            self._grew(f"you brought ({name})", old, new)

    def _grew(self, which: str, old: Head, new: Head) -> None:
        what = f"the tree head {which} with {min(old.size, new.size):,} leaves, signed {moment(old.signed_at)}"
        if old.size == new.size and old.root != new.root:
            self.bad.append(f"two roots for one size: {what} shows another log than the bundle. One of them is forged")
            return
        for proof in self.consistency:
            if not isinstance(proof, dict) or (proof.get("old"), proof.get("new")) != (old.size, new.size):
                continue
            steps = proof.get("proof")
            path = [decode64(step, "a proof", HASH) for step in steps] if isinstance(steps, list) else []
            if check_consistency(old.size, new.size, path, old.root, new.root):
                self.good.append(f"the log only grew since {what}")
            else:
                self.bad.append(f"the log was rewritten since {what}: the later tree does not begin with it")
            return
        if old.size in (0, new.size):
            self.good.append(f"{what} is the same tree, or the empty one")
            return
        try:
            # As a proof, and not as two roots: made-up nodes could give each root without belonging to one tree.
            path = self.tree.path_between(old.size, new.size)
        except NotProven:
            self.bad.append(
                f"the bundle does not prove that the log only grew since {what}: export it again with this tree head "
                f"(--tree-head), or give the proof with --consistency (ask the server for /consistency?from={old.size}"
                f"&to={new.size})"
            )
            return
        same = check_consistency(old.size, new.size, path, old.root, new.root)
        (self.good if same else self.bad).append(f"the log {'only grew' if same else 'was rewritten'} since {what}")

    def _stamps(self) -> None:
        """Time stamps (RFC 3161) are for OpenSSL to check: whose certificate to believe is for the reader to say."""
        for stamp in self._list("time_stamps"):
            if isinstance(stamp, dict):
                head = stamp.get("head")
                self.notes.append(
                    f"{stamp.get('authority')} is said to have stamped {head} at {stamp.get('stamped_at')}: "
                    f"openssl ts -verify -data {head} -in {stamp.get('stamp')} -CAfile AUTHORITY.pem"
                )

    def _records(self) -> dict[str, dict[str, Any]]:
        conditions = conditions_of(self._section("question"))
        events: dict[str, dict[str, Any]] = {}
        for record in self.bundle.lines("records.jsonl"):
            event = str(uuid.UUID(bytes=event_bytes(record.get("event_id"))))
            if event in events:
                self._found("altered", record, event, "it stands in the bundle twice")
                continue
            events[event] = {"leaf_index": record.get("leaf_index"), "state": "altered"}
            try:
                state, why = self._record(record)
                if state == "verified" and not answers(record, conditions):
                    state, why = "altered", "it is true, but does not answer the question"
            except KeyError as error:
                state, why = "altered", f"it lacks {error}"
            except BundleError as error:
                state, why = "altered", str(error)
            events[event].update(
                state=state, commitment=record.get("commitment"), has_content=record.get("has_content") is True
            )
            self._found(state, record, event, why)
        self._erased(events)
        return events

    def _record(self, record: dict[str, Any]) -> tuple[str, str]:
        if record.get("leaf_index") is None:
            return "unproven", "it was stored before the log began"
        leaf = leaf_of(record, hashlib.sha256(envelope_of(record)).digest())
        return self._leaf(record.get("leaf_index"), leaf)

    def _leaf(self, index: Any, leaf: bytes) -> tuple[str, str]:
        """Whether a leaf stands in the tree where it is said to."""
        if not is_index(index) or index >= self.head.size:
            return "altered", "its place is not in the signed tree"
        listed = self.tree.leaf(index) if self.whole_leaves else None
        if listed is not None:
            # The list as a whole led to the signed root, so a leaf in it needs no proof of its own.
            return ("verified", "") if listed == leaf else ("altered", "it is not what the log recorded at its place")
        try:
            path = self.tree.path(index, self.head.size)
        except NotProven as error:
            return "unproven", str(error)
        if check_inclusion(leaf, index, self.head.size, path, self.head.root):
            return "verified", ""
        if self.tree.count and not self.whole_leaves:
            return "unproven", "the list of leaves is damaged"
        return "altered", "it, or its proof, is not what the log recorded"

    def _found(self, state: str, record: dict[str, Any], event: str, why: str) -> None:
        index = record.get("leaf_index")
        self.findings.append(Finding(state, index if is_index(index) else None, event, why))

    def _erased(self, events: dict[str, dict[str, Any]]) -> None:
        if "erased.jsonl" not in self.bundle.names:
            return
        for line in self.bundle.lines("erased.jsonl"):
            event = str(line.get("event_id"))
            index = line.get("leaf_index")
            if event in events:
                self._found("altered", line, event, "it is said to be erased, and yet it is here")
                continue
            there = self.whole_leaves and isinstance(index, int) and self.tree.leaf(index) is not None
            why = f"erased under {line.get('erasure_id')}; its leaf stays in the log"
            self._found("erased", line, event, why if there else why + ", which this bundle does not show")

    def _population(self, events: dict[str, dict[str, Any]]) -> None:
        population = self._section("population")
        sample = self.manifest.get("sample")
        members = list(events)
        if isinstance(sample, dict):
            members = self._members()
            seed, size = sample.get("seed"), sample.get("size")
            known = sample.get("algorithm") == "sha256-lowest/1" and is_text(seed) and is_index(size)
            if known and isinstance(seed, str) and isinstance(size, int):
                self._sample(draw(seed, size, members), events, seed)
            else:
                self.bad.append("the sample was drawn in a way that this verifier does not know")
        self.counted = len(members)
        if population.get("count") == len(members):
            self.good.append(f"the population is {len(members):,}, as the bundle says")
        else:
            self.bad.append(f"the bundle says the population is {population.get('count')}, but it has {len(members):,}")

    def _members(self) -> list[str]:
        """The events of the population, each of which must be a leaf of the log."""
        members = []
        wrong = 0
        for line in self.bundle.lines("population.jsonl"):
            try:
                event = str(uuid.UUID(bytes=event_bytes(line.get("event_id"))))
                state, _ = self._leaf(line.get("leaf_index"), leaf_of(line, decode64(line["digest"], "a digest", HASH)))
            except (BundleError, KeyError):
                state, event = "altered", ""
            wrong += state != "verified"
            members.append(event)
        if wrong:
            self.bad.append(f"{wrong:,} of the population are no leaves of the log")
        if len(set(members)) != len(members):
            self.bad.append("the population has an event twice")
        return members

    def _sample(self, drawn: Sequence[str], events: dict[str, dict[str, Any]], seed: str) -> None:
        missing = [event for event in drawn if event not in events]
        for event in missing:
            self.findings.append(Finding("missing", None, event, "the seed draws it, and it is not here"))
        extra = set(events) - set(drawn)
        if missing or extra:
            self.bad.append(
                f"the sample is not the one that the seed {seed!r} draws: {len(missing)} missing, {len(extra)} others"
            )
        else:
            self.good.append(f"the sample of {len(drawn):,} is the one that the seed {seed!r} draws")

    def _contents(self, events: dict[str, dict[str, Any]]) -> None:
        """What was said: SHA-256(salt || content) is the commitment in the record."""
        if not self.manifest.get("content"):
            return
        told = same = erased = 0
        for line in self.bundle.lines("content.jsonl"):
            event = str(line.get("event_id"))
            record = events.pop(event, None)
            if record is None or not record.get("has_content"):
                self.bad.append(f"content of {event[:36]} belongs to no record here, or stands here twice")
                continue
            if line.get("state") == "erased":
                erased += 1
                continue
            if line.get("state") != "told":
                why = "what was said cannot be read, and no erasure accounts for it"
                self.findings.append(Finding("missing", record["leaf_index"], event, why))
                continue
            told += 1
            if record["state"] != "verified":
                continue  # nothing is known that its content could be held against
            if self._as_recorded(line, record):
                same += 1
                continue
            why = "what was said is not what the log recorded"
            self.findings.append(Finding("altered", record["leaf_index"], event, why))
        lacking = sum(1 for record in events.values() if record.get("has_content"))
        if lacking:
            self.bad.append(f"what {lacking:,} records said is missing from the bundle")
        self.good.append(f"what was said: {same:,} of {told:,} as recorded, {erased:,} erased")

    def _as_recorded(self, line: dict[str, Any], record: dict[str, Any]) -> bool:
        content = line.get("content")
        try:
            salt = decode64(line.get("salt"), "a salt", HASH)
            commitment = decode64(record["commitment"], "a commitment", HASH)
            return isinstance(content, str) and hashlib.sha256(salt + content.encode("utf-8")).digest() == commitment
        except (BundleError, UnicodeEncodeError):
            return False

    def _others(self) -> None:
        """Every other leaf of the range, so that nothing that answers the question can have been left out."""
        if "others.jsonl" not in self.bundle.names:
            return
        conditions = conditions_of(self._section("question"))
        seen = {finding.leaf_index for finding in self.findings if finding.state in ("verified", "erased")}
        if isinstance(self.manifest.get("sample"), dict):
            indexes = (line.get("leaf_index") for line in self.bundle.lines("population.jsonl"))
            seen.update(index for index in indexes if is_index(index))
        for record in self.bundle.lines("others.jsonl"):
            try:
                if record.get("leaf_type", 1) == 1:
                    state, why = self._record(record)
                    if state == "verified" and answers(record, conditions):
                        state, why = "missing", "it answers the question, and the answer leaves it out"
                else:
                    leaf = leaf_of(record, decode64(record.get("digest"), "a digest", HASH))
                    state, why = self._leaf(record.get("leaf_index"), leaf)
            except (BundleError, KeyError) as error:
                state, why = "altered", str(error)
            if state == "verified":
                seen.add(record.get("leaf_index"))
            else:
                self._found(state, record, str(record.get("event_id")), why)
        unseen = [index for index in range(self.tree.first, self.tree.first + self.tree.count) if index not in seen]
        if unseen or not self.whole_leaves:
            self.bad.append(f"{len(unseen):,} leaves of the range are not accounted for, the first is {unseen[:1]}")
        else:
            self.good.append("every leaf of the range is accounted for: nothing that answers the question is left out")

    def counts(self) -> dict[str, int]:
        """How many records were found in which state."""
        found = dict.fromkeys(("verified", "erased", "altered", "missing", "unproven"), 0)
        for finding in self.findings:
            found[finding.state] += 1
        return found

    def verdict(self) -> int:
        """The exit code."""
        counts = self.counts()
        if self.bad or counts["altered"] or counts["missing"] or counts["unproven"]:
            return 1
        return 3 if self.own_keys else 0


def report(check: Verification, only_bad: bool) -> None:
    """Tell it to people."""
    question = check.manifest.get("question")
    if isinstance(question, dict):
        print(f"Question    {question.get('text')}")
    print(f"Log         {check.origin}\n")
    for finding in check.findings:
        if only_bad and finding.state in ("verified", "erased"):
            continue
        place = "no leaf" if finding.leaf_index is None else f"leaf {finding.leaf_index}"
        print(f"{finding.state:<9} {place:<14} {finding.event_id[:36]}  {finding.why}".rstrip())
    print()
    for line in check.good:
        print(f"  ok    {line}")
    for line in check.bad:
        print(f"  FAIL  {line}")
    for line in check.notes:
        print(f"  note  {line}")
    counts = check.counts()
    print(
        "\nRecords     "
        + ", ".join(f"{count:,} {state}" for state, count in counts.items() if count or state != "unproven")
    )
    verdict = check.verdict()
    if verdict == 3:
        print(
            "\nEverything holds together, but the keys are the bundle's own: anybody can make such a bundle.\n"
            "Get the log's verifier key from its operator by another way, and run this again with --key."
        )
    print("Verdict     " + {0: "VERIFIED", 1: "NOT VERIFIED", 3: "UNCONFIRMED KEYS"}[verdict])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the check; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage="%(prog)s BUNDLE.zip [options]"
    )
    parser.add_argument("bundle", help="the zip file")
    parser.add_argument("--key", action="append", default=[], help="a verifier key that you believe; again for more")
    parser.add_argument(
        "--tree-head", action="append", default=[], help="a tree head you hold from another day or place"
    )
    parser.add_argument("--consistency", action="append", default=[], help="a consistency proof from the server, JSON")
    parser.add_argument("--only-bad", action="store_true", help="list only records that are not verified or erased")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
    given = parser.parse_args(arguments)
    try:
        keys = [parse_key(key) for key in given.key]
        brought = [(path, read_file(path)) for path in given.tree_head]
        proofs = [parse_json(read_file(path), path) for path in given.consistency]
        check = Verification(Bundle(given.bundle), keys, brought, proofs)
        check.run()
        if given.json:
            outcome = {
                "verdict": {0: "verified", 1: "not verified", 3: "unconfirmed keys"}[check.verdict()],
                "counts": check.counts(),
                "population": check.counted,
                "holds": check.good,
                "fails": check.bad,
                "notes": check.notes,
                "records": [finding._asdict() for finding in check.findings],
            }
            print(json.dumps(outcome))
        else:
            report(check, given.only_bad)
    except BundleError as error:
        print(f"cannot be checked: {error}", file=sys.stderr)
        return 2
    return check.verdict()


def read_file(path: str) -> bytes:
    """A small file of the reader's own."""
    try:
        with open(path, "rb") as file:
            return file.read(MAX_NOTE_BYTES)
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror}") from None


if __name__ == "__main__":
    sys.exit(main())
