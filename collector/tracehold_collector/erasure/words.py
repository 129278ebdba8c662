"""The words of erasures: scopes, modes, grounds, steps. Imports nothing, so that commands start at once."""

from __future__ import annotations

from typing import Final, Literal, get_args

ScopeKind = Literal["event", "run", "session", "subject", "tenant", "age"]
Mode = Literal["scrub", "delete"]
Basis = Literal[
    "gdpr-17-1-a",
    "gdpr-17-1-b",
    "gdpr-17-1-c",
    "gdpr-17-1-d",
    "gdpr-17-1-e",
    "gdpr-17-1-f",
    "contract",
    "operator",
    "retention",
]
"""On what ground: a letter of GDPR Article 17(1), a contract, the operator's own will, or a retention policy."""

Step = Literal[
    "requested",
    "approved",
    "refused",
    "frozen",
    "unreadable",
    "lot",
    "emptied",
    "completed",
    "bytes_gone",
    "scanned",
    "failed",
]
Status = Literal["waiting for approval", "refused", "running", "unreadable", "completed", "bytes gone"]
"""`completed`: nothing of it is in the database's tables any more; `bytes gone`: nor in its file."""

SCOPES: Final[tuple[ScopeKind, ...]] = get_args(ScopeKind)
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
BASES: Final[tuple[Basis, ...]] = get_args(Basis)

BASIS_TEXTS: Final[dict[Basis, str]] = {
    "gdpr-17-1-a": "GDPR Art. 17(1)(a): no longer necessary for its purpose",
    "gdpr-17-1-b": "GDPR Art. 17(1)(b): consent withdrawn",
    "gdpr-17-1-c": "GDPR Art. 17(1)(c): objection",
    "gdpr-17-1-d": "GDPR Art. 17(1)(d): processed unlawfully",
    "gdpr-17-1-e": "GDPR Art. 17(1)(e): legal obligation to erase",
    "gdpr-17-1-f": "GDPR Art. 17(1)(f): collected from a child",
    "contract": "a contract, such as its end",
    "operator": "the operator's own decision",
    "retention": "a retention policy",
}

HOLD_KINDS: Final = ("tenant", "subject", "session", "run")
"""What a legal hold can be on."""
