"""What jobs of routing and files were is stored as that of BullMQ's: after the rules."""

import json
from collections.abc import Sequence
from typing import Any
from unittest.mock import Mock

import pytest
from redis import Redis

from tests.files.harness import harness_on as harness_on_files
from tests.pipeline.batches import run_round
from tests.pipeline.rounds import history_at
from tests.pipeline.test_payloads import KEYS, Following, files_with, rows
from tests.routing.harness import harness_on as harness_on_routing
from waystation.cli import root as cli
from waystation.core.outcome import Done, Failed, Outcome
from waystation.core.runtime.claim import Settled
from waystation.pipeline.bronze.payload_columns import GONE
from waystation.pipeline.maintenance import erasure
from waystation.pipeline.maintenance.erasure import forget
from waystation.pipeline.payloads.rules import Action, PayloadSettings, Rule
from waystation.pipeline.runner import RunOptions, raise_stream_limits
from waystation.pipeline.sources.streams import EventOptions
from waystation.routing import Retry

TENANT = {"tenant": "$.tenant"}
LOW = "jobqueue:low_priority"


def follow(url: str) -> None:
    """Mark the streams as followed, as every round does."""
    raise_stream_limits(EventOptions(url=url))


async def route(url: str, *given: tuple[Any, Outcome | None]) -> list[str]:
    """Add jobs of routing, and end those with an outcome; their ids."""
    async with harness_on_routing(url) as harness:
        source, ids = harness.source(), list[str]()
        for payload, outcome in given:
            ids.append(await harness.add("render", payload, retry=Retry(attempts=1)))
            if outcome is not None:
                (claim,) = await harness.claim(source)
                assert not await harness.settle(source, claim, outcome)
        return ids


async def process(url: str, *given: tuple[dict[str, Any], Outcome | None]) -> None:
    """Add files as another producer may do, with members of its own, and end some."""
    async with harness_on_files(url) as harness:
        harness.set(max_retries=0)
        source = harness.source()
        for document, outcome in given:
            await harness.redis.lpush(LOW, json.dumps({"filepath": "/in/a.csv", **document}))
            if outcome is not None:
                (claim,) = (await source.settle([], claim=1)).claims
                await source.settle([Settled(claim, outcome)], claim=0)


NO = Failed(ValueError("no"))


async def test_jobs_of_routing_are_known_however_they_have_ended(
    redis_url: str, redis: Any, root: str
) -> None:
    follow(redis_url)
    intake = Following(redis_url, root, fields=TENANT)
    given = [({"tenant": str(n)}, outcome) for n, outcome in enumerate((None, Done(), NO))]
    # The first one waits, so the others are given to workers before it.
    ids = await route(redis_url, *reversed(given))
    async with harness_on_routing(redis_url) as harness:
        ids.append(await harness.add("render", {"tenant": "3"}))
        assert await harness.queue.cancel(ids[-1])
    intake.run()
    found = rows(root, "select product, queue, job_id, data, left_out from payloads")
    assert {(each["product"], each["queue"], each["left_out"]) for each in found} == {
        ("routing", "render", None)
    }
    shown = {each["job_id"]: json.loads(each["data"])["tenant"] for each in found}
    assert shown == dict(zip(ids, ("2", "1", "0", "3"), strict=True))
    values = rows(root, "select job_id, value from field_values")
    assert {each["job_id"]: each["value"] for each in values} == shown
    # The events themselves carry no payload.
    assert not rows(root, "from events where map_contains(fields, 'data')")


async def test_files_are_known_when_they_have_ended(redis_url: str, redis: Any, root: str) -> None:
    follow(redis_url)
    done, dead, waits = ({"id": name, "tenant": name} for name in ("done", "dead", "waits"))
    await process(redis_url, (done, Done()), (dead, NO), (waits, None))
    Following(redis_url, root, fields=TENANT).run()
    found = rows(root, "select product, queue, job_id, fields from payloads order by all")
    assert [(each["product"], each["queue"], each["job_id"]) for each in found] == [
        ("files", LOW, "dead"),
        ("files", LOW, "done"),
    ]
    assert [dict(each["fields"]) for each in found] == [{"tenant": "dead"}, {"tenant": "done"}]


async def test_without_a_history_nothing_is_written_to_the_streams(
    redis_url: str, redis: Any, store: Redis, root: str
) -> None:
    await route(redis_url, ({"tenant": "PLANTED"}, Done()))
    await process(redis_url, ({"id": "a", "tenant": "PLANTED"}, Done()))
    streams = ("bridge:events:stream", "jobqueue:events")
    assert not [each for each in streams if "PLANTED" in repr(store.xrange(each))]
    Following(redis_url, root).run()
    left = rows(root, "select product, left_out from payloads order by product")
    assert [(each["product"], each["left_out"]) for each in left] == [
        ("files", GONE),
        ("routing", GONE),
    ]


