"""The names of `waystation.sync` are those of `waystation.bullmq`."""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from tools.python import is_internal
from waystation import bullmq, sync
from waystation.tasks import BlockingTask, Task
from waystation.testing import Sandbox, SyncSandbox

NAMES = [
    "Queue",
    "FlowProducer",
    "QueueEvents",
    "Schedulers",
    "Limits",
    "DeadLetters",
    "Groups",
    "Job",
]
TWINS = [
    *((getattr(sync, name), getattr(bullmq, name)) for name in NAMES),
    (SyncSandbox, Sandbox),
    (BlockingTask, Task),
]


def methods(kind: type) -> Iterator[tuple[str, Any]]:
    for name in dir(kind):
        found = inspect.getattr_static(kind, name)
        if not name.startswith("_") and inspect.isfunction(found) and not is_internal(found):
            yield name, found


@pytest.mark.parametrize(("ours", "theirs"), TWINS)
def test_a_method_takes_what_its_twin_takes(ours: type, theirs: type) -> None:
    twins = dict(methods(theirs))
    for method, function in methods(ours):
        if method == "close":
            continue
        wanted = inspect.signature(twins[method]).parameters
        for each in inspect.signature(function).parameters.values():
            twin = wanted[each.name]
            assert (each.kind, each.default) == (twin.kind, twin.default), f"{method}({each.name})"


@pytest.mark.parametrize(("ours", "theirs"), TWINS)
def test_every_method_has_a_twin(ours: type, theirs: type) -> None:
    wanted = {
        name
        for name, method in methods(theirs)
        # What needs no store of a task is the same for both.
        if theirs is not Task or inspect.iscoroutinefunction(method)
    }
    assert sorted(wanted - dict(methods(ours)).keys()) == []


async def test_a_queue_has_the_same_parts_in_both(redis_url: str) -> None:
    async with bullmq.Queue("mail", redis_url) as queue:
        with sync.Queue("mail", redis_url) as twin:
            wanted, found = ({n for n in vars(each) if n[0] != "_"} for each in (queue, twin))
            assert sorted(wanted - found) == []
