"""`waystation webhooks`: who is sent what happens to jobs, from the shell."""

import asyncio
import json
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import cast

import pytest

from tests.support.command import Command
from waystation.console.webhooks import Hooks, State
from waystation.core.clock import SystemClock
from waystation.core.operators.operators import Operators
from waystation.core.store.connection import connect


@pytest.fixture
def webhooks(
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    (tmp_path / "waystation.yaml").write_text(
        f"store: {{url: '{redis_url}'}}\nconsole: {{webhook_networks: [127.0.0.0/8]}}\n"
    )
    monkeypatch.chdir(tmp_path)
    return Command(tmp_path, capsys, "webhooks")


class Receiver(HTTPServer):
    """A program that answers with one status and remembers what came."""

    status = 204

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies: list[bytes] = []
        self.url = f"http://127.0.0.1:{self.server_port}/hook"


class Handler(BaseHTTPRequestHandler):
    """One request."""

    def do_POST(self) -> None:
        receiver = cast(Receiver, self.server)
        receiver.bodies.append(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(receiver.status)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def receiver() -> Generator[Receiver]:
    with Receiver() as built:
        thread = threading.Thread(target=built.serve_forever)
        thread.start()
        yield built
        built.shutdown()
        thread.join()


def test_a_webhook_is_added_listed_tried_and_removed(webhooks: Command, receiver: Receiver) -> None:
    asked = ("--event", "failed", "--queue", "bullmq/mail")
    id, events, secret = webhooks("add", receiver.url, *asked).stdout.split()[1::2]
    assert events == "failed"
    assert (id[:3], secret[:4]) == ("wh_", "whs_")

    output = webhooks("list").stdout
    assert all(
        part in output for part in (id, receiver.url, "bullmq/mail", "failed", "0 delivered")
    )
    [listed] = json.loads(webhooks("list", "--json").stdout)
    assert (listed["id"], listed["events"], listed["dead"]) == (id, ["failed"], False)
    assert secret not in output + json.dumps(listed)

    assert webhooks("test", id).stdout == "taken\n"
    assert json.loads(receiver.bodies[0])["events"][0]["event"] == "ping"
    receiver.status = 500
    refused = webhooks("test", id)
    assert (refused.returncode, refused.stderr) == (1, "not taken: the answer was 500\n")

    assert webhooks("remove", id).stdout == "removed\n"
    assert webhooks("remove", id).returncode == 1
    assert webhooks("list").stderr == "there are no webhooks\n"


def test_one_that_was_given_up_is_listed_as_that_and_resumed(
    webhooks: Command, redis_url: str
) -> None:
    made = json.loads(webhooks("add", "https://example.org/hook", "--json").stdout)

    async def give_up() -> None:
        async with await connect(redis_url) as store:
            state = State(failures=30, dead=True, last_error="the answer was 503")
            await Hooks(store).write(made["id"], state)

    asyncio.run(give_up())
    assert "given up: the answer was 503" in webhooks("list").stdout
    assert webhooks("resume", made["id"]).stdout == "resumed\n"
    assert "0 delivered" in webhooks("list").stdout


def test_who_added_and_removed_it_is_written_down(webhooks: Command, redis_url: str) -> None:
    id = json.loads(webhooks("add", "https://example.org/hook", "--json").stdout)["id"]
    webhooks("remove", id)

    async def audit() -> list[dict[str, str]]:
        async with await connect(redis_url) as store:
            return (await Operators(store, SystemClock()).audit(10)).entries

    assert [entry["action"] for entry in asyncio.run(audit())] == ["remove-webhook", "add-webhook"]


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("add", "ftp://example.org/"), "must start with https://"),
        (("add", "https://10.0.0.1/"), "leads inside, where no webhook may go"),
        (("add", "https://example.org/", "--event", "danced"), "there are no events danced"),
        (("add", "https://example.org/", "--queue", "mail"), "a queue is named as bullmq/mail"),
        (("test", "wh_nobody"), "there is no such webhook"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    webhooks: Command, args: tuple[str, ...], sentence: str
) -> None:
    ended = webhooks(*args)
    assert ended.returncode != 0
    assert sentence in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
