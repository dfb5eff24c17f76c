"""What goes wrong when the spec is taken at its word, and does not with ours.

Every test runs twice: over the spec to the letter, where it must fail, and over ours.
"""

import io
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.files.hands import hands_on
from tests.files.literal.breaker import LiteralBreaker
from tests.files.literal.schema import SETTINGS, literal_log
from tests.files.literal.systems import WORKER, Literal, Ours, System, blocked_while
from waystation.core.breaker import BreakerOptions
from waystation.core.clock import HandClock
from waystation.core.settings.section import rows
from waystation.core.telemetry import logs
from waystation.core.telemetry.metrics import Metrics
from waystation.files.fetch.plan import FetchPlanner
from waystation.files.options import Layout
from waystation.files.settings import FilesSettings

TAKEN_LITERALLY = pytest.mark.xfail(
    strict=True, raises=AssertionError, reason="the spec to the letter"
)
BOTH = [pytest.param(Literal, marks=TAKEN_LITERALLY), Ours]


def both(literal: object, ours: object) -> list[Any]:
    return [
        pytest.param(literal, marks=TAKEN_LITERALLY, id="Literal"),
        pytest.param(ours, id="Ours"),
    ]


@pytest.fixture
def layout() -> Layout | None:
    return None


@pytest.fixture(params=BOTH)
async def system(
    request: pytest.FixtureRequest, redis_url: str, layout: Layout | None
) -> AsyncIterator[System]:
    async with hands_on(redis_url, layout) as hands:
        yield request.param(hands)


async def test_a_pause_is_not_spent_in_the_hands_of_a_worker(system: System) -> None:
    """F-T7: it sleeps, holds what has failed, and lets everything else wait."""
    system.hands.set(backoff=10)
    await system.put("a")
    await system.put("b")
    await system.fetch()
    began = system.hands.clock.now_ms()
    await system.fail("a")
    assert await system.fetch() == "b"
    assert system.hands.clock.now_ms() == began


async def test_what_is_taken_back_comes_to_the_queue_it_was_put_into(system: System) -> None:
    """F-T8: the job has no field that says which; it is to be read from one all the same."""
    await system.put("a", priority="high")
    await system.fetch()
    await system.hands.redis.delete(system.hands.keys.of(WORKER).heartbeat)
    await system.reap()
    assert await system.hands.redis.llen(system.hands.keys.queues[0]) == 1


async def test_a_worker_that_is_alive_keeps_its_job(system: System) -> None:
    """F-T9: the heartbeat is written under one name and looked for under another."""
    await system.put("a")
    await system.fetch()
    assert await system.reap() == 0


@pytest.mark.parametrize("layout", [Layout(processing_list_pattern="held:%s")])
async def test_a_list_by_another_name_is_taken_back_too(system: System) -> None:
    """F-T9: the name can be set, but the pattern that is scanned for cannot."""
    await system.put("a")
    await system.fetch()
    await system.hands.redis.delete(system.hands.keys.of(WORKER).heartbeat)
    assert await system.reap() == 1


async def test_the_last_priority_does_not_starve(system: System) -> None:
    """F-T12: while there is urgent work, nothing else is ever fetched."""
    system.hands.set(weights=(8, 2))
    for number in range(20):
        await system.put(f"urgent-{number}", priority="high")
        await system.put(f"patient-{number}")
    fetched = [str(await system.fetch()) for _ in range(10)]
    assert sum(id.startswith("patient") for id in fetched) == 2


async def test_no_job_waits_for_a_queue_that_is_empty(system: System) -> None:
    """F-T12: each of the more urgent queues is waited for, up to a second."""
    await system.put("a")
    assert await blocked_while(system) == ("a", False)


async def test_the_completed_jobs_do_not_fill_the_memory(system: System) -> None:
    """F-T13: every one of them is kept for ever."""
    system.hands.set(completed_max_len=2)
    for id in "abcd":
        await system.put(id)
        await system.fetch()
        await system.complete(id)
    assert await system.hands.redis.llen(system.hands.keys.completed) == 2


