"""The settings of the waiting room's doors."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr, field_validator

from waystation.core.errors import InvalidOption
from waystation.interfaces.settings.section import Duration, Section, wanted


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

    @field_validator("trusted_proxies", "webhook_networks")
    @classmethod
    def _are_networks(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        from waystation.interfaces.api.addresses import networks

        try:
            networks(texts)
        except InvalidOption:
            raise wanted("networks such as 10.0.0.0/8") from None
        return texts
