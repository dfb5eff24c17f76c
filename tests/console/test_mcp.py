"""`waystation mcp`: what an assistant can ask and do, with the official client over stdio."""

import asyncio
import os
import random
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import TextContent

from tests.pipeline.ask import lakes
from tests.support.patience import LIMIT_S
from waystation.bullmq import JobFailed, Queue, Worker
from waystation.console.assistants import TOOLS
from waystation.console.past import sql
from waystation.console.past.history import AT_ONCE, History
from waystation.core.errors import HistoryError, InvalidInput
from waystation.core.operators.operators import Role
from waystation.core.store.embedded import Ephemeral

LOOKING = {each.name for each in TOOLS if each.role is Role.VIEWER}
ACTING = {"retry", "promote", "remove"}
MAIL = {"product": "bullmq", "queue": "mail"}


class Assistant:
    """Somebody who calls tools."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def tools(self) -> dict[str, Any]:
        """The tools that are offered, by name."""
        return {each.name: each for each in (await self._client.list_tools()).tools}

    async def ask(self, tool: str, **arguments: Any) -> Any:
        """What a tool answers."""
        text, failed = await self._call(tool, arguments)
        assert not failed, text
        return msgspec.json.decode(text)

    async def refused(self, tool: str, **arguments: Any) -> str:
        """Why a tool does not do what it is asked."""
        text, failed = await self._call(tool, arguments)
        assert failed, text
        return text

    async def _call(self, tool: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        result = await self._client.call_tool(tool, arguments)
        [content] = result.content
        assert isinstance(content, TextContent)
        return content.text, bool(result.is_error)


@asynccontextmanager
async def assistant(directory: Path, url: str, *args: str) -> AsyncGenerator[Assistant]:
    """An assistant whose configuration starts `waystation mcp`."""
    clean = {name: value for name, value in os.environ.items() if "WAYSTATION" not in name}
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "waystation", "mcp", *args],
        env=clean | {"WAYSTATION_STORE__URL": url, "WAYSTATION_PIPELINE__HISTORY": "history"},
        cwd=directory,
    )
    with (directory / "stderr.txt").open("w") as errors:
        async with Client(
            stdio_client(server, errlog=errors), read_timeout_seconds=LIMIT_S
        ) as client:
            yield Assistant(client)


async def _broken(queue: Queue, url: str) -> list[str]:
    """Some jobs that fail for good; returns their ids."""

    async def breaks(job: Any) -> None:
        raise ValueError(f"no printer for {job.id}")

    jobs = [await queue.add("print", {"page": page}, attempts=1) for page in range(3)]
    async with Worker(queue.name, breaks, url):
        for job in jobs:
            with pytest.raises(JobFailed, match="no printer"):
                await job.wait()
    return [job.id for job in jobs]


async def _hits(asks: Assistant, query: str) -> list[Any]:
    """What a search finds; it reads for a second or two, which may be too short on a busy day."""
    async with asyncio.timeout(LIMIT_S):
        while not (hits := (await asks.ask("search", query=query))["live"]["hits"]):
            pass
    return hits


async def test_an_assistant_looks_at_queues_jobs_and_failures_and_cannot_act(
    redis_url: str, no_strays: None, tmp_path: Path
) -> None:
    async with Queue("mail", redis_url) as queue:
        failed = await _broken(queue, redis_url)
        later = await queue.add("send", {"to": "ada@example.org"}, delay=3600)
        async with assistant(tmp_path, redis_url) as asks:
            tools = await asks.tools()
            assert set(tools) == LOOKING
            assert all(each.annotations.read_only_hint for each in tools.values())
            assert all(each.input_schema["type"] == "object" for each in tools.values())

            [row] = (await asks.ask("queues"))["queues"]
            assert (row["name"], row["failed"], row["delayed"]) == ("mail", 3, 1)
            shown = await asks.ask("queue", **MAIL)
            assert shown["counts"]["failed"] == 3
            assert shown["why"]
            page = await asks.ask("jobs", **MAIL, state="failed", limit=2)
            assert (page["total"], len(page["jobs"])) == (3, 2)
            detail = await asks.ask("job", **MAIL, id=later.id)
            assert detail["data"] == {"to": "ada@example.org"}
            assert detail["actions"] == []
            [answer] = (await asks.ask("why", subject=later.id))["answers"]
            assert "delayed until" in answer["sentence"]
            [group] = (await asks.ask("failures"))["groups"]
            assert (group["count"], group["error"]) == (3, "ValueError")
            assert set(group["examples"]) == set(failed)
            [hit] = await _hits(asks, "data.to:ada@example.org")
            assert hit["job"]["id"] == later.id

            for tool in ACTING:
                text = await asks.refused(tool, **MAIL, ids=[later.id], dry_run=False)
                assert text == f"{tool} needs `waystation mcp --role operator`; this one only looks"
            assert await queue.state(later.id) == "delayed"


async def test_what_happens_between_two_calls_is_seen(
    redis_url: str, no_strays: None, tmp_path: Path
) -> None:
    async with Queue("mail", redis_url) as queue, assistant(tmp_path, redis_url) as asks:
        assert (await asks.ask("failures"))["groups"] == []
        assert (await asks.ask("search", query="printer"))["live"]["hits"] == []
        failed = await _broken(queue, redis_url)
        assert {each["job"]["id"] for each in await _hits(asks, "printer")} == set(failed)
        async with asyncio.timeout(LIMIT_S):
            while not (groups := (await asks.ask("failures"))["groups"]):
                pass
        assert [each["count"] for each in groups] == [3]


async def test_an_operator_counts_first_then_acts_and_it_is_audited(
    redis_url: str, no_strays: None, tmp_path: Path
) -> None:
    async with Queue("mail", redis_url) as queue:
        failed = await _broken(queue, redis_url)
        later = [(await queue.add("send", delay=3600)).id for _ in range(2)]
        async with assistant(tmp_path, redis_url, "--role", "operator") as asks:
            tools = await asks.tools()
            assert set(tools) == LOOKING | ACTING
            assert not any(tools[name].annotations.read_only_hint for name in ACTING)
            assert tools["remove"].annotations.destructive_hint

            [group] = (await asks.ask("failures"))["groups"]
            counted = await asks.ask("retry", **MAIL, group=group["id"])
            assert counted == {"action": "retry", "affected": 3, "done": False}
            assert (await queue.counts("failed"))["failed"] == 3
            text = await asks.refused("retry", **MAIL, ids=failed, dry_run=False, expected=1)
            assert text == "3 are concerned by now, not 1; look again"
            done = await asks.ask(
                "retry", **MAIL, group=group["id"], dry_run=False, expected=3, reason="new ink"
            )
            assert (done["affected"], done["done"]) == (3, True)
            assert (await queue.counts("failed", "waiting")) == {"failed": 0, "waiting": 3}

            await asks.ask("promote", **MAIL, ids=later[:1], dry_run=False)
            assert await queue.state(later[0]) == "waiting"
            assert (await asks.ask("remove", **MAIL, ids=later))["done"] is False
            await asks.ask("remove", **MAIL, ids=later[1:], dry_run=False)
            assert await queue.state(later[1]) == "unknown"
            assert await asks.refused("remove", **MAIL) == "remove needs the ids of jobs"
            text = await asks.refused("retry", **MAIL, group="nonsense", dry_run=False)
            assert text.startswith("there is no failed job of this group")


@pytest.mark.slow
async def test_sql_over_the_history_only_reads_and_only_the_history(
    redis_url: str, tmp_path: Path
) -> None:
    dice = random.Random(5)
    jobs = [lakes.job(dice, number) for number in range(40)]
    lakes.keep(str(tmp_path / "history"), jobs)
    secret = tmp_path / "secret.csv"
    secret.write_text("word\nopen sesame\n")
    async with assistant(tmp_path, redis_url) as asks:
        tables = {each["name"]: each for each in (await asks.ask("tables"))["tables"]}
        assert "job_id" in tables["items"]["columns"]
        answer = await asks.ask("sql", query="select count(*) as many from items")
        assert answer == {"columns": ["many"], "rows": [[40]], "complete": True}
        answer = await asks.ask("sql", query="select job_id, added_at from items", limit=7)
        assert (len(answer["rows"]), answer["complete"]) == (7, False)
        past = (await asks.ask("search", query=f"id:{jobs[3]['job_id']}"))["past"]["jobs"]
        assert [each["id"] for each in past] == [jobs[3]["job_id"]]

        # `test_engine.py` has every other way to write or to read files.
        for writes in (f"copy (select 1) to '{tmp_path}/out.csv'", "select 1; select 2"):
            assert "the history is only read" in await asks.refused("sql", query=writes), writes
        for reads in (f"select * from read_text('{secret}')", f"select * from '{secret}'"):
            assert "sesame" not in await asks.refused("sql", query=reads)
        assert not (tmp_path / "out.csv").exists()
        assert "items" in await asks.refused("sql", query="select * from itms")
        assert "<= 1000" in await asks.refused("sql", query="select 1", limit=1001)
        assert await asks.ask("sql", query="select 1 as a")  # and still it answers


@pytest.mark.parametrize(
    "hostile",
    [
        "select count(*) from range(1000000000000) a, range(1000000) b",
        "with recursive t(n) as (select 1 union all select n + 1 from t) select count(*) from t",
        # One call of a function, which nothing inside the database interrupts.
        "select length(repeat('x', 1900000000))",
        "select list(range) from range(3000000000)",
        "select string_agg(range::varchar, repeat('x', 1000)) from range(100000000)",
    ],
)
async def test_sql_without_an_end_is_ended(tmp_path: Path, hostile: str) -> None:
    lakes.keep(str(tmp_path), [lakes.job(random.Random(5), 1)])
    with pytest.raises(InvalidInput, match=r"took too long|needs more|allocate.*ask about less"):
        await History(str(tmp_path)).sql(hostile, most=1, seconds=1)


async def test_what_is_wrong_is_said_in_a_sentence(redis_url: str, tmp_path: Path) -> None:
    async with assistant(tmp_path, redis_url) as asks:
        assert "there is no history at" in await asks.refused("sql", query="select 1")
        assert "there is no history at" in await asks.refused("tables")
        assert await asks.refused("queue", **MAIL) == "there is no such queue"
        text = await asks.refused("jobs", product="routing", queue="bridge", state="lost")
        assert text.startswith("state must be one of ")
        assert "missing required field `subject`" in await asks.refused("why")
        assert "unknown field `colour`" in await asks.refused("queues", colour="red")
        assert "there is no tool 'dance'" in await asks.refused("dance")
        assert "needs its product" in await asks.refused("failures", queue="mail")
        [answer] = (await asks.ask("why", subject="4711"))["answers"]
        assert answer["cause"] == "unknown"


async def test_a_store_that_is_away_is_an_answer_and_no_end(
    own_server: Ephemeral, tmp_path: Path
) -> None:
    own_server.kill()
    async with assistant(tmp_path, own_server.url) as asks:
        assert f"no store answers at {own_server.url}" in await asks.refused("queues")
        own_server.restart()
        assert (await asks.ask("queues"))["queues"] == []
        own_server.kill()
        for tool in ("queues", "failures"):
            assert "the store cannot be reached" in await asks.refused(tool)
        assert set(await asks.tools()) == LOOKING
        own_server.restart()
        assert (await asks.ask("queues"))["queues"] == []
    assert "Traceback" not in (tmp_path / "stderr.txt").read_text()


@pytest.mark.parametrize(
    ("program", "says"),
    [("echo oops >&2; exit 7", "ended with 7: oops"), ("kill -SEGV $$", "ended with -11")],
)
async def test_a_crash_is_told_as_one_and_not_as_a_question_that_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, says: str
) -> None:
    _replace_python(tmp_path, monkeypatch, program)
    with pytest.raises(HistoryError, match=says):
        await History(str(tmp_path)).sql("select 1", most=1, seconds=1)


async def test_sql_that_hangs_holds_up_no_other_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = tmp_path / "go on"
    waits = f"touch '{tmp_path}'/$$.begun; until [ -e '{go_on}' ]; do sleep 0.05; done; exit 7"
    _replace_python(tmp_path, monkeypatch, waits)
    history = History(str(tmp_path))
    hanging = [
        asyncio.create_task(history.sql("select 1", most=1, seconds=1)) for _ in range(AT_ONCE)
    ]
    while sum(name.endswith(".begun") for name in os.listdir(tmp_path)) < AT_ONCE:
        await asyncio.sleep(0.01)

    async with asyncio.timeout(LIMIT_S):
        assert await history.about("tables")

    assert not any(each.done() for each in hanging)
    go_on.touch()
    for each in await asyncio.gather(*hanging, return_exceptions=True):
        assert isinstance(each, HistoryError)


def _replace_python(folder: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{program}\n")
    path.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(path))


async def test_tables_that_take_for_ever_to_open_do_not_keep_the_turn_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _replace_python(tmp_path, monkeypatch, "exec sleep 3")
    monkeypatch.setattr(sql, "OPENING_S", 0.1)
    with pytest.raises(InvalidInput, match="took too long"):
        await History(str(tmp_path)).sql("select 1", most=1, seconds=0.1)
