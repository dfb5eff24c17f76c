"""Options that all commands of the pipeline share, and the store of a command."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated

import typer

from waystation.core.app.settings import StoreSettings
from waystation.core.settings.load import Settings
from waystation.core.store import embedded

MASTER = Annotated[
    str | None, typer.Option(help="Spark master; default pipeline.master.", show_default=False)
]
HISTORY = Annotated[
    str | None,
    typer.Option(help="Directory of the tables; default pipeline.history.", show_default=False),
]
CONF = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="A Spark setting; may be repeated.",
        show_default=False,
    ),
]


@contextmanager
def store_url(settings: Settings) -> Generator[str]:
    """The URL of the store: from the settings, or of the embedded server."""
    if (url := settings[StoreSettings].url) is not None:
        # Plain text: Spark and the options of data sources take no subclass of it.
        yield str(url)
        return
    with embedded.shared() as server:
        yield server.url
