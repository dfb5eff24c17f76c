"""Settings of the identity provider that operators sign in with, and the roles of its groups."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from waystation.core.errors import InvalidOption, InvalidSetting
from waystation.core.http.addresses import is_loopback
from waystation.core.operators.roles import Grant, Role
from waystation.core.settings.section import Secret, Section

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


class GrantSettings(Section, frozen=True, kw_only=True):
    """What the members of one group may do."""

    role: Literal["viewer", "operator", "admin"]
    rooms: tuple[str, ...] = ()
    """The rooms that the role is limited to; default: all."""


class OidcSettings(Section, frozen=True, kw_only=True):
    """The identity provider that operators may sign in with; off while nothing is set."""

    issuer: str = ""
    """The provider's address, as it calls itself."""
    client_id: str = ""
    """The id under which the provider knows this server."""
    client_secret: Secret | None = None
    """The secret that belongs to it; best from the environment."""
    client_secret_file: Path | None = None
    """A file with the secret in it, instead."""
    public_url: str = ""
    """Where browsers reach this server; the provider redirects to /sign-in/callback there."""
    scopes: tuple[str, ...] = ("openid",)
    """The scopes to request; some providers need one for groups."""
    claim: str = "groups"
    """The claim that holds somebody's groups."""
    grants: Mapping[str, GrantSettings] = msgspec.field(default_factory=dict[str, GrantSettings])
    """What each group may do: its role, and its rooms if they are not all."""

    def __post_init__(self) -> None:
        if not self.is_set:
            return
        needed = ("issuer", "client_id", "public_url", "grants")
        if missing := [name for name in needed if not getattr(self, name)]:
            raise InvalidOption(f"an identity provider needs {', '.join(missing)} as well")
        # That one of them is there is asked for where somebody signs in: not every command has it.
        if self.client_secret is not None and self.client_secret_file is not None:
            raise InvalidOption(
                "an identity provider needs either client_secret or client_secret_file, got both"
            )

    @property
    def is_set(self) -> bool:
        """Whether anything of a provider is set."""
        given = (self.issuer, self.client_id, self.public_url, self.grants)
        return any(given) or not (self.client_secret is None and self.client_secret_file is None)


def oidc_options(settings: OidcSettings, section: str) -> OidcOptions | None:
    """The identity provider that operators may sign in with, if one is set up."""
    if not settings.is_set:
        return None
    try:
        return OidcOptions(
            issuer=settings.issuer,
            client_id=settings.client_id,
            client_secret=_client_secret(settings, section),
            public_url=settings.public_url,
            scopes=settings.scopes,
            claim=settings.claim,
            grants={
                group: Grant(role=Role(each.role), queues=each.rooms)
                for group, each in settings.grants.items()
            },
        )
    except InvalidOption as error:
        raise InvalidSetting(f"{section}: {error}") from error


def _client_secret(settings: OidcSettings, section: str) -> str:
    file, given = settings.client_secret_file, settings.client_secret
    try:
        secret = file.read_text().strip() if file else ""
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSetting(
            f"{section}.client_secret_file wants a file that can be read, got {file} ({error})"
        ) from error
    secret = secret or (given or "")
    if not secret:
        raise InvalidSetting(f"{section} wants a secret, got an empty one")
    return secret
