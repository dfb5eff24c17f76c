"""Options of the identity provider, and the roles of its groups."""

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

import msgspec

from waystation.core.errors import InvalidOption
from waystation.core.http.addresses import is_loopback
from waystation.core.operators.roles import Grant, Role

CALLBACK = "/sign-in/callback"
"""Where the provider sends operators back to."""


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

    def granted(self, groups: Iterable[str]) -> list[Grant]:
        """What somebody in these groups may do, the strongest first: all that any of them may."""
        rooms: dict[Role, list[tuple[str, ...]]] = {}
        for grant in (self.grants[each] for each in groups if each in self.grants):
            rooms.setdefault(grant.role, []).append(grant.queues)
        united = [
            Grant(role=role, queues=() if () in some else tuple(sorted({*sum(some, ())})))
            for role, some in rooms.items()
        ]
        return sorted(united, key=lambda grant: grant.role.rank, reverse=True)


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
