"""The settings of the waiting room's doors."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from waystation.core.errors import InvalidOption
from waystation.core.settings.section import Duration, Section, wanted


class GrantSettings(Section):
    """What the people of one group may do."""

    role: Literal["viewer", "operator", "admin"]
    rooms: tuple[str, ...] = ()
    """The only rooms; all if none is named."""


class OidcSettings(Section):
    """The identity provider that operators may sign in with; none unless all of it is said."""

    issuer: str = ""
    """The provider's address, as it calls itself."""
    client_id: str = ""
    """What the provider knows these doors by."""
    client_secret: SecretStr | None = None
    """What it knows them by, too; best from the environment."""
    client_secret_file: Path | None = None
    """A file with the secret in it, instead."""
    public_url: str = ""
    """Where browsers reach these doors; the provider sends them back to /sign-in/callback there."""
    scopes: tuple[str, ...] = ("openid",)
    """What the provider is asked for; some want to be asked for groups."""
    claim: str = "groups"
    """What the provider says that decides what somebody may do."""
    grants: dict[str, GrantSettings] = Field(default={})
    """What each group may do: its role, and its rooms if they are not all."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        needed = ("issuer", "client_id", "public_url", "grants")
        missing = [name for name in needed if not getattr(self, name)]
        secrets = [self.client_secret, self.client_secret_file]
        if self.is_set and missing:
            raise ValueError(f"an identity provider needs {', '.join(missing)} as well")
        if self.is_set and secrets.count(None) != 1:
            raise ValueError(
                "an identity provider needs either client_secret or client_secret_file"
            )
        return self

    @property
    def is_set(self) -> bool:
        """Whether somebody wants a provider at all."""
        said = (self.issuer, self.client_id, self.public_url, self.grants)
        return any(said) or not (self.client_secret is None and self.client_secret_file is None)


class RoomSettings(Section):
    """How the waiting room is reached."""

    host: str = "127.0.0.1"
    """The interface that is listened on."""
    port: Annotated[int, Field(ge=1, le=65_535)] = 8080
    issuer: str = "waystation"
    """Who signs the tokens; the same for all processes and all releases."""
    keys_file: Path = Path(".waystation/room-keys.json")
    """Where the signing keys are kept; made on the first start, and shared by all processes."""
    keys: SecretStr | None = None
    """The signing keys themselves, where a secret store hands them over instead of a file."""
    secure_cookies: bool = True
    """Off only to try things out without TLS from another machine."""
    trusted_proxies: tuple[str, ...] = ()
    """Networks whose word about a visitor's address is believed, such as 10.0.0.0/8."""
    webhook_networks: tuple[str, ...] = ()
    """Networks of your own that webhooks may go to, also without TLS; all others must be public."""
    poll_floor: Annotated[float, Duration()] = 1.0
    """Visitors who ask more often than this, beyond a few times, are asked to slow down."""
    front: Annotated[int, Field(ge=0)] = 100
    """How many at the front of a lane may follow their place live."""
    oidc: OidcSettings = OidcSettings()

    @field_validator("trusted_proxies", "webhook_networks")
    @classmethod
    def _are_networks(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        from waystation.waitingroom.http.framework.addresses import networks

        try:
            networks(texts)
        except InvalidOption:
            raise wanted("networks such as 10.0.0.0/8") from None
        return texts
