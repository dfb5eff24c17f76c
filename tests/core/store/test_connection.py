import asyncio
import time

import pytest
from redis.asyncio import Redis

from tests.support.patience import LIMIT_S
from tests.support.ports import free_port
from waystation.core.clock import HandClock
from waystation.core.errors import InvalidOption, StoreBusy, StoreUnreachable, StoreUnsuitable
from waystation.core.store import embedded, faults
from waystation.core.store.connection import Store, StoreOptions, connect
from waystation.core.store.connection.address import parse
from waystation.core.store.connection.pipe import Pipe
from waystation.core.store.embedded import Ephemeral
from waystation.core.store.reconnect import Reconnect, reconnecting

QUICK = StoreOptions(connect_timeout=0.5, call_timeout=0.5)


async def test_a_store_answers_in_bytes_under_our_name(redis_url: str) -> None:
    async with await connect(redis_url, StoreOptions(client_name="mail-worker")) as store:
        assert await store.redis.execute_command("ECHO", "hello") == b"hello"
        assert await store.redis.execute_command("CLIENT", "GETNAME") == b"mail-worker"
        assert await store.hot.execute_command("CLIENT", "GETNAME") == b"mail-worker"


async def test_the_database_of_the_url_is_the_one_used(own_server: Ephemeral) -> None:
    async with await connect(f"{own_server.socket_url}?db=3") as store:
        await store.redis.execute_command("SET", "a", "1")
        assert await store.hot.execute_command("GET", "a") == b"1"
    async with await connect(own_server.url) as store:
        assert await store.hot.execute_command("EXISTS", "a") == 0


async def test_a_closed_port_is_told_in_one_sentence() -> None:
    url = f"redis://me:hunter2@127.0.0.1:{free_port()}"
    with pytest.raises(StoreUnreachable, match=r"no store answers at redis://me:\*\*\*@") as caught:
        await connect(url)
    assert str(caught.value) == f"no store answers at {parse(url)}: connection refused"
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "Error 111 connecting to h:1. Connect call failed ('127.0.0.1', 1).",
            "connection refused",
        ),
        ("Error 111 connecting to h:1. Connection refused.", "connection refused"),
        (
            "Error Multiple exceptions: [Errno 111] Connect call failed ('::1', 1, 0, 0), "
            "[Errno 111] Connect call failed ('127.0.0.1', 1) connecting to h:1.",
            "connection refused",
        ),
        ("Error -2 connecting to h:1. Name or service not known.", "name or service not known"),
        ("Error 2 connecting to /s. No such file or directory.", "no such file or directory"),
        (
            "Error 1 connecting to h. [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed.",
            "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed",
        ),
        ("Error -3 connecting to h:1.", "Error -3 connecting to h:1."),
        ("Connection closed by server.", "Connection closed by server."),
        ("", "connection lost"),
    ],
)
def test_what_kept_us_from_connecting_is_told_without_the_address(text: str, cause: str) -> None:
    error = faults.to_waystation_error(ConnectionError(text))
    assert isinstance(error, StoreUnreachable)
    assert str(error) == f"the store cannot be reached: {cause}"


async def test_a_wrong_password_is_not_mistaken_for_an_absent_server(
    own_server: Ephemeral,
) -> None:
    async with await connect(own_server.url) as store:
        await store.redis.execute_command("CONFIG", "SET", "requirepass", "right")
    with pytest.raises(StoreUnsuitable, match="does not let us in"):
        await connect(own_server.url)
    with pytest.raises(StoreUnsuitable, match="does not let us in"):
        await connect(own_server.url.replace("//", "//:wrong@"))
    async with await connect(own_server.url.replace("//", "//:right@")) as store:
        assert await store.hot.execute_command("PING") == b"PONG"


async def test_a_server_that_does_not_answer_is_unreachable(own_server: Ephemeral) -> None:
    async with await connect(own_server.url, QUICK) as store:
        own_server.freeze()
        with pytest.raises(StoreUnreachable, match="in time"), faults.translated():
            await store.redis.execute_command("PING")


async def test_a_lost_call_is_not_repeated_behind_our_back(own_server: Ephemeral) -> None:
    async with await connect(own_server.url, QUICK) as store:
        own_server.freeze()
        call = asyncio.ensure_future(store.redis.incr("count"))
        await asyncio.sleep(1.5 * QUICK.call_timeout)
        own_server.thaw()
        with pytest.raises(StoreUnreachable), faults.translated():
            await call
        async with await connect(own_server.url) as other:
            assert await other.redis.execute_command("GET", "count") == b"1"


async def test_a_blocking_call_may_outlast_the_usual_timeout(redis_url: str) -> None:
    options = StoreOptions(call_timeout=0.1)
    async with await connect(redis_url, options) as store:
        # Held until the store is left, which closes it.
        blocking = store.blocking(1.0)
        assert await blocking.execute_command("BLPOP", "empty", 0.3) is None


async def test_callers_beyond_the_last_connection_wait_for_one(redis_url: str) -> None:
    async with await connect(redis_url, StoreOptions(max_connections=2)) as store:
        answers = await asyncio.gather(*(store.redis.echo(str(n)) for n in range(20)))
        assert answers == [str(n).encode() for n in range(20)]


