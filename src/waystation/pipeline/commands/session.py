"""The store and the Spark session of a command."""

import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from waystation.core.app.loading import loaded
from waystation.core.app.settings import StoreSettings
from waystation.core.errors import InvalidOption
from waystation.core.settings.load import Settings
from waystation.core.store import embedded
from waystation.pipeline.history import History, checked_root
from waystation.pipeline.settings import PipelineSettings
from waystation.pipeline.spark import session, startup
from waystation.pipeline.spark.errors import translated

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

QUIET = {
    "spark.log.level": "ERROR",
    # Spark creates this folder for SQL, by default in the current directory.
    "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "waystation-warehouse"),
}


@contextmanager
def spark_session(
    context: typer.Context, master: str | None, conf: Sequence[str] | None, url: str | None = None
) -> Generator[session.SparkSession]:
    """The session of a command; our data sources find the store's URL in its environment."""
    settings = loaded(context)[PipelineSettings]
    options = session.SessionOptions(
        master=master or settings.master,
        driver_memory=settings.driver_memory,
        conf={**QUIET, **settings.spark, **dict(map(_setting, conf or ()))},
    )
    if not startup.is_running():
        typer.echo("starting Spark …", err=True)
    with startup.open_session(options) as spark, translated():
        if url is not None:
            session.share_url(spark, url)
        yield spark


@contextmanager
def kept_history(
    context: typer.Context,
    master: str | None,
    place: str | None,
    conf: Sequence[str] | None,
    url: str | None = None,
) -> Generator[History]:
    """The history of a command."""
    root = checked_root(place or str(loaded(context)[PipelineSettings].history))
    with spark_session(context, master, conf, url) as spark:
        yield History(spark, root)


def _setting(text: str) -> tuple[str, str]:
    name, given, value = text.partition("=")
    if not given:
        raise InvalidOption(f"wanted --conf NAME=VALUE, got {text!r}")
    return name.strip(), value.strip()


@contextmanager
def store_url(settings: Settings) -> Generator[str]:
    """The URL of the store: from the settings, or of the embedded server."""
    if (url := settings[StoreSettings].url) is not None:
        # Plain text: Spark and the options of data sources take no subclass of it.
        yield str(url)
        return
    with embedded.shared() as server:
        yield server.url
