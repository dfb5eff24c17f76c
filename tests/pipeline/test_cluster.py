"""The same code on a real cluster: a master and two workers, each a process of its own."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import pyspark
import pytest
from deltalake import DeltaTable
from redis import Redis

from tests.pipeline.conftest import JAVA, SMALL
from tests.pipeline.drill import command_line, descendants
from tests.pipeline.object_store import PLACE, SECRET, object_store
from tests.pipeline.raw_streams import write_events
from tests.support.patience import limit
from tests.support.ports import free_port
from waystation.pipeline.bronze import commits
from waystation.pipeline.spark.java import java_home
from waystation.pipeline.tables import EVENTS

SPARK = Path(pyspark.__file__).parent
WORKERS = ("worker-0", "worker-1")
ON_LOOPBACK = {
    **SMALL.conf,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.extraJavaOptions": JAVA,
}
_STARTED, _JOINED = "Starting Spark master", "Successfully registered"

DRIVER = """
import json, sys
from waystation.pipeline.history import History
from waystation.pipeline.runner import (RunOptions, run)
from waystation.pipeline.spark.session import SessionOptions, build_session
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.tables import EVENTS

master, url, root, small = sys.argv[1:]
conf = {
    **json.loads(small),
    "spark.cores.max": "2",
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
conf["spark.executor.extraJavaOptions"] = conf["spark.driver.extraJavaOptions"]
spark = build_session(SessionOptions(master=master, shuffle_partitions=2, conf=conf))
run(History(spark, root), RunOptions(events=EventOptions(url=url), write_back=False))
history = History(spark, root)
events = history.read(EVENTS).where("stream like 'bull:%'")
executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
print("SEEN", events.count(), history.items().count(), executors)
spark.stop()
"""


class Cluster:
    """A standalone cluster on loopback: a master and two workers, any of which a test may kill."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = str(free_port())
        self.address = f"spark://127.0.0.1:{self._port}"
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self.start("master")
        for name in WORKERS:
            self.start(name)
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._running):
            self.kill(name)

    def start(self, name: str) -> None:
        """Start the master or a worker, and wait until it takes part."""
        log = self._folder / f"{name}.log"
        # A master that starts again knows its workers and applications by what it wrote down.
        recovery = (
            "-Dspark.deploy.recoveryMode=FILESYSTEM "
            f"-Dspark.deploy.recoveryDirectory={self._folder / 'recovery'}"
        )
        # The keys of an object store come from the driver.
        known = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        environment = {
            **known,
            "JAVA_HOME": str(java_home()),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"{JAVA} {recovery}",
        }
        with log.open("wb") as out:
            self._running[name] = subprocess.Popen(
                [str(SPARK / "bin" / "spark-class"), *self._words(name)],
                stdout=out,
                stderr=out,
                env=environment,
                start_new_session=True,
            )
        is_master = name == "master"
        until(lambda: (_STARTED if is_master else _JOINED) in read(log), lambda: read(log))

    def kill(self, name: str) -> None:
        """End the master, or a worker and its executors, at once."""
        process = self._running.pop(name)
        for pid in [*descendants(process.pid), process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()

    def kill_an_executor(self) -> None:
        """End one executor at once; its worker stays."""
        until(lambda: bool(self._executors()), lambda: "no executor has started")
        os.kill(self._executors()[0], signal.SIGKILL)

    def _executors(self) -> list[int]:
        return [
            pid
            for name in WORKERS
            if name in self._running
            for pid in descendants(self._running[name].pid)
            if "CoarseGrainedExecutorBackend" in command_line(pid)
        ]

    def _words(self, name: str) -> list[str]:
        here = ["--host", "127.0.0.1", "--webui-port", "0"]
        if name == "master":
            return ["org.apache.spark.deploy.master.Master", *here, "--port", self._port]
        size = ["--cores", "1", "--memory", "600m", "--work-dir", str(self._folder / name)]
        return ["org.apache.spark.deploy.worker.Worker", *here, *size, self.address]


def read(log: Path) -> str:
    return log.read_text(errors="replace")


def until(is_so: Callable[[], bool], said: Callable[[], str]) -> None:
    """Wait until something is so; what has been said instead is the failure's message."""
    end = time.monotonic() + limit(300)
    while not is_so():
        assert time.monotonic() < end, said()
        time.sleep(0.2)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as cluster:
        yield cluster


@pytest.mark.long
@pytest.mark.timeout(900)
def test_two_workers_of_a_cluster_make_the_same_history(
    cluster: Cluster, store: Redis, redis_url: str, root: str, tmp_path: Path
) -> None:
    write_events(store, 500, queue="mail")
    write_events(store, 300, queue="post")
    program = tmp_path / "driver.py"
    program.write_text(DRIVER)
    done = subprocess.run(
        [sys.executable, str(program), cluster.address, redis_url, root, json.dumps(SMALL.conf)],
        capture_output=True,
        text=True,
        timeout=limit(360),
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "SEEN 800 800 2" in done.stdout


@pytest.mark.long
@pytest.mark.timeout(900)
def test_spark_submit_chooses_the_master(
    cluster: Cluster, store: Redis, redis_url: str, root: str, tmp_path: Path
) -> None:
    entries = write_events(store, 500, queue="mail")
    program = tmp_path / "pipeline.py"
    program.write_text("from waystation.cli.root import run\n\nrun()\n")
    conf = {**ON_LOOPBACK, "spark.cores.max": "2", "spark.executor.memory": "512m"}
    submit = [
        str(SPARK / "bin" / "spark-submit"),
        *("--master", cluster.address, "--name", "nightly"),
        *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}")),
        *(str(program), "pipeline", "run", "--once", "--history", root),
    ]
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "WAYSTATION_STORE__URL": redis_url,
        "WAYSTATION_PIPELINE__MASTER": "local[1]",
    }
    done = subprocess.run(
        submit, capture_output=True, text=True, env=environment, timeout=limit(600)
    )

    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(stored_entries(root)) == sorted(("bull:mail:events", each) for each in entries)
    assert "Registered app nightly" in read(tmp_path / "master.log")
    twice = subprocess.run(
        [*submit, "--master", "local[1]"], capture_output=True, text=True, env=environment
    )
    assert twice.returncode == 2
    # spark-submit writes what the program says to its own standard output.
    assert "give --master to spark-submit" in twice.stdout


