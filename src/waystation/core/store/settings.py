"""The store that the settings name: the same for the commands and for a program's own code."""

import os
from collections.abc import Mapping

from waystation.core.durations import Seconds
from waystation.core.errors import InvalidOption, InvalidSetting, InvalidUrl
from waystation.core.settings.load import FILE_VARIABLE, load
from waystation.core.settings.section import Secret, without_secrets
from waystation.core.store.connection import address
from waystation.core.store.connection.store import StoreOptions


class StoreSettings(StoreOptions, frozen=True, kw_only=True):
    """Where everything is kept."""

    url: Secret | None = None
    """Address of a Redis, Valkey or Dragonfly server; without one, an embedded server is used."""
    wait: Seconds = 300.0
    """How long a worker, a server or an exporter waits at its start for a store that is away."""

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            address.parse(self.url or "redis://host")
        except InvalidUrl:
            raise InvalidOption(
                f"url must be {address.FORMS}, got {without_secrets(self.url or '')!r}"
            ) from None


def store_settings(*, environ: Mapping[str, str] = os.environ) -> StoreSettings:
    """The section `store` of this directory's settings, for a program's own code."""
    found = load({"store": StoreSettings}, environ=environ, others=True)
    if found.missing:
        raise InvalidSetting(f"{FILE_VARIABLE} names {found.missing}, which does not exist")
    return found[StoreSettings]
