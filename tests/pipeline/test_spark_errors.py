"""What Spark's tasks complain about reaches people as one sentence."""

import socket
import subprocess
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.java_gateway import (  # pyright: ignore[reportMissingTypeStubs]
    GatewayParameters,
    JavaGateway,
)
from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from waystation.core.app.invocation import exit_code
from waystation.core.errors import HeapExhausted, JavaDied, SparkFailed, StoreUnreachable
from waystation.pipeline.spark.errors import report_lost_connections_once, translated


def test_an_error_of_ours_comes_through_as_it_was_raised(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("a", "send")], "key string, name string")
    options = {"queue": "mail", "batch": "b", "url": "redis://127.0.0.1:1"}
    writer = rows.write.format("waystation.jobs").options(**options).mode("append")
    with pytest.raises(StoreUnreachable, match=r"^[^\n]+$"), translated():
        writer.save()


def test_what_spark_itself_says_is_cut_to_its_first_line(spark: SparkSession) -> None:
    failing = spark.range(1).select(F.raise_error(F.lit("no such luck")))
    wanted = r"^Spark did not finish: [^\n]*no such luck"
    with pytest.raises(SparkFailed, match=wanted), translated():
        failing.collect()


def test_an_error_of_java_is_told_by_what_happened_not_by_the_call(spark: SparkSession) -> None:
    with pytest.raises(SparkFailed, match=r"^Spark did not finish: .*no.such.format"), translated():
        spark.readStream.format("no.such.format").load()


def test_what_a_library_raised_in_a_task_is_told_without_the_way_it_came(
    spark: SparkSession,
) -> None:
    def fail(_: object) -> int:
        raise ZeroDivisionError("one by none")

    with pytest.raises(SparkFailed, match=r"^Spark did not finish: one by none$"), translated():
        spark.sparkContext.parallelize([1], 1).map(fail).collect()


def test_a_heap_that_is_too_small_is_told_with_what_to_do(spark: SparkSession) -> None:
    failing = spark.range(1).select(F.raise_error(F.lit("java.lang.OutOfMemoryError: Java heap")))
    with pytest.raises(HeapExhausted, match=r"pipeline\.driver_memory"), translated():
        failing.collect()


@pytest.mark.parametrize(
    ("code", "how"),
    [
        (
            -9,
            r"was killed by signal 9; a machine or container that runs out of memory does that",
        ),
        (-11, r"was killed by signal 11\. Its heap is set by pipeline\.driver_memory"),
        (52, r"ended with exit code 52\. Its heap is set by pipeline\.driver_memory"),
    ],
)
@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "refused"), EOFError(), Py4JError()])
def test_a_java_that_has_died_is_told_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, code: int, how: str, error: Exception
) -> None:
    ended = subprocess.Popen(["sh", "-c", f"kill {code} $$" if code < 0 else f"exit {code}"])
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=ended))
    with pytest.raises(JavaDied, match=how) as caught, translated():
        raise error
    assert "nothing lost and nothing twice" in str(caught.value)
    assert exit_code(caught.value) == 5


def test_an_error_of_neither_java_nor_files_is_left_alone(spark: SparkSession) -> None:
    with pytest.raises(TimeoutError), translated():
        raise TimeoutError("not yours")


def test_a_connection_to_java_that_is_lost_raises_and_logs_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    report_lost_connections_once()
    with socket.create_server(("127.0.0.1", 0)) as java:
        Thread(target=_hang_up, args=(java,), daemon=True).start()
        gateway: Any = JavaGateway(gateway_parameters=GatewayParameters(port=java.getsockname()[1]))
        with pytest.raises(Py4JError):
            gateway.jvm.System.currentTimeMillis()
    assert caplog.records == []


def _hang_up(server: socket.socket) -> None:
    """Take what is sent, and answer nothing."""
    while server.fileno() >= 0:
        connection, _ = server.accept()
        with connection:
            connection.recv(1000)