async def test_what_was_set_aside_tells_why(system: System) -> None:
    """F-T13: the old text is kept, with a try too few, and nothing besides."""
    system.hands.set(max_retries=0, backoff=0)
    await system.put("a")
    await system.fetch()
    await system.fail("a")
    told = await system.dead_letter()
    assert (told["retries"], told.get("reason")) == (1, "HANDLER_ERROR")


class OneForAll:
    """A breaker for the process, whatever the label of its gauge says."""

    def __init__(self) -> None:
        self._breaker = LiteralBreaker(threshold=0.5, samples=2, cooldown=30)

    def fail(self, queue: int) -> None:
        self._breaker.record(False)

    def allows(self, queue: int) -> bool:
        return self._breaker.allow()


class OneForEach:
    def __init__(self) -> None:
        options = BreakerOptions(failure_threshold=0.5, min_samples=2)
        self._planner = FetchPlanner(
            ("high", "low"), breaker=options, weights=(), clock=HandClock()
        )

    def fail(self, queue: int) -> None:
        permit = self._planner.permit(queue + 1, self._planner.plan(1))
        assert permit
        permit.failed()

    def allows(self, queue: int) -> bool:
        breaker = self._planner.breakers[queue]
        return breaker is not None and not breaker.cooldown_left_s


@pytest.mark.parametrize("kind", both(OneForAll, OneForEach))
def test_one_queue_in_trouble_does_not_stop_the_other(
    kind: type[OneForAll] | type[OneForEach],
) -> None:
    """F-T17: the state is told for each queue, but kept for the process."""
    breaker = kind()
    for _ in range(2):
        breaker.fail(1)
    assert (breaker.allows(0), breaker.allows(1)) == (True, False)


OURS = frozenset(setting.name for setting in rows(FilesSettings))


@pytest.mark.parametrize("known", both(SETTINGS, OURS))
def test_every_number_of_the_algorithms_can_be_set(known: frozenset[str]) -> None:
    """F-T17: the reaper's numbers and the names that metrics may have are nowhere in the schema."""
    needed = {"interval", "scan_count", "budget", "base_delay"}
    assert {*(f"reaper.{name}" for name in needed), "metrics.allowed_queues"} <= known


def test_no_setting_of_the_schema_is_missing() -> None:
    """F-T17, T-1, T-2, T-3, T-4, T-5: what was added took nothing away."""
    assert SETTINGS <= OURS


def dropping_log(msg: str, **fields: Any) -> None:
    logs.get_logger("test").info(msg, **fields)


@pytest.mark.parametrize("log", both(literal_log, dropping_log))
def test_a_log_line_never_ends_the_work(log: Callable[..., None]) -> None:
    """F-T18: a helper that raises takes the worker with it, and has no key for what went wrong."""
    stream, metrics = io.StringIO(), Metrics()
    logs.configure(stream=stream, on_rejected=metrics.log_rejected_keys.of().inc)
    outcome = "done"
    try:
        log("a file is done", job_id="7", password="hunter2")
        log("a file has failed", job_id="7", error_class="ValueError")
    except ValueError:
        outcome = "failed"
    assert outcome == "done"
    assert "ValueError" in stream.getvalue()
    assert "hunter2" not in stream.getvalue()
    assert metrics.registry.get_sample_value("log_rejected_keys_total") == 1


@pytest.mark.parametrize("layout", [Layout(priorities=("now", "soon", "later"))])
async def test_priorities_may_have_any_names(system: System) -> None:
    """F-T19: the list is free, but the job's priority is `high|low`."""
    for name in ("later", "soon", "now"):
        await system.put(name, priority=name)
    assert [await system.fetch() for _ in range(3)] == ["now", "soon", "later"]


@pytest.mark.parametrize("layout", [Layout(prefix="{jobqueue}")])
async def test_one_step_stays_in_one_slot_of_a_cluster(system: System) -> None:
    """F-T19: the queue and the worker's list are under names that a cluster puts apart."""
    assert len(system.slots()) == 1
