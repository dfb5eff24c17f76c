"""Start of a Spark session; its log lines are shown only when it fails."""

import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from waystation.core.errors import SparkNotStarted
from waystation.pipeline.spark.errors import java_exit_code
from waystation.pipeline.spark.session import SessionOptions, build_session
from waystation.pipeline.storage.sessions import is_connected


@contextmanager
def open_session(options: SessionOptions | None = None) -> Generator[SparkSession]:
    """A session for the time of the block; a session that ran before keeps running."""
    running = is_running()
    session = start_session(options or SessionOptions())
    try:
        yield session
    finally:
        # Stop only what was started here, unless it has ended by itself.
        if not running and java_exit_code() is None:
            session.stop()


def is_running() -> bool:
    """Whether there is an active session."""
    return SparkSession.getActiveSession() is not None


def start_session(options: SessionOptions) -> SparkSession:
    """Start Spark without its log lines, or use the active session."""
    with tempfile.TemporaryFile() as log:
        sys.stderr.flush()
        ours = os.dup(2)
        try:
            # Java inherits this file as its standard error.
            os.dup2(log.fileno(), 2)
            return _quiet(build_session(options))
        except (RuntimeError, PySparkException) as error:
            log.seek(0)
            lines = log.read()[-2000:].decode(errors="replace").strip()
            raise SparkNotStarted(f"Spark did not start: {error}; {lines}") from error
        finally:
            os.dup2(ours, 2)
            os.close(ours)


def _quiet(session: SparkSession) -> SparkSession:
    """Keep Spark from writing a traceback when Java has died; `translated` reports that."""
    if is_connected(session):
        return session
    server: Any = getattr(session.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = _ignore
    return session


def _ignore(request: object, client_address: object) -> None: ...
