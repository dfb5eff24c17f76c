"""Processes that fork after their first use of a queue: by hand, and under gunicorn."""

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.patience import LIMIT_S
from waystation.sync import Queue

PROGRAM = """
import os, sys
from waystation.sync import Queue

queue = Queue("mail", sys.argv[1])
queue.add("before", {})
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        for n in range(50):
            queue.add("child", {"n": n})
        os._exit(0 if queue.count() else 1)
    children.append(child)
for n in range(50):
    queue.add("parent", {"n": n})
codes = [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in children]
sys.exit(max(codes))
"""

MIDWAY = """
import os, signal, sys, threading, time
from redis import Redis
from waystation.bullmq import FlowNode
from waystation.integrations.outbox import Relay, row_of
from waystation.sync import FlowProducer, Queue, open_store
from waystation.tasks import Tasks

url = sys.argv[1]
used, tasks, store = Queue("mail", url), Tasks(url), open_store(url)
used.add("before", {})

@tasks.task(queue="mail")
def send(to: str) -> None: ...

LEAF = FlowNode(name="leaf", queue="mail")
unused, flows, shared = Queue("mail", url), FlowProducer(url), Queue("mail", store)
relay = Relay(url)
CALLS = [
    lambda: unused.add("unused", {}),
    lambda: unused.count(),
    lambda: used.add("used", {}),
    lambda: used.get_jobs(),
    lambda: shared.add("shared", {}),
    lambda: flows.add(FlowNode(name="root", queue="mail", children=[LEAF])),
    lambda: send.sync.add("ada"),
    lambda: tasks.sync.add_many([send.bind("bob")]),
    lambda: relay.add([row_of("mail", "row", {})]),
    lambda: open_store(url).shut(),
]
with Redis.from_url(url) as client:
    client.client_pause(1000, all=True)
threads = [threading.Thread(target=each) for each in CALLS]
for each in threads:
    each.start()
time.sleep(0.4)
child = os.fork()
if child == 0:
    for n, each in enumerate(CALLS):
        # Ends the process, so that its code says which call it was.
        signal.signal(signal.SIGALRM, lambda *_, n=n: os._exit(100 + n))
        signal.alarm(5)
        each()
    os._exit(0)
for each in threads:
    each.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

SITE = """
import os
from waystation.sync import Queue

queue = Queue("mail", os.environ["STORE"])
queue.add("loaded", {"pid": os.getpid()})  # before gunicorn forks

def app(environ, start):
    job = queue.add("request", {"pid": os.getpid()})
    start("200 OK", [("Content-Type", "text/plain")])
    return [job.id.encode()]
"""


def test_a_queue_is_used_before_and_after_a_fork(redis_url: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, redis_url],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    with Queue("mail", redis_url) as queue:
        assert queue.count() == 1 + 4 * 50


def test_calls_go_on_in_a_process_that_was_forked_in_the_middle_of_them(redis_url: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", MIDWAY, redis_url],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    with Queue("mail", redis_url) as queue:
        # Each in the parent and in the child.
        added = ["unused", "used", "shared", "root", "leaf", "send", "send", "row"]
        found = queue.get_jobs("waiting", "waiting-children")
        assert sorted(job.name for job in found) == sorted(["before", *added, *added])


class Connection(http.client.HTTPConnection):
    """HTTP over a socket in a directory, which nobody else can have taken."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=LIMIT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(LIMIT_S)
        self.sock.connect(self._path)


def test_a_queue_is_used_by_a_site_under_gunicorn(redis_url: str, tmp_path: Path) -> None:
    (tmp_path / "site_app.py").write_text(SITE)
    with tempfile.TemporaryDirectory() as short:
        path = f"{short}/socket"
        server = subprocess.Popen(
            [
                *(sys.executable, "-m", "gunicorn", "--preload", "--workers", "3"),
                *("--threads", "2", "--bind", f"unix:{path}", "--log-level", "error"),
                "site_app:app",
            ],
            cwd=tmp_path,
            env={**os.environ, "STORE": redis_url},
        )

        def ask(_: int) -> str:
            with contextlib.closing(Connection(path)) as connection:
                connection.request("GET", "/")
                return connection.getresponse().read().decode()

        try:
            until_it_listens(path, server)
            with ThreadPoolExecutor(8) as threads:
                ids = list(threads.map(ask, range(100)))
        finally:
            server.terminate()
            server.wait(LIMIT_S)
    with Queue("mail", redis_url) as queue:
        jobs = queue.get_jobs("waiting", limit=None)
    requests = {job.id: job.data["pid"] for job in jobs if job.name == "request"}
    assert sorted(ids) == sorted(requests)
    [loaded] = [job.data["pid"] for job in jobs if job.name == "loaded"]
    assert loaded not in requests.values()


def until_it_listens(path: str, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + LIMIT_S
    while True:
        with socket.socket(socket.AF_UNIX) as probe:
            # The socket is there a moment before it listens.
            if probe.connect_ex(path) == 0:
                return
        assert server.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