async def test_a_store_comes_back_after_a_restart(own_server: Ephemeral) -> None:
    async with await connect(own_server.url) as store:
        own_server.kill()
        with pytest.raises(StoreUnreachable):
            await store.check()
        own_server.restart()
        await store.check()


async def test_a_cluster_is_reached_through_any_node(cluster_url: str) -> None:
    async with await connect(cluster_url) as store:
        assert not isinstance(store.hot, Pipe)
        await store.hot.execute_command("SET", "{a}b", "1")
        assert await store.hot.execute_command("GET", "{a}b") == b"1"


async def test_a_cluster_without_slots_is_busy_or_unreachable() -> None:
    with embedded.cluster_node() as node:
        async with await connect(node.url) as store:
            with pytest.raises(StoreBusy, match="Hash slot not served"), faults.translated():
                await store.redis.execute_command("GET", "a")
        with pytest.raises((StoreUnreachable, StoreBusy)):
            await connect(node.url.replace("redis:", "redis+cluster:"))


async def test_sentinels_lead_to_the_server_they_watch(own_server: Ephemeral) -> None:
    with embedded.sentinel("primary", of=own_server) as sentinel:
        url = f"redis+sentinel://127.0.0.1:{sentinel.port}/primary/2"
        async with await connect(url) as store:
            await store.hot.execute_command("SET", "a", "1")
            assert await store.redis.execute_command("GET", "a") == b"1"
        with pytest.raises(StoreUnreachable, match="no store answers"):
            await connect(url.replace("primary", "other"))


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ({"call_timeout": 0}, "call_timeout must be above 0 seconds, got 0"),
        ({"connect_timeout": float("inf")}, "connect_timeout must be above 0 seconds, got inf"),
        ({"max_connections": 0}, "max_connections must be at least 1, got 0"),
        ({"client_name": "a b"}, "client_name must not hold spaces, got 'a b'"),
        ({"client_name": "é\n"}, "client_name must be plain letters"),
    ],
)
def test_a_bad_option_is_refused(option: dict[str, object], complaint: str) -> None:
    with pytest.raises(InvalidOption, match=complaint):
        StoreOptions(**option)  # pyright: ignore[reportArgumentType]


class Halfway:
    """Dice that always fall in the middle."""

    def random(self) -> float:
        return 0.5


async def test_the_pauses_grow_while_the_store_is_away_and_shrink_when_it_answers() -> None:
    clock = HandClock()
    reconnect = Reconnect(clock=clock, dice=Halfway())
    pauses: list[float] = []
    for _ in range(9):
        waiting = asyncio.create_task(reconnect.pause())
        before = clock.monotonic()
        while not waiting.done():
            await clock.advance(0.001)
        pauses.append(clock.monotonic() - before)
    assert pauses[:3] == pytest.approx([0.038, 0.076, 0.151], abs=0.003)
    assert pauses[-1] == pytest.approx(2.25, abs=0.01)
    reconnect.answered()
    assert reconnect.failures == 0


async def test_a_step_is_repeated_until_the_store_answers() -> None:
    failures = iter([StoreUnreachable("away"), StoreBusy("loading")])

    async def step() -> str:
        for failure in failures:
            raise failure
        return "done"

    assert await reconnecting(step) == "done"


async def test_a_loop_that_waits_for_the_store_leaves_the_processor_alone() -> None:
    store = Store(parse(f"redis://127.0.0.1:{free_port()}"), QUICK)
    loops = [asyncio.create_task(reconnecting(store.check)) for _ in range(20)]
    started, spent = time.monotonic(), time.process_time()
    await asyncio.sleep(1.5)
    share = (time.process_time() - spent) / (time.monotonic() - started)
    for loop in loops:
        loop.cancel()
    await asyncio.gather(*loops, return_exceptions=True)
    await store.close()
    assert share < 0.2


async def test_errors_keep_their_meaning(redis: Redis) -> None:
    for reply, kind in {
        "MISCONF disk full": StoreBusy,
        "READONLY You can't write": StoreBusy,
        "NOREPLICAS too few": StoreBusy,
        "CLUSTERDOWN no": StoreBusy,
        "LOADING dataset": StoreBusy,
        "NOPERM no": StoreUnsuitable,
    }.items():
        with pytest.raises(kind), faults.translated():
            await redis.execute_command("EVAL", f'return redis.error_reply("{reply}")', 0)


async def test_a_task_ends_at_its_first_cancellation_wherever_its_call_is(redis_url: str) -> None:
    """Python 3.11 loses one that comes when redis-py has just sent its command."""
    async with await connect(redis_url) as store:

        async def ask_for_ever() -> None:
            while True:
                await store.redis.execute_command("PING")

        for turns in range(60):
            asking = asyncio.create_task(ask_for_ever())
            for _ in range(turns):
                await asyncio.sleep(0)
            asking.cancel()
            done, _ = await asyncio.wait([asking], timeout=LIMIT_S)
            assert done, f"it went on after {turns} turns of the loop"
        assert await store.redis.execute_command("PING")
