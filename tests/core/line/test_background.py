"""A worker in the background: started, given work, ended, and begun again where it failed."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator
from typing import Any

import anyio
import pytest

from tests.support.patience import LIMIT_S, until
from tests.support.ports import free_port
from waystation.core.errors import StoreUnreachable, StoreUnsuitable, WorkError
from waystation.core.line import background
from waystation.core.line.background import BackgroundWorker, WorkerRuntime
from waystation.core.runtime.handlers import handler_of
from waystation.core.runtime.worker import Worker, WorkerOptions
from waystation.core.store import embedded
from waystation.core.store.connection import Store, connect
from waystation.core.store.embedded import Ephemeral
from waystation.testing.memory import MemorySource


class Presence:
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.failure: Exception | None = None
        self.opening = asyncio.Event()

    async def open(self) -> None:
        self.calls.append("open")
        self.opening.set()
        await asyncio.sleep(0)
        if self.failure:
            raise self.failure

    async def close(self) -> None:
        self.calls.append("close")


class LineWorker(BackgroundWorker[Any]):
    def __init__(self, url: str | Store) -> None:
        super().__init__(url)
        self.source = MemorySource()
        self.presence = Presence()
        self.begun = asyncio.Event()
        self.went_on: list[str] = []
        self.breaks: Exception | None = None

    def _runtime_at(self, store: Store) -> WorkerRuntime[Any]:
        handler = handler_of(self._handle)
        worker = Worker(self.source, handler, WorkerOptions(concurrency=5, poll=0.05))
        return WorkerRuntime(worker, self.presence, background=[self._go_on])

    async def _handle(self, work: str) -> str:
        self.begun.set()
        if work == "long":
            await asyncio.sleep(3600)
        if work == "slow":
            await asyncio.sleep(0.1)
        return work

    async def _go_on(self) -> None:
        self.went_on.append("begins")
        if self.breaks:
            raise self.breaks
        try:
            await asyncio.sleep(3600)
        finally:
            self.went_on.append("ends")

    @property
    def store_at_the_end(self) -> Store | None:
        return self._store if self._opening is None else self._opening.result()

    def states(self) -> list[str]:
        return [entry.state for entry in self.source.entries.values()]


@contextlib.asynccontextmanager
async def running(
    worker: LineWorker, *work: str, **options: Any
) -> AsyncGenerator[asyncio.Task[None]]:
    """Run a worker, which has begun to work on this, until the block is over."""
    task = asyncio.create_task(worker.run(**options))
    for each in work:
        worker.source.add(each)
        await worker.begun.wait()
    yield task
    worker.stop()
    await task


async def test_entering_starts_it_and_leaving_lets_it_finish(redis_url: str) -> None:
    worker = LineWorker(redis_url)
    worker.source.add("short")
    async with worker:
        assert worker.is_running
        await worker.begun.wait()

    assert worker.states() == ["completed"]
    assert worker.presence.calls == ["open", "close"]
    assert worker.went_on == ["begins", "ends"]
    assert not worker.is_running


async def test_two_who_start_it_at_once_start_it_once(redis_url: str) -> None:
    worker = LineWorker(redis_url)
    await asyncio.gather(worker.start(), worker.start())
    await worker.close()

    assert worker.presence.calls == ["open", "close"]


async def test_a_paused_one_takes_nothing_until_it_is_resumed(redis_url: str) -> None:
    async with LineWorker(redis_url) as worker:
        worker.pause()
        worker.source.add("short")
        assert worker.is_paused
        worker.resume()
        await worker.begun.wait()
        assert not worker.is_paused


async def test_single_jobs_can_be_cancelled_and_all_of_them(redis_url: str) -> None:
    async with LineWorker(redis_url) as worker:
        first = worker.source.add("long")
        await worker.begun.wait()
        assert worker.cancel_job(first)
        assert not worker.cancel_job("another")
        worker.begun.clear()
        worker.source.add("long")
        await worker.begun.wait()
        assert worker.cancel_all_jobs() == 1

    assert worker.states() == ["failed", "failed"]


async def test_stopping_ends_the_run(redis_url: str) -> None:
    worker = LineWorker(redis_url)
    async with running(worker, "short"):
        pass
    await worker.close()


async def test_cancelling_the_run_stops_it_and_lets_it_finish(redis_url: str) -> None:
    worker = LineWorker(redis_url)
    run = asyncio.create_task(worker.run())
    worker.source.add("slow")
    await worker.begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert not worker.is_running
    assert worker.states() == ["completed"]
    assert worker.presence.calls == ["open", "close"]
    assert worker.store_at_the_end is None


async def test_cancelling_the_run_of_one_that_was_started_before_leaves_it_at_work(
    redis_url: str,
) -> None:
    async with LineWorker(redis_url) as worker:
        run = asyncio.create_task(worker.run())
        await asyncio.sleep(0)
        run.cancel()
        await asyncio.wait([run])
        assert worker.is_running


async def test_one_that_is_forced_leaves_its_work_to_others(redis_url: str) -> None:
    worker = LineWorker(redis_url)
    await worker.start()
    worker.source.add("long")
    await worker.begun.wait()
    await worker.close(force=True)

    assert worker.states() == ["active"]
    assert worker.presence.calls == ["open", "close"]


async def test_two_who_close_it_at_once_both_wait_until_its_work_is_filed(redis_url: str) -> None:
    worker = LineWorker(redis_url)
    await worker.start()
    worker.source.add("slow")
    await worker.begun.wait()

    await asyncio.gather(worker.close(), worker.close())

    assert worker.states() == ["completed"]
    assert worker.presence.calls == ["open", "close"]
    assert worker.store_at_the_end is None


async def test_giving_up_on_closing_it_leaves_nothing_half_open(redis_url: str) -> None:
    worker = LineWorker(redis_url)
    worker.source.add("slow")
    with anyio.CancelScope() as scope:
        async with worker:
            await worker.begun.wait()
            # Inside of a cancelled scope every wait is cancelled, closing's as well.
            scope.cancel()

    await worker.close()
    assert worker.states() == ["completed"]
    assert worker.store_at_the_end is None
    assert not worker.is_running


async def test_one_that_is_closed_while_it_starts_ends_before_its_store_does(
    redis_url: str,
) -> None:
    worker = LineWorker(redis_url)
    worker.source.add("short")
    starting = asyncio.create_task(worker.start())
    await worker.presence.opening.wait()
    closing = asyncio.create_task(worker.close())
    await asyncio.gather(starting, closing)

    assert worker.presence.calls == ["open", "close"]
    assert not worker.is_running


async def answers_nothing(*_: object, **__: object) -> None: ...


async def test_one_that_breaks_says_so_at_once(
    redis_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = LineWorker(redis_url)
    await worker.start()
    monkeypatch.setattr(worker.source, "settle", answers_nothing)
    worker.source.add("short")
    await until(lambda: not worker.is_running)

    assert "worker_failed" in caplog.text
    with pytest.raises(AttributeError, match="has no attribute 'claims'"):
        await worker.close()


async def test_a_duty_that_breaks_is_begun_again(
    redis_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "_AGAIN_AFTER_S", 0.0)
    worker = LineWorker(redis_url)
    worker.breaks = ValueError("a job that nobody can read")
    async with worker:
        await until(lambda: worker.went_on.count("begins") >= 2)

    assert "duty_failed" in caplog.text
    assert "nobody can read" in caplog.text


async def test_one_that_has_not_started_says_so() -> None:
    worker = LineWorker("redis://127.0.0.1:1")
    for step in (worker.pause, worker.resume):
        with pytest.raises(WorkError, match="has not been started"):
            step()
    assert not worker.is_paused
    assert (worker.cancel_job("1"), worker.cancel_all_jobs()) == (False, 0)


async def test_a_start_that_failed_leaves_nothing_open_and_can_be_tried_again(
    redis_url: str,
) -> None:
    worker = LineWorker(redis_url)
    worker.presence.failure = StoreUnreachable("away")
    with pytest.raises(StoreUnreachable, match="away"):
        await worker.start()
    assert worker.presence.calls == ["open", "close"]
    assert not worker.is_running

    worker.presence.failure = None
    async with worker:
        assert worker.is_running


async def test_a_server_that_throws_work_away_is_refused(own_server: Ephemeral) -> None:
    async with await connect(own_server.url) as store:
        await store.redis.config_set("maxmemory-policy", "allkeys-lru")
    worker = LineWorker(own_server.url)

    with pytest.raises(StoreUnsuitable, match="noeviction"):
        await worker.start()
    assert "open" not in worker.presence.calls


async def loading(server: Ephemeral) -> None:
    async with asyncio.timeout(LIMIT_S):
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(b"PING\r\n")
                answer = await reader.readline()
                writer.close()
                await writer.wait_closed()
                if answer.startswith(b"-LOADING"):
                    return
            await asyncio.sleep(0.005)


async def test_one_that_starts_before_its_store_waits_for_it(
    own_server: Ephemeral, caplog: pytest.LogCaptureFixture
) -> None:
    own_server.kill()
    worker = LineWorker(own_server.url)
    async with running(worker):
        await until(lambda: "store_unreachable" in caplog.text)
        [away] = [each for each in caplog.records if "store_unreachable" in each.getMessage()]
        assert 0 < vars(away)["limit_ms"] <= 300_000
        assert vars(away)["hint"] == (
            "it is tried again; start it, or name another in WAYSTATION_STORE__URL"
        )
        await asyncio.to_thread(own_server.restart)
        worker.source.add("short")
        await worker.begun.wait()

    assert worker.states() == ["completed"]
    assert worker.presence.calls == ["open", "close"]
    assert caplog.text.count("store_unreachable") == caplog.text.count("store_back") == 1


async def test_one_that_starts_while_its_store_is_loading_waits_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    slow = {"key-load-delay": "500", "loading-process-events-interval-bytes": "1024"}
    with embedded.ephemeral(slow) as server:
        async with await connect(server.url) as store:
            await store.redis.mset({f"key-{number}": number for number in range(4000)})
            await store.redis.save()
        server.kill()
        restarting = asyncio.create_task(asyncio.to_thread(server.restart))
        await loading(server)
        worker = LineWorker(server.url)
        async with running(worker):
            await until(lambda: "error_code=STORE_BUSY" in caplog.text)
            worker.source.add("short")
            await worker.begun.wait()
        await restarting

    assert worker.states() == ["completed"]


async def test_a_store_that_stays_away_is_an_error_that_names_it() -> None:
    worker = LineWorker(f"redis://127.0.0.1:{free_port()}")
    with pytest.raises(StoreUnreachable, match=r"no store answers at redis://127\.0\.0\.1"):
        await worker.run(wait_s=0.1)


async def test_one_that_waits_for_its_store_can_be_stopped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    worker = LineWorker(f"redis://127.0.0.1:{free_port()}")
    async with running(worker):
        await until(lambda: "store_unreachable" in caplog.text)
    assert not worker.is_running


async def test_a_signal_stops_the_run_and_the_handlers_of_before_are_back(
    redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    first, second = LineWorker(redis_url), LineWorker(redis_url)
    for worker in (first, second):
        worker.source.add("slow")
    runs = [asyncio.create_task(worker.run()) for worker in (first, second)]
    for worker in (first, second):
        await worker.begun.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.gather(*runs)

    assert first.states() == second.states() == ["completed"]
    records = {each.getMessage().split()[0]: vars(each) for each in caplog.records}
    assert records["stop_requested"]["hint"] == "a second signal ends the process at once"
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


async def test_a_handler_of_the_program_is_left_alone(redis_url: str) -> None:
    got: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: got.append(number))
    try:
        worker = LineWorker(redis_url)
        async with running(worker, "short"):
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0.05)
            assert got == [signal.SIGTERM]
            assert worker.is_running
    finally:
        signal.signal(signal.SIGTERM, before)


async def test_signals_can_be_left_to_the_program(redis_url: str) -> None:
    async with running(LineWorker(redis_url), "short", signals=False):
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


async def test_outside_of_the_main_thread_it_runs_without_signals(redis_url: str) -> None:
    worker = LineWorker(redis_url)

    async def run() -> None:
        async with running(worker, "short"):
            pass

    await asyncio.to_thread(asyncio.run, run())
    assert worker.states() == ["completed"]
