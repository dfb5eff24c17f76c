"""The store of a command."""

from collections.abc import Generator
from contextlib import contextmanager

import typer

from waystation.core.app.loading import loaded_only
from waystation.core.store import embedded
from waystation.core.store.settings import StoreSettings


@contextmanager
def store_url(context: typer.Context) -> Generator[str]:
    """The URL of the store: from the settings, or of the embedded server."""
    settings = loaded_only(context, {"store": StoreSettings})
    if (url := settings[StoreSettings].url) is not None:
        # Plain text: Spark and the options of data sources take no subclass of it.
        yield str(url)
        return
    with embedded.shared() as server:
        yield server.url
