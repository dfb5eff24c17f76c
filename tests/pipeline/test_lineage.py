"""What a run tells an OpenLineage server, and that it goes on when there is none."""

import json
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest
from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    error_message_run,
    output_statistics_output_dataset,
    schema_dataset,
)
from openlineage.client.transport.http import HttpTransport
from openlineage.client.uuid import generate_new_uuid
from redis import Redis

from tests.pipeline.test_engines import rows_of
from waystation.cli import root as cli
from waystation.core.errors import InvalidOption, StoreUnreachable
from waystation.pipeline.history import History
from waystation.pipeline.lineage.rounds import PRODUCER, dataset_name, store_namespace
from waystation.pipeline.lineage.sender import Sender, transport_to
from waystation.pipeline.runner import RunOptions, follow, run
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.tables import ATTEMPTS, EVENTS, ITEMS


class Server(ThreadingHTTPServer):
    """A server that takes events, and keeps what it got."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Receiver)
        self.got: list[tuple[str, str | None, dict[str, Any]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def events(self) -> list[dict[str, Any]]:
        return [event for _, _, event in self.got]


class _Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        got = cast(Server, self.server).got
        got.append((self.path, self.headers["Authorization"], json.loads(body)))
        self.send_response(201)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.05,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def no_spark() -> Any:
    raise AssertionError("so few rows need no Spark")


def options(redis_url: str, to: str) -> RunOptions:
    return RunOptions(events=EventOptions(url=redis_url), lineage=to, refresh_every=0)


def add_jobs(store: Redis, *ids: str) -> None:
    for id in ids:
        store.xadd("bull:mail:events", {"event": "added", "jobId": id, "name": "send"})
        store.xadd("bull:mail:events", {"event": "active", "jobId": id, "prev": "waiting"})
        store.xadd("bull:mail:events", {"event": "completed", "jobId": id, "returnvalue": "1"})


def outputs(event: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"].rpartition("/")[2]: each for each in event["outputs"]}


def rows(event: dict[str, Any]) -> dict[str, int]:
    return {
        table: each["outputFacets"]["outputStatistics"]["rowCount"]
        for table, each in outputs(event).items()
    }


def test_a_round_tells_the_streams_that_it_read_and_the_rows_that_it_wrote(
    store: Redis, redis_url: str, root: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "a-key")
    history = History(no_spark, root)
    add_jobs(store, "1", "2", "3")
    run(history, options(redis_url, server.url))
    there = {table.name: len(rows_of(root, table)) for table in (EVENTS, ITEMS, ATTEMPTS)}
    run(history, options(redis_url, server.url))
    add_jobs(store, "4")
    run(history, options(redis_url, server.url))

    states = [event["eventType"] for event in server.events]
    assert states == ["START", "COMPLETE"] * 3
    first, idle, last = server.events[1::2]
    ids = [event["run"]["runId"] for event in server.events]
    assert ids[::2] == ids[1::2]
    assert len(set(ids)) == 3
    assert {(path, key) for path, key, _ in server.got} == {("/api/v1/lineage", "Bearer a-key")}
    assert {(each["job"]["namespace"], each["job"]["name"]) for each in server.events} == {
        ("waystation", "pipeline.run")
    }
    streams = [(each["namespace"], each["name"]) for each in first["inputs"]]
    assert (store_namespace(redis_url), "bull:mail:events") in streams

    assert there == {"events": 9, "items": 3, "attempts": 3}
    assert {name: rows(first)[name] for name in there} == there
    assert (rows(idle)["events"], rows(idle)["items"]) == (0, 0)
    assert (rows(last)["events"], rows(last)["items"]) == (3, 1)


def test_an_event_has_the_facets_of_openlineages_own_types(
    store: Redis, redis_url: str, root: str, tmp_path: Path
) -> None:
    add_jobs(store, "1")
    file = tmp_path / "lineage.jsonl"
    run(History(no_spark, root), options(redis_url, str(file)))
    _, complete = [json.loads(line) for line in file.read_text().splitlines()]

    assert complete["schemaURL"] == RunEvent._get_schema()  # pyright: ignore[reportPrivateUsage]
    assert complete["producer"] == PRODUCER
    items = outputs(complete)["items"]
    assert (items["namespace"], items["name"]) == dataset_name(ITEMS.path(root))
    schema = items["facets"]["schema"]
    facet = schema_dataset.SchemaDatasetFacet
    assert schema["_schemaURL"] == facet._get_schema()  # pyright: ignore[reportPrivateUsage]
    assert [(each["name"], each["type"]) for each in schema["fields"]] == [
        (column.name, column.type) for column in ITEMS.columns
    ]
    statistics = items["outputFacets"]["outputStatistics"]
    got = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet
    assert statistics["_schemaURL"] == got._get_schema()  # pyright: ignore[reportPrivateUsage]
    assert statistics["_producer"] == PRODUCER
    assert statistics["fileCount"] == 1
    assert statistics["size"] == sum(
        part.stat().st_size for part in Path(ITEMS.path(root)).rglob("*.parquet")
    )


def test_a_round_that_fails_says_why(root: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    file = tmp_path / "lineage.jsonl"
    with pytest.raises(StoreUnreachable):
        run(History(no_spark, root), options(f"redis://:secret@127.0.0.1:{port}", str(file)))
    start, fail = [json.loads(line) for line in file.read_text().splitlines()]
    assert (start["eventType"], fail["eventType"]) == ("START", "FAIL")
    problem = fail["run"]["facets"]["errorMessage"]
    facet = error_message_run.ErrorMessageRunFacet
    assert problem["_schemaURL"] == facet._get_schema()  # pyright: ignore[reportPrivateUsage]
    assert problem["message"]
    assert "secret" not in file.read_text()


def test_a_run_that_follows_tells_every_round_and_one_that_was_stopped(
    store: Redis, redis_url: str, root: str, server: Server
) -> None:
    add_jobs(store, "1")
    stop = threading.Event()
    rounds = 0

    def after_two(_: object) -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 2:
            stop.set()

    follow(History(no_spark, root), options(redis_url, server.url), stop, on_round=after_two)
    states = [event["eventType"] for event in server.events]
    assert states == ["START", "COMPLETE", "START", "COMPLETE"]
    # A batch is committed in the round that waits for it, or just before the first one.
    assert sum(rows(event)["items"] for event in server.events[1::2]) == 1


def test_a_server_that_is_away_costs_a_warning_and_nothing_else(
    store: Redis, redis_url: str, root: str, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    add_jobs(store, "1")
    with caplog.at_level(logging.WARNING):
        ran = run(History(no_spark, root), options(redis_url, f"http://127.0.0.1:{port}"))
    assert ran.events == 3
    warned = [each for each in caplog.messages if each.startswith("lineage_not_sent")]
    assert len(warned) == 1


def test_a_server_that_never_answers_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    event = RunEvent(
        eventType=RunState.START,
        eventTime="2026-03-01T12:00:00+00:00",
        run=Run(runId=str(generate_new_uuid())),
        job=Job(namespace="here", name="job"),
    )
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        sender = Sender(f"http://127.0.0.1:{silent.getsockname()[1]}")
        for _ in range(3):
            sender.send(event)
        with caplog.at_level(logging.WARNING):
            sender.close(within=0.2)
    assert [each for each in caplog.messages if each.startswith("lineage_not_sent")]


def test_lineage_goes_to_a_url_or_a_file(tmp_path: Path) -> None:
    web = transport_to("https://lineage.example.org", {})
    assert isinstance(web, HttpTransport)
    for bad in ("kafka://broker", "http://"):
        with pytest.raises(InvalidOption, match="lineage must be"):
            transport_to(bad, {})
    assert store_namespace("redis://ada:secret@h:7000/2") == "redis://h:7000/2"
    assert store_namespace("unix:///run/redis.sock") == "redis:///run/redis.sock"
    assert dataset_name("s3://lake/history/silver/items") == ("s3://lake", "history/silver/items")


def test_the_setting_is_used_by_the_command(
    store: Redis, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WAYSTATION_STORE__URL", redis_url)
    monkeypatch.setenv("WAYSTATION_PIPELINE__LINEAGE", "file://lineage.jsonl")
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "shop")
    add_jobs(store, "1")
    with pytest.raises(SystemExit) as ended:
        cli.run(["pipeline", "run", "--once"])
    assert not ended.value.code
    told = [json.loads(line) for line in Path("lineage.jsonl").read_text().splitlines()]
    assert [each["eventType"] for each in told] == ["START", "COMPLETE"]
    assert told[0]["job"]["namespace"] == "shop"
