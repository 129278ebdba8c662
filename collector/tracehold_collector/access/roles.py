"""The six roles, and what each may."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, get_args

Role = Literal["ingest", "read", "content", "audit", "erase", "admin"]

ROLES: Final[tuple[Role, ...]] = get_args(Role)

MAY: Final[dict[Role, str]] = {
    "ingest": "send events, spans and log records, over HTTP and gRPC; reads nothing back",
    "read": "ask what happened: named queries, SQL, exports, events, Jaeger's API, each without what was said",
    "content": "together with read: see what was said, such as prompts, replies, arguments and reasons",
    "audit": "read the access log: who asked for what, and what was refused; verify the audit log; evidence; together "
    "with read: review denials under the key's own name",
    "erase": "audit, and erase: previews, requests, approvals, legal holds, retention",
    "admin": "ingest, read, audit and erase, and pricing stored calls anew; what was said only with content as well",
}
"""What a role may, for people. `admin` leaves content out: who runs the store need not read what people said in it."""

_WITH: Final[dict[Role, frozenset[Role]]] = {
    "erase": frozenset({"audit"}),
    "admin": frozenset({"ingest", "read", "audit", "erase"}),
}


def effective(roles: Iterable[Role]) -> frozenset[Role]:
    """Return the roles that `roles` come to."""
    given = frozenset(roles)
    return given.union(*(_WITH.get(role, frozenset()) for role in given))
