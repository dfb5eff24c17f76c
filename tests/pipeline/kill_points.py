"""A bulk enqueue that is killed at every word it has with the store, one after the other.

`python -m tests.pipeline.kill_points KEYS CHUNK` kills it before and after each call is sent, and
after each answer; then it lets it run again, and counts. It prints the deaths of each product.
"""

import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, NamedTuple

from pyspark.sql.types import StringType, StructField, StructType
from redis import Redis
from redis.connection import AbstractConnection

from tests.pipeline.drill import URL
from waystation.pipeline.sources.jobs import Jobs, receipt
from waystation.pipeline.storage.arrow import pa

QUEUE, BATCH = "bulk", "june"


class Goods(NamedTuple):
    """What a product is given, and where it is found."""

    row: Callable[[int], dict[str, Any]]
    waiting: str


def _job(number: int) -> dict[str, Any]:
    return {"key": f"k{number}", "name": "send", "data": f'{{"n":{number}}}'}


def _dispatch(number: int) -> dict[str, Any]:
    return {"key": f"k{number}", "type": "render", "payload": f'{{"scene":{number}}}'}


def _file(number: int) -> dict[str, Any]:
    named = {"key": f"k{number}", "path": f"/lake/{number}.csv", "priority": "low"}
    return {**named, "size": number, "mtime_ns": 1}


GOODS = {
    "bullmq": Goods(_job, f"bull:{QUEUE}:wait"),
    "routing": Goods(_dispatch, "bridge:jobs:waiting"),
    "files": Goods(_file, "jobqueue:low_priority"),
}


def enqueue(product: str, url: str, *, keys: int, chunk: int) -> int:
    """What Spark does with two tasks of which the second repeats some keys; how many rows."""
    goods = GOODS[product]
    options = {"url": url, "product": product, "queue": QUEUE, "batch": BATCH, "chunk": str(chunk)}
    columns = StructType([StructField(name, StringType()) for name in goods.row(0)])
    writer = Jobs(options).writer(columns, False)
    shares = [range(keys * 2 // 3), range(keys // 3, keys)]
    writer.commit([writer.write(_batches(goods, share)) for share in shares])
    return sum(map(len, shares))


def _batches(goods: Goods, numbers: range) -> Iterator[Any]:
    yield pa.RecordBatch.from_pylist([goods.row(number) for number in numbers])


def dies_at(word: int) -> None:
    """Let this process be killed at one of its words with the store."""
    words = count(1)
    connection: Any = AbstractConnection
    send, receive = connection.send_packed_command, connection.read_response

    def step() -> None:
        if next(words) == word:
            os.kill(os.getpid(), signal.SIGKILL)

    def sent(self: AbstractConnection, *args: Any, **more: Any) -> None:
        step()
        send(self, *args, **more)
        step()

    def received(self: AbstractConnection, *args: Any, **more: Any) -> Any:
        reply: Any = receive(self, *args, **more)
        step()
        return reply

    connection.send_packed_command = sent
    connection.read_response = received


def survives(word: int, does: Callable[[], object]) -> bool:
    """Whether a process of its own comes to the end of it, killed at one of its words."""
    child = os.fork()
    if not child:
        try:
            dies_at(word)
            does()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return False
    assert os.WEXITSTATUS(status) == 0, "the enqueue failed by itself"
    return True


def deaths(product: str, url: str, *, keys: int, chunk: int) -> int:
    """Kill the enqueue at one word after the other; how many it has."""
    with Redis.from_url(url, protocol=2) as store:
        for word in count(1):
            store.flushdb()
            survived = survives(word, lambda: enqueue(product, url, keys=keys, chunk=chunk))
            enqueue(product, url, keys=keys, chunk=chunk)
            many: Any = store.llen(GOODS[product].waiting)
            found = receipt(url, QUEUE, BATCH, product=product)
            assert many == keys, f"killed at word {word}: wanted {keys} jobs, got {many}"
            assert found is not None
            assert found.closed_at is not None
            assert found.jobs == keys, f"killed at word {word}: the receipt says {found}"
            if survived:
                return word - 1
    raise AssertionError


if __name__ == "__main__":
    # What is never collected is not copied when a process is forked.
    gc.freeze()
    for each in GOODS:
        print(each, deaths(each, os.environ[URL], keys=int(sys.argv[1]), chunk=int(sys.argv[2])))
