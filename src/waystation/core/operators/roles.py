"""The roles of operators; apart from what checks keys, so that options can name them."""

from enum import StrEnum

import msgspec


class Role(StrEnum):
    """What a key is for; each may do what those before it may, but connectors only connect."""

    CONNECTOR = "connector"
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        """How much it allows, compared with the others."""
        return list(Role).index(self)


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A role, and where it holds: what the people of one group may do."""

    role: Role
    queues: tuple[str, ...] = ()
    """The only rooms; empty for all."""

    def allows(self, scope: str, queue: str | None) -> bool:
        """Whether something of this scope may be done to this room."""
        if self.queues and queue not in self.queues:
            return False
        if scope == Role.CONNECTOR or self.role is Role.CONNECTOR:
            return scope == self.role or self.role is Role.ADMIN
        return self.role.rank >= Role(scope).rank
