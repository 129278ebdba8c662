"""One message of a conversation (MSG)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

MessageRole: TypeAlias = Literal["user", "assistant", "system", "tool"]
ROLES: Final = frozenset({"user", "assistant", "system", "tool"})

Content: TypeAlias = str | list[dict[str, Any]]
"""Text, or a list of parts such as `{"type": "text", "text": ...}` and `{"type": "image_url", ...}`."""


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass
class Message:
    """One message: who said what, when (MSG-01).

    Attributes:
        content: text, or a list of parts.
        role: "user", "assistant", "system" or "tool".
        timestamp: default now, in UTC.
        metadata: whatever the application wants to keep beside it; JSON when stored.

    Raises:
        ValueError: another role.
    """

    content: Content
    role: MessageRole
    timestamp: datetime = field(default_factory=_now)
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse an unknown role."""
        if self.role not in ROLES:
            raise ValueError(f"a message's role is one of {', '.join(sorted(ROLES))}, not {self.role!r}")

    def to_dict(self) -> dict[str, Any]:
        """Return role and content only: what a model client takes (MSG-02)."""
        return {"role": self.role, "content": self.content}
