"""Bulk enqueue without Spark: rows sent as tasks send them, cut short wherever that can happen."""

import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest
from redis import Redis

from waystation.core.errors import InvalidInput, InvalidOption
from waystation.pipeline.options import parse
from waystation.pipeline.products import product_named
from waystation.pipeline.sources.batch_writer import BatchWriter
from waystation.pipeline.sources.jobs import (
    Jobs,
    JobSlice,
    JobsReader,
    WriteOptions,
    encoder_of,
    receipt,
)
from waystation.pipeline.sources.store import Store

ROWS = 25
CHUNK = 4


def adding(batch: str = "june") -> BatchWriter:
    return BatchWriter(encoder_of("bullmq"), "mail", "bull", batch, keep_ms=60_000)


def rows(many: int = ROWS) -> list[dict[str, Any]]:
    return [
        {"key": f"k{number}", "name": "send", "data": f'{{"n":{number}}}'} for number in range(many)
    ]


def jobs(store: Redis) -> list[str]:
    """The data of every job that waits, the oldest first."""
    ids = cast(list[bytes], store.lrange("bull:mail:wait", 0, -1))[::-1]
    return [cast(bytes, store.hget(f"bull:mail:{each.decode()}", "data")).decode() for each in ids]


def every(many: int = ROWS) -> list[str]:
    return sorted(row["data"] for row in rows(many))


class Killed(Exception):
    pass


def cut_short(after: int) -> Iterator[dict[str, Any]]:
    yield from rows()[:after]
    raise Killed


def test_one_connection_serves_any_number_of_writes(store: Redis) -> None:
    # More than a pool of connections may have.
    for row in rows(120):
        adding().add(store, [row], chunk=CHUNK)
    assert sorted(jobs(store)) == every(120)


@pytest.mark.parametrize("step", range(ROWS + 1))
def test_a_write_that_was_cut_short_and_written_again_adds_each_key_once(
    store: Redis, step: int
) -> None:
    with pytest.raises(Killed):
        adding().add(store, cut_short(step), chunk=CHUNK)

    adding().add(store, rows(), chunk=CHUNK)

    assert sorted(jobs(store)) == every()


def test_a_write_that_ended_before_it_was_closed_adds_nothing_when_written_again(
    store: Redis, redis_url: str
) -> None:
    adding().add(store, rows(), chunk=CHUNK)
    added = adding().add(store, rows(), chunk=CHUNK)
    adding().close(store, added.rows)

    assert (added.new, added.known) == (0, ROWS)
    found = receipt(redis_url, "mail", "june")
    assert found is not None
    assert (found.rows, found.jobs) == (ROWS, ROWS)


def test_a_key_counts_as_added_when_its_job_is_done_and_gone(store: Redis) -> None:
    adding().add(store, rows()[:10], chunk=CHUNK)
    for number in range(1, 6):
        store.lrem("bull:mail:wait", 1, str(number))
        store.delete(f"bull:mail:{number}")

    adding().add(store, rows(), chunk=CHUNK)

    assert sorted(jobs(store)) == sorted(row["data"] for row in rows()[5:])


def test_the_same_rows_sent_by_two_tasks_at_once_add_each_key_once(
    store: Redis, redis_url: str
) -> None:
    def task() -> None:
        with Redis.from_url(redis_url, protocol=2) as client:
            adding().add(client, rows(500), chunk=7)

    tasks = [threading.Thread(target=task) for _ in range(3)]
    for each in tasks:
        each.start()
    for each in tasks:
        each.join()

    assert sorted(jobs(store)) == every(500)


def test_a_key_that_comes_twice_in_a_batch_makes_one_job(store: Redis) -> None:
    twice = [row for row in rows() for _ in range(2)]

    added = adding().add(store, twice, chunk=CHUNK)

    assert (added.rows, added.new) == (2 * ROWS, ROWS)
    assert len(jobs(store)) == ROWS


def test_a_closed_batch_takes_nothing_more_and_its_keys_are_forgotten(store: Redis) -> None:
    adding().add(store, rows(3), chunk=CHUNK)
    adding().close(store, 3)

    added = adding().add(store, rows(), chunk=CHUNK)

    assert added.new == 0
    assert len(jobs(store)) == 3
    assert not store.exists("bull:mail:once:june:keys")
    assert store.pttl("bull:mail:once:june") > 0