async def test_what_is_too_large_for_a_stream_is_not_written_there(
    redis_url: str, redis: Any, store: Redis
) -> None:
    follow(redis_url)
    await route(redis_url, ({"tenant": "x" * 70_000}, Done()), ({"tenant": "y" * 9_000}, Done()))
    await process(redis_url, ({"id": "a", "tenant": "x" * 70_000}, Done()))
    streams = repr([store.xrange(each) for each in ("bridge:events:stream", "jobqueue:events")])
    assert ("x" * 1000 in streams, "y" * 9_000 in streams) == (False, True)


@pytest.mark.parametrize("keeps", [True, False])
def test_streams_are_marked_as_followed_only_where_payloads_are_kept(
    store: Redis, redis_url: str, keeps: bool
) -> None:
    raise_stream_limits(EventOptions(url=redis_url), keeps_payloads=keeps)
    marks = ("bridge:events:history", "jobqueue:history")
    assert [store.pttl(each) > 0 for each in marks] == [keeps, keeps]


ODD = [b"", b"{", b"[]", b'"x"', b"null", b"\xff", b'{"payload":NaN}', b'{"payload":"\\ud800"}']


@pytest.mark.parametrize("path", [True, False])
def test_rules_hold_for_data_that_is_no_job(
    store: Redis, redis_url: str, root: str, path: bool
) -> None:
    """Whatever is under the key of a job, or in its last event."""
    how: dict[str, Any] = {"path": "$..card"} if path else {"pattern": "P"}
    rule = Rule(action=Action.DROP, queue="render", **how)
    secret = b'{"card":"PLANTED"'
    odd = [*ODD, secret, b'{"payload":' + secret, b'{"payload":' + secret + b"},}", b"[" * 9_000]
    odd += [b'{"payload":1,"payload":' + secret + b"}}", b'["' + secret[2:]]
    added: Any = {"v": 1, "line": "routing", "queue": "render", "at": 1, "event": "added"}
    ended: Any = {**added, "event": "completed"}
    for at, raw in enumerate(odd):
        store.set(f"bridge:jobs:data:{at}", raw)
        store.xadd("bridge:events:stream", {**added, "subject": at})
        store.xadd("bridge:events:stream", {**ended, "subject": f"e{at}", "data": raw})
        store.xadd("jobqueue:events", {**ended, "line": "files", "subject": at, "data": raw})
    store.hset("bridge:jobs:data:h", "no", "job")
    store.xadd("bridge:events:stream", {**added, "subject": "h"})
    # Of an event that names no queue nobody knows which rules hold.
    store.xadd("bridge:events:stream", {**ended, "subject": "x", "queue": "", "data": "PLANTED"})
    Following(redis_url, root, rules=[rule]).run()
    assert files_with(root, "PLANTED") == []
    counts = rows(root, "select product, count(*) as n from payloads group by all order by all")
    assert [each["n"] for each in counts] == [len(odd), 2 * len(odd) + 1]


def said(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        cli.run(["pipeline", *words, "--json"])
    out, err = capsys.readouterr()
    assert not ended.value.code, err
    return [json.loads(line) for line in out.splitlines()]


RULES: Sequence[Rule] = [
    Rule(action=Action.DROP, path="$.card"),
    Rule(action=Action.HASH, path="$.mail", queue="render"),
    Rule(action=Action.ENCRYPT, path="$.note", queue=LOW),
    Rule(action=Action.DROP, path="$..card", queue="re*"),
]


@pytest.mark.slow
async def test_costs_by_field_hold_no_secret_and_are_forgotten(
    redis_url: str,
    redis: Any,
    root: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Costs are counted without gold, whose refresh is all that takes long.
    monkeypatch.setattr(erasure, "refresh_all", Mock())
    history = history_at(root)
    payloads = PayloadSettings(fields=TENANT, rules=RULES, keys=KEYS)
    options = RunOptions(events=EventOptions(url=redis_url), payloads=payloads)
    follow(redis_url)
    secrets = {"card": "PLANTED1", "mail": "ada@PLANTED2", "deep": [{"card": "PLANTED3"}]}
    ids = await route(
        redis_url,
        ({"tenant": "acme", **secrets}, Done()),
        ({"tenant": "ada lovelace", **secrets}, NO),
        ({**secrets}, Done()),
    )
    noted = {"card": "PLANTED4", "note": "PLANTED5"}
    await process(
        redis_url,
        ({"id": "f1", "tenant": "acme", **noted}, Done()),
        ({"id": "f2", "tenant": "ada lovelace", **noted}, NO),
    )
    assert not run_round(history, options).failed_checks
    assert files_with(root, "PLANTED") == []

    def jobs() -> dict[tuple[str | None, bool], int]:
        found = said(capsys, "costs", "--by", "tenant", "--history", root, "--since", "")
        return {(each["tenant"], each["known"]): each["jobs"] for each in found}

    assert jobs() == {("acme", True): 2, ("ada lovelace", True): 2, (None, True): 1}
    assert files_with(root, "lovelace")
    forget(history, ids[1], queue="render", product="routing")
    assert files_with(root, ids[1]) == []
    assert jobs() == {("acme", True): 2, ("ada lovelace", True): 1, (None, True): 1}
    forget(history, "ada lovelace", mentioned=True)
    assert files_with(root, "lovelace") == []
    assert jobs() == {("acme", True): 2, (None, True): 1}
