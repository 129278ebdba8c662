"""How long what is kept: retention policies, as somebody writes them down in a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from tracehold.core.errors import ConfigurationError
from tracehold.observability.event_types import Kind

from tracehold_collector.core.toml_files import read_toml
from tracehold_collector.erasure.words import Mode

Keep = Literal["content", "all"]
"""What a policy limits: `content` is what was said, `all` is that it was, too."""

MODE_OF: Final[dict[Keep, Mode]] = {"content": "scrub", "all": "delete"}


class Policy(BaseModel):
    """One policy.

    Attributes:
        name: what it is called, in the register and in reports.
        tenant: whose runs; `None` is every tenant that has no policy of its own for the same `what` and `agent`.
        agent: only runs of this agent (the first one of a run); `None` is every agent that has no policy of its own.
        what: "content" empties what was said and keeps the envelopes; "all" takes both away.
        kinds: with "content", only what events of these kinds said, such as "llm"; empty is every kind.
        days: how long after a run, and all of its session, had its last event. A run goes whole, or not at all.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=128, pattern=r"^[\w .:/-]+$")
    tenant: str | None = Field(None, min_length=1, max_length=128)
    agent: str | None = Field(None, min_length=1, max_length=128)
    what: Keep = "content"
    kinds: tuple[Kind, ...] = ()
    days: int = Field(ge=1, le=36_500)

    @model_validator(mode="after")
    def _whole_runs(self) -> Self:
        if self.kinds and self.what == "all":
            raise ValueError("'kinds' goes with what = \"content\": events are never taken away by halves of a run")
        return self


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    policy: list[Policy] = Field(max_length=1000)

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        names = [policy.name for policy in self.policy]
        whose = [(policy.tenant, policy.agent, policy.what, frozenset(policy.kinds)) for policy in self.policy]
        if len(set(names)) < len(names):
            raise ValueError("two policies have the same name")
        if len(set(whose)) < len(whose):
            raise ValueError("two policies are about the same tenant, agent, 'what' and kinds: one has to go")
        return self


def load_policies(path: Path, min_days: int) -> list[Policy]:
    """Read a file of retention policies (TOML): tables `[[policy]]`.

    Args:
        path: the file.
        min_days: the floor, below which no policy may go.

    Raises:
        ConfigurationError: it cannot be read, or goes below the floor; says which entry and what is wrong with it.
    """
    policies = read_toml(path, _File, "the file of policies").policy
    if short := [policy.name for policy in policies if policy.days < min_days]:
        raise ConfigurationError(
            f"the file of policies {path} cannot be used: {short[0]!r} keeps less than {min_days} days. Regulation "
            "(EU) 2024/1689, Art. 19(1) and 26(6), asks for six months at least; who is not bound by it sets "
            "min_retention_days"
        )
    return policies


def policies_of(policies: Sequence[Policy], tenant: str) -> list[Policy]:
    """Return the policies that bind a tenant: its own, and of those for all the ones it has none of its own for."""
    own = {(policy.agent, policy.what) for policy in policies if policy.tenant == tenant}
    return [
        policy
        for policy in policies
        if policy.tenant == tenant or (policy.tenant is None and (policy.agent, policy.what) not in own)
    ]
