"""What a job was is stored when its events are, also when the queue has forgotten it."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from redis import Redis

from tests.bullmq.harness import harness_on
from tests.pipeline.batches import Batches
from waystation.bullmq import Keep
from waystation.core.outcome import Done, Failed
from waystation.core.settings.section import Secret
from waystation.pipeline.ask.engine import Engine
from waystation.pipeline.ask.selection import Selection, jobs_sql, prepare
from waystation.pipeline.bronze import ingest
from waystation.pipeline.bronze.payload_columns import GONE
from waystation.pipeline.payloads.rules import Action, PayloadSettings, Rule, Sealer
from waystation.pipeline.product_keys import streams_of
from waystation.pipeline.runner import mark_followed, raise_stream_limits
from waystation.pipeline.sources.store import Store
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage.arrow import pq

KEYS = Secret("k1=" + base64.b64encode(bytes(range(32))).decode())


class Following:
    """Reads streams into the tables of a history, round after round."""

    def __init__(self, url: str, root: str, **settings: Any) -> None:
        self._intake = Batches(root, EventOptions(url=url), PayloadSettings(**settings))

    def run(self) -> None:
        """Store what the streams hold now."""
        self._intake.store()


def rows(root: str, query: str) -> list[dict[str, Any]]:
    with Engine(root, threads=1) as engine:
        engine.add_tables()
        found = engine.ask(query)
    return [dict(zip(found.names, row, strict=True)) for row in found.rows]


def files_with(root: str, word: str) -> list[str]:
    """The files that hold a word, as they lie there or unpacked."""
    return [
        str(file)
        for file in Path(root).rglob("*")
        if file.is_file()
        and (
            word.encode() in file.read_bytes()
            or (file.suffix == ".parquet" and word in repr(pq.read_table(file).to_pylist()))
        )
    ]


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "history")


async def test_jobs_are_read_when_they_are_added_and_when_they_have_ended(
    redis_url: str, redis: Any, place: str
) -> None:
    intake = Following(redis_url, place, fields={"tenant": "$.tenant", "order": "$.order.id"})
    async with harness_on(redis_url) as harness:
        data = {"tenant": "acme", "order": {"id": 7}}
        first = await harness.add(data, name="charge", priority=3, attempts=1)
        intake.run()
        claim = await harness.claim_one()
        await harness.redis.rpush(f"{harness.keys.base}{first}:logs", "began", "ended")
        await harness.end(claim, Done({"ok": True}))
        second = await harness.add({"tenant": "zeta"}, attempts=1)
        await harness.end(await harness.claim_one(), Failed(ValueError("no such plan")))
        intake.run()
        found = rows(place, "from payloads order by job_id, read_at")
        assert [(each["job_id"], each["ended"]) for each in found][:2] == [
            (first, False),
            (first, True),
        ]
        born, ended = found[:2]
        assert msgspec.json.decode(born["data"]) == data
        assert (born["name"], born["priority"], born["left_out"]) == ("charge", 3, None)
        assert dict(born["fields"]) == {"tenant": "acme", "order": "7"}
        assert msgspec.json.decode(ended["result"]) == {"ok": True}
        assert ended["logs"] == ["began", "ended"]
        assert {each["job_id"] for each in found} == {first, second}
        values = rows(place, "select distinct field, value from field_values order by all")
        assert [tuple(each.values()) for each in values] == [
            ("order", "7"),
            ("tenant", "acme"),
            ("tenant", "zeta"),
        ]


@pytest.mark.parametrize("keep", [True, Keep(count=1)], ids=["at once", "by count"])
async def test_nothing_is_lost_when_jobs_are_removed_before_they_are_read(
    redis_url: str, redis: Any, place: str, store: Redis, keep: Any
) -> None:
    intake = Following(redis_url, place)
    async with harness_on(redis_url) as harness:
        await harness.add()
        # Marked before the jobs are added, as `run` does.
        mark_followed(Store(redis_url), {harness.keys.meta: 0})
        for number in range(3):
            await harness.add(
                {"n": number}, remove_on_complete=keep, remove_on_fail=keep, attempts=1
            )
        for outcome in (Done(0), Done(1), Failed(ValueError("no")), Done(3)):
            claim = await harness.claim_one()
            await harness.redis.rpush(f"{harness.keys.base}{claim.id}:logs", f"line of {claim.id}")
            await harness.end(claim, outcome)
        intake.run()
        found = rows(place, "select * from payloads where ended order by job_id::int")
        assert [each["left_out"] for each in found] == [None] * 4
        assert [each["data"] for each in found][1:] == ['{"n":0}', '{"n":1}', '{"n":2}']
        assert [each["logs"] for each in found] == [[f"line of {n}"] for n in range(1, 5)]
        assert found[1]["result"] == "1"
        assert found[2]["reason"] == "no"
        # The events themselves carry no payload.
        kept = rows(place, "select fields from events where event = 'kept'")
        assert kept
        assert all(not each["fields"] for each in kept)


async def test_what_the_history_has_read_is_not_written_to_the_stream_again(
    redis_url: str, redis: Any, place: str, store: Redis
) -> None:
    async with harness_on(redis_url) as harness:
        for _ in range(3):
            await harness.add(remove_on_complete=Keep(count=1))
        later = harness.clock.now_ms() + 1000
        mark_followed(Store(redis_url), {harness.keys.meta: later})
        for _ in range(3):
            await harness.end(await harness.claim_one(), Done(None))
        assert b"kept" not in _events(store)
        # Nor where nobody follows any more.
        store.hset(harness.keys.meta, "history", "0:1")
        await harness.add(remove_on_complete=True)
        await harness.end(await harness.claim_one(), Done(None))
        assert b"kept" not in _events(store)


def _events(store: Redis) -> set[bytes]:
    found = cast(Any, store.xrange("bull:mail:events"))
    return {fields[b"event"] for _, fields in found}


def test_what_could_not_be_had_is_said(store: Redis, redis_url: str, place: str) -> None:
    stream = "bull:mail:events"
    store.xadd(stream, {"event": "added", "jobId": "1", "name": "send"})
    store.xadd(stream, {"event": "completed", "jobId": "1", "returnvalue": '"r"'})
    store.xadd(stream, {"event": "added", "jobId": "2", "name": "send"})
    store.hset("bull:mail:2", mapping={"name": "send", "data": "x" * 5000, "opts": "no json"})
    store.xadd(stream, {"event": "added", "jobId": "3", "name": "send"})
    store.set("bull:mail:3", "no job at all")
    Following(redis_url, place, limit=1024).run()
    found = rows(place, "from payloads order by job_id")
    assert [each["left_out"] for each in found][::2] == [GONE, GONE]
    assert (found[0]["name"], found[0]["result"]) == ("send", '"r"')
    assert found[1]["left_out"].startswith("data has 5000 bytes, sha256 ")
    assert (found[1]["data"], found[1]["bytes"]) == (None, 5000)


def intake_reads(url: str, root: str, settings: PayloadSettings) -> None:
    Batches(root, EventOptions(url=url), settings).store()


@pytest.fixture(params=["this process", "Spark"])
def read(request: pytest.FixtureRequest) -> Callable[[str, str, PayloadSettings], None]:
    """Stores what the streams hold, in both ways."""
    if request.param == "this process":
        return intake_reads
    spark = request.getfixturevalue("spark")

    def spark_reads(url: str, root: str, settings: PayloadSettings) -> None:
        done = ingest.start(spark, root, url=url, payloads=settings).finish()
        with Redis.from_url(url) as client:
            assert done == client.xlen("bull:mail:events")

    return spark_reads


@pytest.mark.slow
def test_rules_are_applied_before_anything_is_written(
    store: Redis,
    redis_url: str,
    place: str,
    read: Callable[[str, str, PayloadSettings], None],
) -> None:
    rules = [
        Rule(action=Action.DROP, path="$.card"),
        Rule(action=Action.HASH, path="$.mail"),
        Rule(action=Action.ENCRYPT, path="$.note", queue="mail"),
        Rule(action=Action.DROP, pattern="PLANTED[0-9]+"),
    ]
    data = {"card": "PLANTED1", "mail": "ada@PLANTED2", "note": "for PLANTED3 alone", "n": 1}
    text = msgspec.json.encode(data).decode()
    stream = "bull:mail:events"
    store.xadd(stream, {"event": "added", "jobId": "1", "name": "send"})
    job = {"name": "send", "data": text, "opts": '{"a":"PLANTED4"}', "returnvalue": text}
    more = {"failedReason": "bad PLANTED5", "stacktrace": '["at PLANTED6"]', "progress": text}
    store.hset("bull:mail:1", mapping={**job, **more})
    store.rpush("bull:mail:1:logs", "saw PLANTED7")
    store.xadd(stream, {"event": "progress", "jobId": "1", "data": text})
    store.xadd(stream, {"event": "retry", "jobId": "1", "failedReason": "bad PLANTED8"})
    store.xadd(stream, {"event": "completed", "jobId": "1", "returnvalue": text})
    # A job that is gone, and left this.
    kept = {**job, "logs": '["saw PLANTED9"]'}
    store.xadd(stream, {"event": "kept", "jobId": "2", **kept})
    store.xadd(stream, {"event": "completed", "jobId": "2", "returnvalue": text})
    fields = {"card": "$.card", "n": "$.n"}
    read(redis_url, place, PayloadSettings(rules=rules, keys=KEYS, fields=fields))
    assert files_with(place, "PLANTED") == []
    values = rows(place, "select job_id, field, value from field_values order by all")
    assert [tuple(each.values()) for each in values] == [("1", "n", "1"), ("2", "n", "1")]
    found = rows(place, "from payloads order by job_id")
    assert [each["job_id"] for each in found] == ["1", "2"]
    for each in found:
        stored = msgspec.json.decode(each["data"])
        assert stored.keys() == {"mail", "note", "n"}
        assert stored["mail"] == Sealer(KEYS).hashed(data["mail"])
        note = msgspec.json.encode(stored["note"]).decode()
        # The pattern comes after the rule that encrypts.
        assert msgspec.json.decode(Sealer(KEYS).opened(note)) == data["note"]
        assert each["left_out"] == "data: changed by a rule; options: changed by a rule"


SECRETS = Rule(action=Action.DROP, pattern="PLANTED")


def test_whatever_a_job_is_added_with_says_when_a_rule_has_changed_it(
    store: Redis, redis_url: str, place: str
) -> None:
    plain = {"name": "send", "data": '{"n":1}', "opts": '{"a":1}', "returnvalue": '"PLANTED"'}
    odd = {"name": "a PLANTED", "data": '{"n":"PLANTED"}', "opts": '{"a":["PLANTED"]}'}
    # An escape may hide the word, so nothing is kept of what is no JSON.
    jobs = [plain, *({**plain, name: odd[name]} for name in odd), {**plain, "opts": '{"a\\"'}]
    for number, job in enumerate(jobs):
        store.xadd("bull:mail:events", {"event": "kept", "jobId": str(number), **job})
    intake_reads(redis_url, place, PayloadSettings(rules=[SECRETS]))
    found = rows(place, "select form, left_out from payloads order by job_id")
    assert [each["form"] for each in found] == ["plain", *("changed" for _ in jobs[1:])]
    assert [(each["left_out"] or "").partition(":")[0] for each in found] == [
        *("", "name", "data", "options", "options")
    ]


RESULT = msgspec.json.encode({"card": "PLANTED", "long": "x" * 2000}).decode()


def plant(store: Redis) -> None:
    """Write a word into everything of a job that a user can fill, in all products."""
    said = {"name": "a PLANTED", "failedReason": "PLANTED", "deduplicationId": "PLANTED"}
    own = {
        "note": "PLANTED",
        "json": '{"a":"\\u0050LANTED"}',
        "odd": '{"a":NaN,"b":"\\u0050LANTED"}',
    }
    options = '{"group":{"id":"PLANTED"},"deduplication":{"id":"PLANTED"},"jobId":"PLANTED"}'
    job = {
        **dict.fromkeys(("parentKey", "deid", "rjk", "failedReason", "name"), "PLANTED"),
        "data": RESULT,
        "opts": options,
        "returnvalue": RESULT,
        "progress": RESULT,
        "stacktrace": '["\\u0050LANTED"]',
    }
    stream = "bull:mail:events"
    store.xadd(stream, {"event": "added", "jobId": "1", **said, **own})
    store.hset("bull:mail:1", mapping=cast(Any, job))
    store.rpush("bull:mail:1:logs", "PLANTED")
    store.xadd(stream, {"event": "progress", "jobId": "1", "data": RESULT})
    store.xadd(stream, {"event": "completed", "jobId": "1", "returnvalue": RESULT, **said})
    store.xadd(stream, {"event": "kept", "jobId": "2", **job})
    for line in ("routing", "files", "waitingroom"):
        names = streams_of(line)
        fields = {"reason": "PLANTED", "path": "/in/PLANTED.csv", "key": "PLANTED", **own}
        shared = {"v": "1", "line": line, "queue": "mail", "subject": "1"}
        store.xadd(names.key(names.prefix, "mail"), {**shared, "event": "failed", **fields})


@pytest.mark.parametrize("keep", [True, False])
def test_no_column_of_any_product_is_beside_the_rules(
    store: Redis, redis_url: str, place: str, keep: bool
) -> None:
    plant(store)
    Following(redis_url, place, keep=keep, rules=[SECRETS]).run()
    assert files_with(place, "PLANTED") == []
    lines = rows(place, "select distinct product from events order by product")
    assert [each["product"] for each in lines] == ["bullmq", "files", "routing", "waitingroom"]


@pytest.mark.parametrize("settings", [{"keep": False}, {"limit": 1024}], ids=str)
def test_results_are_in_payloads_alone(
    store: Redis, redis_url: str, place: str, settings: dict[str, Any]
) -> None:
    for event, field in (("completed", "returnvalue"), ("progress", "data")):
        store.xadd("bull:mail:events", {"event": event, "jobId": "1", field: RESULT})
    store.hset("bull:mail:1", mapping={"name": "send", "data": RESULT, "returnvalue": RESULT})
    Following(redis_url, place, **settings).run()
    assert files_with(place, "PLANTED") == []


def test_a_round_that_is_started_again_adds_nothing(
    store: Redis, redis_url: str, place: str
) -> None:
    for number in range(5):
        store.xadd("bull:mail:events", {"event": "added", "jobId": str(number), "name": "send"})
        store.hset(f"bull:mail:{number}", mapping={"name": "send", "data": "{}"})
    first, again = Following(redis_url, place), Following(redis_url, place)
    first.run()
    again.run()
    assert rows(place, "select count(*) as n from payloads") == [{"n": 5}]
    assert rows(place, "select count(*) as n from events") == [{"n": 5}]


def test_without_payloads_nothing_is_read_from_the_queues(
    store: Redis, redis_url: str, place: str
) -> None:
    store.xadd("bull:mail:events", {"event": "added", "jobId": "1", "name": "send"})
    store.hset("bull:mail:1", mapping={"name": "send", "data": "{}"})
    # What another history let a removed job leave is not taken either.
    store.xadd("bull:mail:events", {"event": "kept", "jobId": "2", "data": "PLANTED"})
    Following(redis_url, place, keep=False).run()
    assert rows(place, "select count(*) as n from payloads") == [{"n": 0}]
    assert files_with(place, "PLANTED") == []


@pytest.mark.parametrize("keeps", [True, False])
def test_queues_are_marked_as_followed_only_where_payloads_are_kept(
    store: Redis, redis_url: str, keeps: bool
) -> None:
    store.xadd("bull:mail:events", {"event": "added", "jobId": "1", "name": "send"})
    raise_stream_limits(EventOptions(url=redis_url), keeps_payloads=keeps)
    assert bool(store.hexists("bull:mail:meta", "history")) is keeps


def test_a_found_job_shows_what_was_read_of_it(store: Redis, redis_url: str, place: str) -> None:
    store.xadd("bull:mail:events", {"event": "added", "jobId": "1", "name": "send"})
    store.hset("bull:mail:1", mapping={"name": "send", "data": '{"a":1}', "opts": "{}"})
    Following(redis_url, place).run()
    selection = Selection(ids=["1"])
    with Engine(place) as engine:
        prepare(engine, selection)
        # Not folded yet, so there is no item.
        assert engine.ask(jobs_sql(selection)).rows == []