class Producer(threading.Thread):
    """Adds events to three queues until it is stopped, and knows all of them.

    It begins with many, if asked to.
    """

    def __init__(self, url: str, *, many: int = 0) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._many = many
        self._stopped = threading.Event()
        self.entries: list[tuple[str, str]] = []

    def run(self) -> None:
        queues = ("mail", "post", "bills")
        with Redis.from_url(self._url, protocol=2) as store:
            while not self._stopped.wait(0.1):
                some = 200 if len(self.entries) < self._many else 20
                for queue in queues:
                    added = write_events(store, some, queue=queue)
                    self.entries += ((f"bull:{queue}:events", entry) for entry in added)

    def stop(self) -> None:
        self._stopped.set()
        self.join()


class Pipeline:
    """The command that follows the streams on a cluster, started again when it has died."""

    def __init__(
        self,
        master: str,
        url: str,
        root: str,
        log: Path,
        conf: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._words = ["--master", master, "--history", root, "--every", "1"]
        self.root, self.log, self.starts = root, log, 0
        self._url, self._conf = url, conf
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.keep_alive()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def keep_alive(self) -> None:
        if self._process is None or self._process.poll() is not None:
            self._process, self.starts = self._start(*self._words), self.starts + 1

    def kill(self) -> None:
        """End the driver, its JVM and its Python processes at once."""
        assert self._process is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def finish(self) -> int:
        """Store what is left, on this machine alone; the exit code."""
        self.kill()
        return self._start("--once", "--master", "local[2]", *self._words[2:4]).wait()

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        sizes = {"spark.cores.max": "2", "spark.executor.memory": "512m"}
        conf = {**ON_LOOPBACK, **sizes, **self._conf}
        options = [f"--conf={name}={value}" for name, value in conf.items()]
        environment = {
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "WAYSTATION_STORE__URL": self._url,
            # However few the events are, the executors have to read and store them.
        }
        with self.log.open("ab") as out:
            return subprocess.Popen(
                [sys.executable, "-m", "waystation", "pipeline", "run", *words, *options],
                stdout=out,
                stderr=out,
                env=environment,
                start_new_session=True,
            )


def stored_entries(root: str) -> list[tuple[str, str]]:
    """Stream and id of every stored event, as any reader of Delta tables sees them."""
    if not DeltaTable.is_deltatable(EVENTS.path(root)):
        return []
    table: Any = DeltaTable(EVENTS.path(root))
    rows: list[dict[str, str]] = table.to_pyarrow_table(columns=["stream", "entry_id"]).to_pylist()
    return [(row["stream"], row["entry_id"]) for row in rows if row["stream"].startswith("bull:")]


def outlive(cluster: Cluster, pipeline: Pipeline, producer: Producer, deaths: list[str]) -> str:
    """Kill one after the other while events arrive; each event is one row of the table."""
    root, log = pipeline.root, pipeline.log
    producer.start()
    with pipeline:

        def is_beyond(count: int) -> bool:
            # Whoever operates it restarts a driver that has died.
            pipeline.keep_alive()
            reached = commits.offsets_in(root).values()
            return sum(offset.added or 0 for offset in reached) > count

        until(lambda: is_beyond(0), lambda: read(log)[-5000:])
        for victim in deaths:
            if victim == "driver":
                pipeline.kill()
            elif victim == "executor":
                cluster.kill_an_executor()
            else:
                cluster.kill(victim)
                cluster.start(victim)
            added = len(producer.entries)
            until(lambda added=added: is_beyond(added), lambda: read(log)[-5000:])
        producer.stop()
        assert pipeline.finish() == 0, read(log)[-5000:]
    stored = stored_entries(root)
    assert len(stored) == len(set(stored))
    assert set(stored) == set(producer.entries)
    return f"{len(stored):,} events, {len(deaths)} deaths, {pipeline.starts} starts of the driver"


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_every_event_is_stored_once_whatever_dies_in_the_cluster(
    cluster: Cluster, redis_url: str, root: str, tmp_path: Path
) -> None:
    pipeline = Pipeline(cluster.address, redis_url, root, tmp_path / "pipeline.log")
    deaths = ["executor", "worker-0", "master", "driver", "executor", "worker-1"]
    print(outlive(cluster, pipeline, Producer(redis_url), deaths))


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_every_event_is_stored_once_in_an_object_store_though_ten_die(
    cluster: Cluster, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whatever Spark's pages show is in its event log.
    events, log = tmp_path / "events", tmp_path / "pipeline.log"
    events.mkdir()
    conf = {
        "spark.log.level": "INFO",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
    }
    with object_store(tmp_path) as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        many = 0
        if os.environ.get("WAYSTATION_FULL"):
            many = 1_000_000
            # Many rows take longer than compiling a query does.
            conf["spark.sql.codegen.wholeStage"] = "true"
            conf["spark.sql.codegen.factoryMode"] = "FALLBACK"
        pipeline = Pipeline(cluster.address, redis_url, PLACE, log, conf)
        deaths = ["executor", "worker-0", "master", "driver", "executor", "worker-1", "driver"]
        deaths += ["executor", "master", "driver"]
        print(outlive(cluster, pipeline, Producer(redis_url, many=many), deaths))
    written = [each for each in tmp_path.rglob("*") if each.is_file()]
    plans = [read(each) for each in events.rglob("events_*") if each.is_file()]
    assert any("waystation.parts" in each for each in plans)
    assert [each.name for each in written if SECRET.encode() in each.read_bytes()] == []
