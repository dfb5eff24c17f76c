"""Spark sessions for the pipeline, on this machine or on a cluster."""

import atexit
import hashlib
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pyspark
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from waystation.core.errors import InvalidOption, SparkNotStarted
from waystation.core.options import check_fields
from waystation.pipeline.sources.events import Events, RedisStreams
from waystation.pipeline.sources.jobs import Jobs
from waystation.pipeline.sources.store import URL_VARIABLE
from waystation.pipeline.spark.errors import java_exit_code, report_lost_connections_once
from waystation.pipeline.spark.java import Java, cache, examined, java_home
from waystation.pipeline.storage import sessions
from waystation.pipeline.storage.sessions import REQUIRED, is_connected, prepared, share

MASTER = "local[*]"
CONNECT = "sc://"
"""How the URL of a Spark Connect server begins."""
_CONNECT_PORT = 15002
_CONNECT_S = 30.0
_SOURCES = (Events, Jobs, RedisStreams)
_PARTITIONS = "spark.sql.shuffle.partitions"
_DAEMON = "spark.python.daemon.module"
_STACK = "-Xss4m"
"""Stack of Java's threads, for plans that are deep: Java's own default is 1 MB on x86-64 and 2 MB
on aarch64, and a task that needs more ends Spark."""
# Remarks on archives of classes would appear among a program's output.
_SILENT = "-Xlog:disable -Xlog:all=error:stderr"
_FIRST_COMPILER = "-XX:TieredStopAtLevel=1"
"""Java's second compiler, and the counting of calls that it needs, cost a program that ends soon
more than faster code saves."""
_SMALL_HEAP = "-XX:+UseSerialGC"
_MEMORY = "spark.driver.memory"
_JAVA = "spark.driver.extraJavaOptions"
_SETTING = re.compile(r"^\s*(spark\.[^\s=:]+)\s*[\s=:]\s*(.*?)\s*$")


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a Spark session."""

    master: str = MASTER
    """Spark master, such as `local[4]` or `spark://host:7077`, or the URL of a Spark Connect
    server, `sc://host:15002`."""
    name: str = "waystation"
    """Name of the application."""
    driver_memory: str = ""
    """Heap of the driver, such as `4g`; default: spark-defaults.conf, else `1g`."""
    shuffle_partitions: int = 0
    """Shuffle partitions; 0 means two for each processor of the session."""
    few_rows: bool = False
    """Whether Spark gets at most some 100,000 rows before it ends: then Java compiles less."""
    conf: dict[str, str] = {}
    """Other Spark settings; those in `REQUIRED` cannot be changed."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name, value in self.conf.items():
            if not name.startswith("spark."):
                raise InvalidOption(f"wanted a setting of Spark, such as spark.ui.port; got {name}")
            if value != REQUIRED.get(name, value):
                raise InvalidOption(f"{name} must be {REQUIRED[name]} here, got {value}")


PREFERRED = {
    _MEMORY: "1g",
    _JAVA: _STACK,
    "spark.executor.extraJavaOptions": _STACK,
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    "spark.sql.catalogImplementation": "in-memory",
    # Up to so many ids are looked for in the filters of files, as the fold does.
    "spark.sql.parquet.pushdown.inFilterThreshold": "100",
    _DAEMON: "waystation.pipeline.spark.worker_daemon",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Plans are described for a page that is not served.
    "spark.sql.ui.explainMode": "simple",
    # Recording where each column was written takes longer than making it: half of all calls from
    # Python to Java.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.dataFrameQueryContext.enabled": "false",
    # A busy machine may take long to start a process.
    "spark.python.authenticate.socketTimeout": "300s",
}
"""Defaults that keep the console readable and short runs short; spark-defaults.conf wins."""

_ON_THIS_MACHINE = {
    _JAVA: f"{_STACK} {_SILENT}",
    # Without them Spark looks up this machine's name, which can take long.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # A process that does not answer here is starved, not dead.
    "spark.network.timeout": "600s",
    # Renaming a file is atomic here; Hadoop's own way costs more.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
}


def build_session(options: SessionOptions | None = None) -> SparkSession:
    """Start Spark, or use the active session."""
    options = options or SessionOptions()
    if options.master.startswith(CONNECT):
        return _connected(options)
    _prepare_environment(local=options.master.startswith("local"))
    report_lost_connections_once()
    builder: SparkSession.Builder = SparkSession.builder
    if is_submitted():
        settings = {_DAEMON: PREFERRED[_DAEMON], **options.conf, **REQUIRED}
    else:
        builder = builder.appName(options.name).master(options.master)
        settings = settings_of(options, machine_defaults())
        is_ours = settings.get(_JAVA, "").startswith(_ON_THIS_MACHINE[_JAVA])
        if is_ours and SparkSession.getActiveSession() is None:
            java = examined(Path(os.environ["JAVA_HOME"], "bin", "java"))
            settings[_JAVA] += f" {java_options(java)}"
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if options.shuffle_partitions or not spark.sparkContext.getConf().contains(_PARTITIONS):
        cores = spark.sparkContext.defaultParallelism
        spark.conf.set(_PARTITIONS, str(options.shuffle_partitions or 2 * cores))
    return prepared(spark)