def test_another_batch_adds_the_same_keys_again(store: Redis) -> None:
    adding("june").add(store, rows(3), chunk=CHUNK)
    adding("july").add(store, rows(3), chunk=CHUNK)

    assert len(jobs(store)) == 6


def test_keys_are_remembered_for_a_limited_time(store: Redis) -> None:
    adding().add(store, rows(3), chunk=CHUNK)

    assert 0 < store.pttl("bull:mail:once:june:keys") <= 60_000


def test_a_server_that_forgot_the_script_is_told_again(store: Redis) -> None:
    def forgetful() -> Iterator[dict[str, Any]]:
        for row in rows():
            store.script_flush()
            yield row

    adding().add(store, forgetful(), chunk=CHUNK)

    assert sorted(jobs(store)) == every()


def test_rows_may_ask_for_an_id_a_delay_a_priority_and_attempts(store: Redis) -> None:
    asked = [
        {"key": "a", "name": "send", "data": "{}", "job_id": "order-7"},
        {"key": "b", "name": "send", "data": None, "delay": 60_000},
        {"key": "c", "name": "send", "data": "[1]", "priority": 5, "attempts": 9},
    ]
    adding().add(store, asked, chunk=CHUNK)

    assert store.hget("bull:mail:order-7", "name") == b"send"
    assert store.zcard("bull:mail:delayed") == 1
    assert store.zcard("bull:mail:prioritized") == 1


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"name": "send"}, "the key of a row must be text"),
        ({"key": "", "name": "send"}, "the key of a row must be text"),
        ({"key": "k", "name": None}, "the row with the key 'k': a job needs a name"),
        ({"key": "k", "name": "x", "data": "{"}, "the row with the key 'k': data must be JSON"),
        ({"key": "k", "name": "x", "delay": -1}, "the row with the key 'k': delay must be"),
        ({"key": "k", "name": "x", "job_id": "7"}, "the row with the key 'k': a job id"),
    ],
)
def test_a_row_that_cannot_be_a_job_is_refused_by_its_key(
    store: Redis, row: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        adding().add(store, [row], chunk=CHUNK)

    assert jobs(store) == []


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"queue": "mail"}, "batch"),
        ({"queue": "mail", "batch": "a:b"}, "hold no colon"),
        ({"queue": "ma:il", "batch": "a"}, "a name must not hold a colon"),
        ({"queue": "mail", "batch": "a", "chunk": "5000"}, "chunk must be at most 1000"),
        ({"queue": "mail", "batch": "a", "product": "buses"}, "product must be one of bullmq"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(given: dict[str, str], wanted: str) -> None:
    with pytest.raises(InvalidOption, match=wanted):
        parse(given, WriteOptions)


@pytest.mark.parametrize("product", ["routing", "files", "waitingroom"])
def test_a_product_whose_jobs_cannot_be_read_is_refused(product: str, redis_url: str) -> None:
    source = Jobs({"queues": "mail", "url": redis_url, "product": product})
    with pytest.raises(InvalidOption, match=f"only jobs of bullmq can be read, got {product}"):
        source.reader(source.schema())


def test_a_queue_is_read_state_by_state(store: Redis, redis_url: str) -> None:
    adding().add(store, rows(1500), chunk=200)
    adding("late").add(store, [{"key": "z", "name": "late", "delay": 5000}], chunk=1)
    facts = product_named("bullmq")
    states = {state.name for state in facts.states}
    reader = JobsReader(Store(redis_url), facts, "bull", {"mail"}, states)

    found = {
        cast(JobSlice, part).state.name: list(reader.read(part)) for part in reader.partitions()
    }

    assert {state: sum(page.num_rows for page in pages) for state, pages in found.items()} == {
        "wait": 1500,
        "delayed": 1,
    }
    (late,) = found["delayed"][0].to_pylist()
    assert (late["name"], late["delay_ms"], late["job_id"]) == ("late", 5000, "1501")


def test_an_id_without_a_job_is_a_row_that_says_so(store: Redis, redis_url: str) -> None:
    store.lpush("bull:mail:wait", "ghost")
    reader = JobsReader(Store(redis_url), product_named("bullmq"), "bull", {"mail"}, {"wait"})

    (part,) = reader.partitions()
    (page,) = reader.read(part)

    (row,) = page.to_pylist()
    assert (row["job_id"], row["_corrupt"]) == ("ghost", "there is no such job")
