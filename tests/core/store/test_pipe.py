import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from redis.asyncio import ConnectionPool, Redis
from redis.exceptions import NoScriptError, ResponseError

from tests.support.patience import LIMIT_S
from waystation.core.errors import StoreUnreachable
from waystation.core.store.connection import StoreOptions, connect
from waystation.core.store.connection.pipe import (
    Pipe,
    _Line,  # pyright: ignore[reportPrivateUsage]
)
from waystation.core.store.embedded import Ephemeral


@pytest.fixture
async def pipe(redis_url: str) -> AsyncIterator[Pipe]:
    async with await connect(redis_url) as store:
        assert isinstance(store.hot, Pipe)
        yield store.hot


@pytest.fixture
async def own_pipe(own_server: Ephemeral) -> AsyncIterator[Pipe]:
    options = StoreOptions(connect_timeout=2, call_timeout=0.5)
    async with await connect(own_server.url, options) as store:
        assert isinstance(store.hot, Pipe)
        yield store.hot


async def test_everybody_gets_their_own_answer(pipe: Pipe) -> None:
    answers = await asyncio.gather(*(pipe.execute_command("ECHO", n) for n in range(5000)))
    assert answers == [str(n).encode() for n in range(5000)]


async def test_what_is_asked_in_one_turn_leaves_in_order(pipe: Pipe) -> None:
    counts = await asyncio.gather(*(pipe.execute_command("INCR", "n") for _ in range(100)))
    assert counts == list(range(1, 101))


async def test_a_cancelled_caller_does_not_shift_the_answers(pipe: Pipe) -> None:
    await pipe.execute_command("PING")
    calls = [asyncio.create_task(pipe.execute_command("ECHO", n)) for n in range(10)]
    await asyncio.sleep(0)
    for call in calls[::2]:
        call.cancel()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert answers[1::2] == [b"1", b"3", b"5", b"7", b"9"]
    assert all(isinstance(answer, asyncio.CancelledError) for answer in answers[::2])
    assert await pipe.execute_command("ECHO", "next") == b"next"


async def test_an_error_reaches_only_the_caller_who_made_it(pipe: Pipe) -> None:
    wrong, right, unknown = await asyncio.gather(
        pipe.execute_command("NOSUCHTHING"),
        pipe.execute_command("ECHO", "right"),
        pipe.execute_command("EVALSHA", "0" * 40, 0),
        return_exceptions=True,
    )
    assert isinstance(wrong, ResponseError)
    assert right == b"right"
    assert isinstance(unknown, NoScriptError)


async def test_a_value_that_cannot_be_sent_harms_nobody(pipe: Pipe) -> None:
    with pytest.raises(TypeError):
        await pipe.execute_command("ECHO", None)
    assert await pipe.execute_command("ECHO", "fine") == b"fine"


async def test_many_big_payloads_pass(pipe: Pipe) -> None:
    big = bytes(range(256)) * 8192
    values = [big + str(n).encode() for n in range(12)]
    await asyncio.gather(
        *(pipe.execute_command("SET", f"big:{n}", value) for n, value in enumerate(values))
    )
    answers = await asyncio.gather(*(pipe.execute_command("GET", f"big:{n}") for n in range(12)))
    assert answers == values


async def test_callers_wait_when_too_many_calls_are_under_way(redis_url: str) -> None:
    async with await connect(redis_url) as store:
        pool: ConnectionPool = store.redis.connection_pool
        small = Pipe(pool.make_connection, call_timeout=5, most_pending=3)
        answers = await asyncio.gather(*(small.execute_command("ECHO", n) for n in range(50)))
        assert answers == [str(n).encode() for n in range(50)]
        await small.close()


async def test_calls_under_way_fail_when_the_server_dies_and_later_ones_reconnect(
    own_server: Ephemeral, own_pipe: Pipe
) -> None:
    await own_pipe.execute_command("PING")
    own_server.freeze()
    calls = [asyncio.create_task(own_pipe.execute_command("ECHO", n)) for n in range(3)]
    await asyncio.sleep(0.01)
    own_server.kill()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in answers] == [StoreUnreachable] * 3
    with pytest.raises(StoreUnreachable, match="cannot be reached"):
        await own_pipe.execute_command("PING")
    own_server.restart()
    assert await own_pipe.execute_command("PING") == b"PONG"


