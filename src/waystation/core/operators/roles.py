"""The roles of operators; apart from what checks keys, so that options can name them."""

from enum import StrEnum


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
