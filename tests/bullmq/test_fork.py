"""The recipe for sites that are not async, in a process that was forked after its first use."""

import subprocess
import sys

from tests.support.patience import LIMIT_S

SITE = """
import asyncio, os, sys
from functools import cache
from threading import Thread
from waystation.bullmq import Queue

@cache
def started(process):
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name="queues", daemon=True).start()
    return Queue("mail", sys.argv[1]), loop

def add(name, data):
    queue, loop = started(os.getpid())
    return asyncio.run_coroutine_threadsafe(queue.add(name, data), loop).result(timeout=30)

print(add("send", {}).id, flush=True)
child = os.fork()
print(add("send", {}).id, flush=True)
if child:
    assert os.waitpid(child, 0)[1] == 0
os._exit(0)
"""


def test_jobs_are_added_before_and_after_a_fork(redis_url: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SITE, redis_url],
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT_S,
    )
    assert sorted(ran.stdout.split()) == ["1", "2", "3"]
