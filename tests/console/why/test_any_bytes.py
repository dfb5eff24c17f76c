"""`why` and the console answer, whatever bytes another program has left anywhere in the store."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from redis import Redis

from tests.console.hands import ADMIN, Desk
from tests.console.why import rooms, situations
from tests.console.why.rooms import SITUATIONS
from tests.console.why.scene import Scene, scene_on
from tests.console.why.situations import Situation
from waystation.console.why import why
from waystation.core.errors import WaystationError

ODD = b"\xff\xfe"
"""No UTF-8, no JSON, no number."""
SHOWN = (
    situations.waits_for_a_failed_child,
    situations.job_of_a_scheduler,
    situations.retried_job,
    situations.limited_type,
    situations.dead_routing_job,
    situations.dead_file,
    rooms.visitor_in_line,
)
"""What is in stores whose pages are looked at."""
PATHS = [
    *("overview", "workers", "schedulers", "failures", "coverage", "search?q=send"),
    *("queues/bullmq/mail", "queues/routing/bridge", "queues/files/jobqueue"),
    *(f"queues/bullmq/mail/jobs?state={state}" for state in ("waiting", "failed", "delayed")),
    *(f"queues/routing/bridge/jobs?state={state}" for state in ("waiting", "dead")),
    *(f"queues/files/jobqueue/jobs?state={state}" for state in ("waiting", "failed")),
]

Command: TypeAlias = tuple[Any, ...]


@pytest.fixture
async def scene(redis_url: str, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene_on(redis_url, tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("make", SITUATIONS, ids=[each.__name__ for each in SITUATIONS])
async def test_why_answers_or_refuses(scene: Scene, redis_url: str, make: Situation) -> None:
    expected = await make(scene)
    raised: list[str] = []

    async def asked(command: Command) -> None:
        try:
            await why(scene.store, expected.subject, queue=expected.queue)
        except WaystationError:
            return
        except Exception as error:
            raised.append(f"{command}: {error!r}")

    await with_odd_bytes(redis_url, asked)
    assert not raised, "\n".join(raised)


@pytest.mark.parametrize("make", SHOWN, ids=[each.__name__ for each in SHOWN])
async def test_the_console_shows_the_rest(scene: Scene, redis_url: str, make: Situation) -> None:
    await make(scene)
    console = Desk(scene.store, ADMIN)
    failed: list[str] = []

    async def looked(command: Command) -> None:
        for path in PATHS:
            answer = await console.here.get(f"/api/v1/{path}")
            if answer.status_code >= 500:
                failed.append(f"{command}, {path}: {answer.text}")

    await with_odd_bytes(redis_url, looked)
    await console.close()
    assert not failed, "\n".join(failed)


async def with_odd_bytes(url: str, look: Callable[[Command], Awaitable[None]]) -> None:
    """Look at the store once with each kind of thing in it replaced, or one put beside it."""
    seen: set[Command] = set()
    with Redis.from_url(url, protocol=2) as client:
        store: Any = client
        for key in sorted(store.keys("*")):
            whole, left_ms = store.dump(key), max(store.pttl(key), 0)
            for command in _changes(store, key):
                # One job is as good as another.
                kind = tuple(re.sub(rb"\d+", b"0", str(word).encode()) for word in command)
                if kind not in seen:
                    seen.add(kind)
                    store.execute_command(*command)
                    await look(command)
                    store.restore(key, left_ms, whole, replace=True)


def _changes(store: Any, key: bytes) -> Iterator[Command]:
    match store.type(key):
        case b"string":
            yield "SET", key, ODD, "KEEPTTL"
        case b"hash":
            yield from (("HSET", key, field, ODD) for field in (*store.hkeys(key), ODD))
        case b"list":
            yield "LSET", key, 0, ODD
            yield "RPUSH", key, ODD
        case b"set":
            yield "SADD", key, ODD
        case b"zset":
            yield "ZADD", key, store.zrange(key, 0, 0, withscores=True)[0][1], ODD
        case b"stream":
            for _, fields in store.xrange(key):
                for name in (*fields, ODD):
                    changed = {**fields, name: ODD}
                    yield "XADD", key, "*", *(each for pair in changed.items() for each in pair)
        case _:
            return  # gone meanwhile, or empty
