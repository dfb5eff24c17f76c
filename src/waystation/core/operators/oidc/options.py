"""Options of the identity provider, and the roles of its groups."""

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

import msgspec

from waystation.core.errors import InvalidOption
from waystation.core.http.addresses import is_loopback
from waystation.core.operators.roles import Role

CALLBACK = "/sign-in/callback"
"""Where the provider sends operators back to."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What the people of one group may do."""

    role: Role
    queues: tuple[str, ...] = ()
    """The only rooms; empty for all."""


class OidcOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One provider, as it knows us and as we believe it."""

    issuer: str
    client_id: str
    client_secret: str
    public_url: str
    """The address at which browsers reach this server; the provider must know its callback."""
    grants: Mapping[str, Grant]
    """By what the claim says."""
    claim: str = "groups"
    scopes: tuple[str, ...] = ("openid",)

    def __post_init__(self) -> None:
        for name, url in (("issuer", self.issuer), ("public_url", self.public_url)):
            if not is_safe(url):
                raise InvalidOption(f"{name} must start with https://, got {url!r}")
        if "openid" not in self.scopes:
            raise InvalidOption(f"scopes must have openid among them, got {list(self.scopes)}")
        if not self.grants:
            raise InvalidOption("grants must name a group at least, or nobody could sign in")
        if any(each.role is Role.CONNECTOR for each in self.grants.values()):
            raise InvalidOption("grants are for people, but a connector is a program")

    @property
    def callback(self) -> str:
        """The address that the provider sends operators back to."""
        return self.public_url.rstrip("/") + CALLBACK

    def granted(self, groups: Iterable[str]) -> Grant | None:
        """What somebody in these groups may do: the strongest role, in all rooms that it is for."""
        found = [self.grants[each] for each in groups if each in self.grants]
        if not found:
            return None
        role = max((each.role for each in found), key=lambda role: role.rank)
        rooms = [each.queues for each in found if each.role is role]
        queues = () if () in rooms else tuple(sorted({each for some in rooms for each in some}))
        return Grant(role=role, queues=queues)


def is_safe(url: str) -> bool:
    """Whether nobody in between can read or change what goes there."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        return False
    plain = url.isascii() and url.isprintable() and not {" ", "\\"} & set(url)
    if not plain or not host or "@" in parts.netloc:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))
