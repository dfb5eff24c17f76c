"""Any number where other programs write one: it is read, or said to be unknown."""

import ast
import json
from collections.abc import Callable, Iterator
from contextlib import aclosing, suppress
from datetime import datetime
from typing import Any, cast

import pytest

from tests.support.project import SOURCE
from waystation import bullmq, files, routing
from waystation.bullmq.events.event import QueueEvent
from waystation.bullmq.scheduling.schedule import Scheduler
from waystation.core.errors import Malformed
from waystation.core.events import StreamEvent
from waystation.files.job import Job as FilesJob
from waystation.routing.reasons import Reason, Why

NUMBERS = [
    *(0, 1, -1, 0.5, 253_402_300_799_999, 253_402_300_800_000, -62_135_596_800_001),
    *(10**15 - 1, 10**17, 1.8e18, 2**63, 1e300, -1e300, float("inf"), float("-inf")),
]
"""The last millisecond of all years, nanoseconds, and what is no time at all."""
TEXTS = [*map(str, NUMBERS), "1e999", "9" * 5_000, "nan", "text"]
"""The same as a field, a score or a member has it."""

# --- what was read -------------------------------------------------------------------------------

JOB_FIELDS = (b"timestamp", b"delay", b"processedOn", b"finishedOn")
READ: dict[str, Callable[[Any], Any]] = {
    "bullmq/events/event.py::QueueEvent": lambda ms: QueueEvent(id="1-0", name="added", at_ms=ms),
    "bullmq/fields.py::JobFields": lambda ms: bullmq.Job(
        "1", dict.fromkeys(JOB_FIELDS, str(ms).encode()), None
    ),
    "bullmq/scheduling/schedule.py::Scheduler": lambda ms: Scheduler(
        **{"id": "s", "name": "s", "next_ms": ms, "every_ms": ms, "offset_ms": ms},
        **{"start_ms": ms, "end_ms": ms, "paused_ms": ms},
    ),
    "core/events.py::StreamEvent": lambda ms: StreamEvent(
        id="1-0", line="files", queue="q", name="added", at_ms=ms
    ),
    "files/job.py::Job": lambda ms: FilesJob(id="f", filepath="/f", creation_time=str(ms)),
    "routing/job.py::JobFields": lambda ms: routing.Job(
        "a", b'{"jobId":"a","type":"t","createdAt":%b}' % _as_json(ms)
    ),
    "routing/reasons.py::Reason": lambda ms: Reason(why=Why.DELAYED, text="", until_ms=ms),
    "routing/registry.py::WorkerInfo": lambda ms: routing.WorkerInfo(server="w", seen_ms=ms),
    "routing/results.py::DeadLetter": lambda ms: routing.DeadLetter(failed_ms=ms),
    "routing/results.py::Progress": lambda ms: routing.Progress(percent=1, updated_ms=ms),
    "routing/results.py::Result": lambda ms: routing.Result(
        success=True, completed_ms=ms, took_ms=ms
    ),
    "routing/schedules.py::ScheduledJob": lambda ms: routing.ScheduledJob(id="s", next_ms=ms),
}
OURS = ("waitingroom/", "pipeline/")
"""No other program writes the numbers of a room, or those of the tables."""


def _as_json(ms: float) -> bytes:
    # What no float holds makes a job unreadable, which its reader is told.
    return json.dumps(max(min(ms, 1e300), -1e300)).encode()


def timed() -> Iterator[tuple[str, list[str]]]:
    """The classes with times among their properties, and the names of these."""
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not place.startswith(OURS):
                names = [
                    each.name
                    for each in node.body
                    if isinstance(each, ast.FunctionDef)
                    and "property" in map(ast.unparse, each.decorator_list)
                    and each.returns
                    and any(kind in ast.unparse(each.returns) for kind in ("datetime", "timedelta"))
                ]
                if names:
                    yield f"{place}::{node.name}", names


TIMES = dict(timed())


def test_every_class_with_times_is_known() -> None:
    assert TIMES.keys() == READ.keys()


@pytest.mark.parametrize("place", READ)
def test_every_time_answers_whatever_the_number(place: str) -> None:
    for number in NUMBERS:
        for name in TIMES[place]:
            getattr(READ[place](number), name)


# --- what is stored ------------------------------------------------------------------------------


async def test_bullmq_reads_any_number(redis: Any, redis_url: str) -> None:
    base = "bull:mail:"
    async with bullmq.Queue("mail", redis_url) as queue:
        for at, text in enumerate(TEXTS):
            job = {"name": "n", "data": "{}", "opts": "{}"} | dict.fromkeys(
                [name.decode() for name in JOB_FIELDS], text
            )
            await redis.hset(f"{base}j{at}", mapping=job)
            await redis.lpush(f"{base}wait", f"j{at}")
            await redis.zadd(f"{base}repeat", {f"s{at}": _score(text)})
            record = dict.fromkeys(["ic", "every", "startDate", "endDate", "offset", "limit"], text)
            await redis.hset(f"{base}repeat:s{at}", mapping={"name": "n"} | record)
            await redis.hset(f"{base}paused-schedulers", f"p{at}", f"{text} {text} ada")
            await redis.hset(f"{base}repeat:p{at}", mapping={"name": "n"} | record)
        for scheduler in await queue.schedulers.list():
            read_all(scheduler)
        for found in await queue.get_jobs("waiting"):
            read_all(found)
        assert await queue.schedulers.count() > len(TEXTS)
        await redis.xadd(f"{base}events", {"event": "added", "jobId": "1"}, id=f"{10**15 - 1}-1")
        async with aclosing(queue.events(after="0-0")) as events:
            async for event in events:
                read_all(event)
                break
    await redis.flushdb()


