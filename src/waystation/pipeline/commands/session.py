"""The Spark session and the history of a command."""

import os
import tempfile
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import typer

from waystation.core.app.loading import loaded
from waystation.core.errors import InvalidOption
from waystation.pipeline.history import History
from waystation.pipeline.settings import PipelineSettings
from waystation.pipeline.spark import session
from waystation.pipeline.spark.errors import translated
from waystation.pipeline.storage.places import checked_root, is_remote, way

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
    with _started(_options(context, master, conf), url) as spark:
        yield spark


def _options(
    context: typer.Context, master: str | None, conf: Sequence[str] | None
) -> session.SessionOptions:
    settings = loaded(context)[PipelineSettings]
    if master and session.is_submitted():
        raise InvalidOption("Spark is running already: give --master to spark-submit instead")
    chosen = master or settings.master
    # The server of a session decides such things itself.
    quiet = {} if chosen.startswith(session.CONNECT) else QUIET
    return session.SessionOptions(
        master=chosen,
        driver_memory=settings.driver_memory,
        conf={**quiet, **settings.spark, **dict(map(_setting, conf or ()))},
    )


@contextmanager
def _started(options: session.SessionOptions, url: str | None) -> Generator[session.SparkSession]:
    if not session.is_running():
        typer.echo("starting Spark …", err=True)
    with session.open_session(options) as spark, translated():
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
    """The history of a command; Spark starts when something needs it."""
    settings = loaded(context)[PipelineSettings]
    root = checked_root(place or str(settings.history))
    if is_remote(root):
        typer.echo(way(root), err=True)
    else:
        _require_directory(Path(root))
    # Checked now, whether Spark is needed or not.
    options = _options(context, master, conf)
    with ExitStack() as stack:

        def start() -> session.SparkSession:
            return stack.enter_context(_started(options, url))

        with translated():
            yield History(start, root)


def _require_directory(root: Path) -> None:
    """Refuse a place where no directory is and none can be made."""
    there = next(each for each in (root.absolute(), *root.absolute().parents) if each.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise InvalidOption(f"a history must be a directory that can be written, got {root}")


def _setting(text: str) -> tuple[str, str]:
    name, given, value = text.partition("=")
    if not given:
        raise InvalidOption(f"wanted --conf NAME=VALUE, got {text!r}")
    return name.strip(), value.strip()
