"""Who is asking: what the key they showed stands for."""

from __future__ import annotations

from dataclasses import dataclass

from tracehold_collector.access.limits import NO_LIMIT, Limit
from tracehold_collector.access.roles import ROLES, Role
from tracehold_collector.core.tenants import Tenants, Writes


@dataclass(frozen=True, slots=True)
class Principal:
    """A sender or reader that was let in.

    Attributes:
        key_id: the public part of the key; `None` for the one key of the settings, and for nobody on loopback.
        name: the key's name, or what stands for it.
        roles: what it may, `admin` spelled out.
        tenants: whose data it may write and see; `None` is everybody's.
        first: whose data it brings when it claims nothing.
        limit: what it may use up.
        owner: whether it is the one user of a collector without keys of its own, who sees all of its own machine.
    """

    key_id: str | None
    name: str
    roles: frozenset[Role]
    tenants: Tenants
    first: str
    limit: Limit = NO_LIMIT
    owner: bool = False

    def may(self, role: Role) -> bool:
        """Whether it has this role."""
        return role in self.roles

    @property
    def oversees(self) -> bool:
        """Whether nothing of this collector is another tenant's to it."""
        return self.owner or self.tenants is None

    def writes(self, claim: str | None) -> Writes:
        """Return what a request of its may write.

        Args:
            claim: the request's header `X-Tracehold-Tenant`, if any.
        """
        return Writes(self.first, self.tenants, claim)


def owner(name: str, tenant: str) -> Principal:
    """Return the one user of a collector without keys of its own: every role, one tenant."""
    return Principal(None, name, frozenset(ROLES), (tenant,), tenant, owner=True)