async def test_routing_reads_any_number(redis: Any, redis_url: str) -> None:
    jobs = "bridge:jobs:"
    async with routing.Queue(redis_url) as queue:
        for at, text in enumerate(TEXTS):
            id, number = f"j{at}", text.replace("inf", "1e999")
            job = f'{{"jobId":"{id}","type":"t","createdAt":{number},"attempts":{number}}}'
            await redis.set(f"{jobs}data:{id}", job)
            await redis.set(f"{jobs}status:{id}", "completed")
            result = f'{{"success":true,"completedAt":{number},"processingTime":{number}}}'
            await redis.set(f"{jobs}result:{id}", result, ex=60)
            page = f'{{"percent":1,"updatedAt":{number}}}'
            await redis.set(f"{jobs}progress:{id}", page, ex=60)
            await redis.lpush(f"{jobs}deadletter", id)
            await redis.hset(f"{jobs}deadletter:meta", id, f'{{"reason":"R","at":{number}}}')
            await redis.zadd(f"{jobs}cron", {f"c{at}": _score(text)})
            await redis.zadd(f"{jobs}delayed", {f"d{at}": _score(text)})
            for name in (f"c{at}", f"d{at}"):
                await redis.set(f"{jobs}data:{name}", f'{{"jobId":"{name}","type":"t"}}')
            await redis.sadd("bridge:workers:active", f"w{at}")
            about = f'{{"serverId":"w{at}","lastSeen":{number}}}'
            await redis.set(f"bridge:workers:w{at}", about)
            await redis.hset("bridge:ratelimit:config", f"t{at}", f'{{"maxConcurrent":{number}}}')
            await redis.set(f"bridge:ratelimit:concurrent:t{at}", text)
            for name in (id, f"c{at}", f"d{at}"):
                for reason in await queue.why(name):
                    read_all(reason)
                for asked in (queue.result(name), queue.progress(name)):
                    # What is no JSON is refused with a sentence by whoever asks for it alone.
                    with suppress(Malformed):
                        read_all(await asked)
                read_all(await queue.schedules.get(name))
        for found in [
            *await queue.schedules.list(), *await queue.workers(),
            *await queue.dead_letters.list(limit=len(TEXTS)),
        ]:  # fmt: skip
            read_all(found)
        assert len(await queue.limits.running()) == len(TEXTS)
        assert await queue.schedules.count() == len(TEXTS)
        event = {"v": "1", "line": "routing", "queue": "t", "event": "added", "subject": "a"}
        await redis.xadd("bridge:events:stream", event | {"at": str(10**15 - 1)})
        async with aclosing(queue.events(after="0-0")) as events:
            async for found in events:
                read_all(found)
                break
    await redis.flushdb()


async def test_files_reads_any_number(redis: Any, redis_url: str) -> None:
    async with files.Queue(redis_url) as queue:
        keys = queue.keys
        for at, text in enumerate(TEXTS):
            number, name = text.replace("inf", "1e999"), f"w{at}"
            await redis.sadd(keys.workers, name)
            await redis.set(keys.of(name).heartbeat, f'{{"ts":{number}}}', ex=60)
            raw = f'{{"id":"f{at}","filepath":"/f","filesize":{number},"retries":{number}}}'
            await redis.lpush(keys.dead_letter, raw)
            await redis.hset(
                keys.dead_letter_meta, f"f{at}", f'{{"at":{number},"attempt":{number}}}'
            )
            await redis.xadd(keys.unmatched, {"job": raw, "lane": text})
        workers = await queue.workers()
        assert len(workers) == len(TEXTS)
        assert any(each.seen_at for each in workers)
        assert len(await queue.dead_letters.list(limit=len(TEXTS))) == len(TEXTS)
        event = {"v": "1", "line": "files", "queue": "q", "event": "added", "subject": "a"}
        await redis.xadd(keys.events, event | {"at": str(10**15 - 1)})
        async with aclosing(queue.events(after="0-0")) as events:
            async for found in events:
                assert isinstance(found.at, datetime)
                break
    await redis.flushdb()


def _score(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        return 7
    return 7 if number != number else number


def read_all(found: Any) -> None:
    """Ask for everything that it has."""
    kind = cast(Any, type(found))
    for name in dir(kind):
        if not name.startswith("_") and isinstance(getattr(kind, name, None), property):
            getattr(found, name)