async def test_a_server_that_falls_silent_fails_every_call_that_waits(
    own_server: Ephemeral, own_pipe: Pipe
) -> None:
    await own_pipe.execute_command("PING")
    await asyncio.sleep(0.2)
    own_server.freeze()
    calls = [asyncio.create_task(own_pipe.execute_command("ECHO", n)) for n in range(3)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert all("in time" in str(answer) for answer in answers)
    own_server.thaw()
    assert await own_pipe.execute_command("ECHO", "again") == b"again"


async def test_a_late_answer_is_not_given_to_somebody_else(
    own_server: Ephemeral, own_pipe: Pipe
) -> None:
    own_server.freeze()
    with pytest.raises(StoreUnreachable):
        await own_pipe.execute_command("ECHO", "late")
    own_server.thaw()
    answers = await asyncio.gather(*(own_pipe.execute_command("ECHO", n) for n in range(5)))
    assert answers == [b"0", b"1", b"2", b"3", b"4"]


async def test_whoever_gives_up_waiting_for_a_connection_does_not_stop_the_others(
    redis_url: str,
) -> None:
    async with await connect(redis_url) as store:
        assert isinstance(store.hot, Pipe)
        first = asyncio.create_task(store.hot.execute_command("PING"))
        second = asyncio.create_task(store.hot.execute_command("ECHO", "here"))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == b"here"


async def test_a_demoted_server_is_left_for_the_one_that_leads(
    own_server: Ephemeral, own_pipe: Pipe
) -> None:
    before = await own_pipe.execute_command("CLIENT", "ID")
    await own_pipe.execute_command("REPLICAOF", "127.0.0.1", "1")
    with pytest.raises(ResponseError):
        await own_pipe.execute_command("SET", "a", "1")
    await asyncio.sleep(0.01)
    assert await own_pipe.execute_command("CLIENT", "ID") > before


async def test_a_closed_pipe_says_so(pipe: Pipe) -> None:
    await pipe.execute_command("PING")
    await pipe.close()
    with pytest.raises(StoreUnreachable, match="has been closed"):
        await pipe.execute_command("PING")


async def test_whoever_waits_for_room_does_not_spin_when_the_oldest_was_given_up(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = Pipe(redis.connection_pool.make_connection, call_timeout=LIMIT_S, most_pending=1)
    await pipe.execute_command("PING")
    oldest = asyncio.create_task(pipe.execute_command("BLPOP", "nothing", 0.2))
    await asyncio.sleep(0.01)
    oldest.cancel()
    looks: list[bool] = []
    full = _Line.full.fget
    assert full
    monkeypatch.setattr(_Line, "full", property(lambda line: looks.append(True) or full(line)))
    # The answer of the one that was cancelled is still to come.
    async with asyncio.timeout(LIMIT_S):
        assert await pipe.execute_command("ECHO", "here") == b"here"
    await pipe.close()
    assert len(looks) < 10


class HangingConnection:
    """A connection that never comes about."""

    async def connect(self) -> None:
        await asyncio.sleep(3600)

    async def disconnect(self, nowait: bool = False) -> None: ...


async def test_nobody_who_gave_up_leaves_a_connection_that_is_being_opened() -> None:
    pipe = Pipe(lambda: cast(Any, HangingConnection()), call_timeout=LIMIT_S)
    before = asyncio.all_tasks()
    waiting = [asyncio.create_task(pipe.execute_command("PING")) for _ in range(3)]
    for each in waiting:
        await asyncio.sleep(0)
        # Those who go on waiting keep it.
        assert len(asyncio.all_tasks() - before - set(waiting)) == 1
        each.cancel()
    await asyncio.wait(waiting)
    await asyncio.sleep(0.01)
    assert asyncio.all_tasks() == before


async def test_whoever_tries_again_after_giving_up_is_not_cancelled() -> None:
    pipe = Pipe(lambda: cast(Any, HangingConnection()), call_timeout=LIMIT_S)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await pipe.execute_command("PING")
    await pipe.close()


async def test_whoever_waits_for_a_pipe_that_is_closed_gets_an_error_of_the_store() -> None:
    pipe = Pipe(lambda: cast(Any, HangingConnection()), call_timeout=LIMIT_S)
    waiting = asyncio.create_task(pipe.execute_command("PING"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await pipe.close()
    with pytest.raises(StoreUnreachable, match="closed"):
        await waiting
