"""Every field of every options struct is a keyword, is stored and comes back; a slip is named."""

import contextlib
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
import pytest

from waystation import bullmq, files, pipeline, routing, waitingroom
from waystation.core.errors import InvalidInput, InvalidOption

URL = "redis://127.0.0.1:1"


async def work(job: Any) -> None: ...


class Face(NamedTuple):
    """Where the fields of a struct are taken as keywords."""

    options: type[msgspec.Struct]
    keywords: type
    use: Callable[..., Any]


def add(queue: Any, **given: Any) -> None:
    # Keywords are looked at before anything is asked of the store.
    adding = queue.add("send", {}, **given)
    try:
        adding.send(None)
    finally:
        adding.close()


FACES = {
    "bullmq.Worker": Face(
        bullmq.WorkerOptions,
        bullmq.WorkerKeywords,
        partial(cast(Any, bullmq.Worker), "mail", work, URL),
    ),
    "routing.Worker": Face(
        routing.WorkerOptions,
        routing.WorkerKeywords,
        partial(cast(Any, routing.Worker), {"send": work}, URL),
    ),
    "files.Worker": Face(
        files.WorkerOptions, files.WorkerKeywords, partial(cast(Any, files.Worker), work, URL)
    ),
    "routing.Queue.add": Face(
        routing.JobOptions,
        routing.JobKeywords,
        partial(add, routing.Queue(URL)),
    ),
    "bullmq.Queue.add": Face(
        bullmq.JobOptions,
        bullmq.JobKeywords,
        partial(add, bullmq.Queue("mail", URL)),
    ),
}


@pytest.mark.parametrize("face", FACES)
def test_every_field_is_a_keyword_and_a_slip_in_one_is_told_with_the_nearest(
    face: str,
) -> None:
    options, keywords, use = FACES[face]
    fields = set(options.__struct_fields__)
    assert cast(Any, keywords).__optional_keys__ == fields
    for name in fields:
        slip = name + "q" if len(name) < 5 else name[:2] + name[3:]
        with pytest.raises(InvalidOption, match=f"no option '{slip}'; did you mean {name}[?]"):
            use(**{slip: 1})


def structs() -> dict[str, type[msgspec.Struct]]:
    """The public structs."""
    found: dict[str, type[msgspec.Struct]] = {}
    for package in (bullmq, files, pipeline, routing, waitingroom):
        for name in package.__all__:
            each = getattr(package, name)
            if isinstance(each, type) and issubclass(each, msgspec.Struct):
                found[f"{package.__name__}.{name}"] = each
    return found


@pytest.mark.parametrize("many", [1e300, 10**303, 10**400], ids=["float", "int", "long"])
@pytest.mark.parametrize("struct", structs())
def test_no_number_is_too_large_to_be_taken_or_refused(struct: str, many: float) -> None:
    for name in (options := structs()[struct]).__struct_fields__:
        with contextlib.suppress(InvalidInput, TypeError):
            # A TypeError where it lacks another field; never one about the number itself.
            options(**{name: many})


SOON = datetime(2100, 1, 1, tzinfo=UTC)

BULLMQ: dict[str, Any] = {
    "group": bullmq.Group("acme", parent="bell", cost=2.5),
    "attempts": 7,
    "backoff": bullmq.Backoff(type="fixed", delay=3),
    "delay": 60,
    "priority": 5,
    "lifo": True,
    "job_id": "mine",
    "created_at": datetime(2020, 1, 1, tzinfo=UTC),
    "remove_on_complete": 5,
    "remove_on_fail": bullmq.Keep(age=60),
    "timeout": 5,
    "expires": SOON,
    "deadline": SOON,
    "unique_for": 60,
    "stack_trace_limit": 3,
    "size_limit": 5000,
    "keep_logs": 5,
    "deduplication": bullmq.Deduplication("d"),
    "parent": None,
    "fail_parent_on_failure": True,
    "continue_parent_on_failure": True,
    "ignore_dependency_on_failure": True,
    "remove_dependency_on_failure": True,
}
"""A value for each field that is not its default; None for what needs more than a value."""

ROUTING: dict[str, Any] = {
    "target": routing.Target(capabilities=("gpu",)),
    "schedule": routing.Schedule(delay=60),
    "retry": routing.Retry(attempts=7, skip_on=("ValueError",)),
    "priority": 9,
    "depends_on": ("other",),
    "limit": routing.Limit(max_concurrent=3),
    "metadata": {"by": "me", "nothing": None},
    "job_id": "mine",
    "idempotency_key": "once",
}


async def test_every_option_of_a_job_is_stored_and_comes_back(redis_url: str) -> None:
    assert BULLMQ.keys() == set(bullmq.JobOptions.__struct_fields__)
    for name, value in BULLMQ.items():
        if value is None:
            continue
        async with bullmq.Queue(name.replace("_", "-"), redis_url) as queue:
            job = await cast(Any, queue).add("send", {}, **{name: value})
            found = await queue.get_job(job.id)
            assert found
            written = msgspec.json.decode(await _raw(queue, job.id, "opts"))
            plain = await queue.get_job((await queue.add("send", {})).id)
            assert plain
            kept = msgspec.json.decode(await _raw(queue, plain.id, "opts"))
            other = (found.id, found.created_at) if name in ("job_id", "created_at") else ()
            assert written != kept or value in other, name


async def _raw(queue: bullmq.Queue, id: str, field: str) -> bytes:
    store = await queue._connected()  # pyright: ignore[reportPrivateUsage]
    return await store.ask("HGET", f"bull:{queue.name}:{id}", field)


async def test_every_option_of_a_routed_job_is_stored_and_comes_back(redis_url: str) -> None:
    assert ROUTING.keys() == set(routing.JobOptions.__struct_fields__)
    async with routing.Queue(redis_url) as queue:
        await queue.add("send", {}, job_id="other")
        for name, value in ROUTING.items():
            job = await cast(Any, queue).add("send", {}, **{name: value})
            found = await queue.get_job(job.id)
            assert found
            if name == "idempotency_key":
                assert (await queue.add("send", {}, idempotency_key=value)).id == job.id
            else:
                assert (found.id if name == "job_id" else getattr(found, name)) == value


@pytest.mark.parametrize("queue", [bullmq.Queue("mail", URL), routing.Queue(URL), files.Queue(URL)])
@pytest.mark.parametrize(
    ("name", "meant"),
    [("get", "get_job"), ("job", "get_job"), ("get_state", "state"), ("coutns", "counts")],
)
def test_a_method_that_has_another_name_is_told(queue: Any, name: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; did you mean {meant}"):
        getattr(queue, name)
    assert not hasattr(queue, "_nothing")


def test_every_name_of_bullmq_leads_to_ours() -> None:
    """Whoever calls a queue as Node does gets an error with the call that the page for them has."""
    page = Path(__file__).parents[2] / "docs/how-to/come-from-bullmq.md"
    table = page.read_text().partition("\n## Queue\n")[2].partition("\n## ")[0]
    queue, checked = bullmq.Queue("mail", URL), 0
    for row in table.splitlines():
        theirs, _, ours = row.strip("| ").partition(" | ")
        for name in re.findall(r"`(\w*[A-Z]\w*)\(", theirs):
            with pytest.raises(AttributeError) as caught:
                getattr(queue, name)
            meant = str(caught.value).partition("did you mean ")[2].rstrip("?")
            assert f"`{meant}(" in ours, (name, meant)
            attrgetter(meant)(queue)
            checked += 1
    assert checked > 25
