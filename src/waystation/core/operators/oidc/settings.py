"""The settings of an identity provider."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from waystation.core.errors import InvalidOption, InvalidSetting
from waystation.core.operators.oidc.options import Grant, OidcOptions
from waystation.core.operators.roles import Role
from waystation.core.settings.section import Secret, Section


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
