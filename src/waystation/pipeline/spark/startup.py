"""Starting Spark without its greetings: they are shown only when it does not start."""

import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from waystation.core.errors import SparkNotStarted
from waystation.pipeline.spark import process
from waystation.pipeline.spark.session import SessionOptions, build


@contextmanager
def spark(options: SessionOptions) -> Generator[SparkSession]:
    """A session for as long as it is needed; one that ran before goes on afterwards."""
    running = is_running()
    session = started(options)
    try:
        yield session
    finally:
        # Whoever started it ends it, unless it has ended by itself.
        if not running and process.ended_with() is None:
            session.stop()


def is_running() -> bool:
    """Whether there is a session that would be joined."""
    return SparkSession.getActiveSession() is not None


def started(options: SessionOptions) -> SparkSession:
    """Start Spark, or join the session that runs; Java's words go where nobody has to read them."""
    with tempfile.TemporaryFile() as said:
        sys.stderr.flush()
        ours = os.dup(2)
        try:
            # Java is started with what is here now, and keeps it.
            os.dup2(said.fileno(), 2)
            return _hushed(build(options))
        except RuntimeError as error:
            said.seek(0)
            words = said.read()[-2000:].decode(errors="replace").strip()
            raise SparkNotStarted(f"Spark did not start: {error}; {words}") from error
        finally:
            os.dup2(ours, 2)
            os.close(ours)


def _hushed(session: SparkSession) -> SparkSession:
    """Keep Spark from writing a traceback when Java is gone; that is reported in a sentence."""
    server: Any = getattr(session.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = _ignore
    return session


def _ignore(request: object, client_address: object) -> None: ...