def _connected(options: SessionOptions) -> SparkSession:
    """A session of a Spark Connect server, whose own settings and environment count."""
    _require_answer(options.master)
    try:
        builder = SparkSession.builder.remote(options.master)
        for name, value in options.conf.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
    except ImportError as error:
        raise SparkNotStarted(
            f"Spark Connect needs more packages, `pip install 'pyspark[connect]'`: {error}"
        ) from error
    return prepared(spark)


def _require_answer(remote: str) -> None:
    """Refuse a server that nobody can reach; Spark itself would try for minutes, without a word."""
    place = urlsplit(remote)
    # What follows host and port may hold a token.
    shown = f"{CONNECT}{place.hostname}:{place.port or _CONNECT_PORT}"
    try:
        socket.create_connection(
            (place.hostname or "", place.port or _CONNECT_PORT), timeout=_CONNECT_S
        ).close()
    except OSError as error:
        raise SparkNotStarted(f"no Spark Connect server answers at {shown}: {error}") from error


def is_submitted() -> bool:
    """Whether `spark-submit` runs this program: then its master and its settings are used."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def settings_of(options: SessionOptions, defaults: Mapping[str, str]) -> dict[str, str]:
    """The settings of a session: options first, then the machine's defaults, then ours."""
    local = options.master.startswith("local")
    ours = {**PREFERRED, **(_ON_THIS_MACHINE if local else {})}
    memory = {_MEMORY: options.driver_memory} if options.driver_memory else {}
    if local and options.few_rows:
        ours[_JAVA] += f" {_FIRST_COMPILER}"
    if local and _MEMORY not in {**defaults, **memory, **options.conf}:
        ours[_JAVA] += f" {_SMALL_HEAP}"
    unset = {name: value for name, value in ours.items() if name not in defaults}
    return {**unset, **memory, **options.conf, **REQUIRED}


def register(spark: SparkSession) -> None:
    """Register `waystation.events`, `waystation.jobs` and `waystation.streams` with a session,
    which becomes the active one of this thread."""
    sessions.register(spark, *_SOURCES)


def share_url(spark: SparkSession, url: str) -> None:
    """Put the store's URL in the environment of Spark's Python processes.

    A URL may hold a password, and options appear in query plans and logs. A Spark Connect server
    has the environment that it was started with.
    """
    if not is_connected(spark):
        share(spark, {URL_VARIABLE: url})


def _prepare_environment(*, local: bool) -> None:
    os.environ.setdefault("JAVA_HOME", str(java_home()))
    # Spark would take whatever `python3` the path has.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")


def machine_defaults(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The settings in the machine's `spark-defaults.conf`; none when there is no such file."""
    home = environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    file = Path(environ.get("SPARK_CONF_DIR") or Path(home) / "conf") / "spark-defaults.conf"
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    found = (_SETTING.match(line) for line in lines)
    return {match[1]: match[2] for match in found if match}


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


TRIES = 3
"""Programs that try to make it; one that is killed, or a Java that cannot, leaves none."""
ONE_FILE = 25
"""The first Java that keeps all classes in one file; others add to the file they come with."""
PATIENCE_S = 300.0


def java_options(java: Java | None) -> str:
    """Options for Java with which it uses an archive of Spark's classes, or else makes one.

    The first program with a session on this machine makes it when it ends; a start with it takes
    half of the processor time. There is one for each Java and each PySpark, and Java ignores one
    that does not fit.
    """
    if java is None:
        return ""
    # A cache that cannot be written or read costs time, and nothing else.
    with suppress(OSError):
        file = _file(java)
        if file.exists():
            return f"-XX:{'AOTCache' if java.major >= ONE_FILE else 'SharedArchiveFile'}={file}"
        if _may_try(file):
            fresh = file.with_suffix(f".{os.getpid()}")
            atexit.register(_keep, fresh, file)
            making = "AOTCacheOutput" if java.major >= ONE_FILE else "ArchiveClassesAtExit"
            return f"-XX:{making}={fresh}"
    return ""


def _file(java: Java) -> Path:
    jars = Path(pyspark.__file__).parent / "jars"
    place = _digest(java.home, jars)
    return cache() / "classes" / f"{place}-{_digest(java.version, jars.stat().st_mtime_ns)}.jsa"


def _digest(*what: object) -> str:
    return hashlib.sha256(repr(what).encode()).hexdigest()[:12]


def _may_try(file: Path) -> bool:
    """Whether this program may make the archive; older ones of the same place are deleted."""
    file.parent.mkdir(parents=True, exist_ok=True)
    mine = f"{file.stem}.try"
    place, _, _ = file.stem.partition("-")
    for old in file.parent.glob(f"{place}-*"):
        if old.stem != file.stem:
            old.unlink(missing_ok=True)
    for number in range(TRIES):
        with suppress(FileExistsError):
            (file.parent / f"{mine}{number}").touch(exist_ok=False)
            return True
    return False


def _keep(fresh: Path, file: Path) -> None:
    """Let Java end, which writes the archive, and keep what it wrote."""
    # Spark has no public name for it.
    gateway: Any = getattr(SparkContext, "_gateway", None)
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None:
        return
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        fresh.unlink(missing_ok=True)
    with suppress(OSError):
        fresh.replace(file)
