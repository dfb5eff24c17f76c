"""A first hour is followed as the page says: its files are saved, its commands typed, in order.

A block `console` has commands behind `$`; below each what it prints, `…` for whatever. A program
that begins with the name of a file is saved under it. What serves goes on until the page ends.
"""

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.patience import limit
from tests.support.ports import free_port
from tests.support.project import ROOT
from tests.wire.conftest import LATEST
from tests.wire.install import find_node, installed
from waystation.core.store import embedded

HOW_TO = ROOT / "docs" / "how-to"
BLOCK = re.compile(r"^```(console|python|js)\n(.*?)^```", re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"(?:#|//) (\w+\.(?:py|mjs))\n")
SERVES = re.compile(
    r"waystation (tasks|bullmq) work|waystation room serve|python shop.py|spark-class"
)


class Terminal:
    """The terminals of one reader: a folder, what was exported, and what still runs."""

    def __init__(self, folder: Path, ports: dict[str, str], environ: dict[str, str]) -> None:
        self._folder = folder
        self.ports = ports
        self._environ = environ
        self._open = ExitStack()
        self._outputs = 0

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def save(self, name: str, text: str) -> None:
        """A file of the page."""
        (self._folder / name).write_text(self._here(text))

    def type(self, command: str, wanted: list[str]) -> None:
        """A command, and what it must print; one that serves must print it and go on."""
        if command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            self._environ[name] = self._here(value)
            return
        self._outputs += 1
        output = self._folder / f"output-{self._outputs}.txt"
        words = shlex.split(self._here(command))
        if Path(words[0]).name == "python":
            words[0] = sys.executable
        with output.open("wb") as out:
            program = subprocess.Popen(
                words, cwd=self._folder, env=self._environ, stdout=out, stderr=subprocess.STDOUT
            )
        self._open.callback(_ended, program)
        said = ".*".join(re.escape(each) for each in self._here("…".join(wanted)).split("…"))
        serves = SERVES.match(command) is not None
        deadline = time.monotonic() + limit(900)
        while True:
            over = program.poll() is not None
            text = output.read_text()
            if over != serves and re.search(said, text, re.DOTALL):
                assert not program.returncode, f"{command}:\n{text}"
                return
            assert not over, f"{command}:\n{text}"
            assert time.monotonic() < deadline, f"{command}:\n{text}"
            time.sleep(0.1)

    def _here(self, text: str) -> str:
        for port, ours in self.ports.items():
            text = text.replace(port, ours)
        return text


def _ended(program: subprocess.Popen[bytes]) -> None:
    program.terminate()
    try:
        program.wait(limit(20))
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()


def steps(page: str) -> Iterator[tuple[str, str]]:
    """What a reader does: files to save and commands to type, with what they print."""
    for kind, text in BLOCK.findall((HOW_TO / f"{page}.md").read_text()):
        if kind != "console":
            yield kind, text
            continue
        for typed in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            yield kind, typed


def follow(page: str, terminal: Terminal) -> None:
    for kind, text in steps(page):
        if kind == "console":
            command, *wanted = text.splitlines()
            terminal.type(command, wanted)
        elif named := NAMED.match(text):
            terminal.save(named[1], text)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A reader with an empty home, whose Redis is a server of the test."""
    node = Path(find_node().program).parent
    kept = ("JAVA_HOME", "LANG", "WAYSTATION_CACHE")
    environ = {name: os.environ[name] for name in kept if name in os.environ} | {
        "PATH": f"{Path(sys.executable).parent}:{node}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "PYTHONUNBUFFERED": "1",
    }
    with embedded.ephemeral() as server:
        store = server.url.rpartition(":")[2]
        ports = {port: str(free_port()) for port in ("8000", "8080", "7077")} | {"6379": store}
        environ["WAYSTATION_ROOM__PORT"] = ports["8080"]
        with Terminal(tmp_path, ports, environ) as opened:
            yield opened


def asked(url: str) -> tuple[int, str, str]:
    """What a browser that comes for the first time is answered: status, where to, body."""
    place = urlsplit(url)
    client = HTTPConnection("127.0.0.1", place.port, timeout=limit(30))
    client.request("GET", place.path, headers={"Accept": "text/html", "Host": place.netloc})
    answer = client.getresponse()
    return answer.status, answer.headers.get("Location", ""), answer.read().decode()


@pytest.mark.slow
def test_a_celery_team_moves_one_task(terminal: Terminal) -> None:
    follow("come-from-celery", terminal)


@pytest.mark.slow
def test_a_node_team_adds_a_worker_in_python(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(installed(LATEST) / "node_modules")
    follow("feed-python-workers-from-node", terminal)


@pytest.mark.slow
def test_a_seller_opens_a_room_in_front_of_a_test_shop(terminal: Terminal) -> None:
    follow("open-a-waiting-room", terminal)
    shop, room = (f"http://localhost:{terminal.ports[port]}" for port in ("8000", "8080"))
    assert asked(f"{shop}/checkout")[::2] == (200, "You are in.")
    status, where, _ = asked(f"{shop}/checkout")
    assert (status, where.partition("?")[0]) == (303, f"{room}/wait/shop")
    assert asked(where)[0] == asked(f"{room}/operate/shop")[0] == 200


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_data_engineer_asks_for_failures_and_uses_a_cluster(terminal: Terminal) -> None:
    follow("pipeline-run", terminal)
    follow("pipeline-cluster", terminal)
