"""The names of `waystation.sync` are those of `waystation.bullmq`."""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from waystation import bullmq, sync

PAIRS = ["Queue", "FlowProducer", "QueueEvents", "Schedulers", "Limits", "DeadLetters", "Job"]


def methods(kind: type) -> Iterator[tuple[str, Any]]:
    for name in dir(kind):
        found = inspect.getattr_static(kind, name)
        if not name.startswith("_") and inspect.isfunction(found):
            yield name, found


@pytest.mark.parametrize("name", PAIRS)
def test_a_method_takes_what_its_twin_takes(name: str) -> None:
    ours, theirs = getattr(sync, name), getattr(bullmq, name)
    twins = dict(methods(theirs))
    for method, function in methods(ours):
        if method == "close":
            continue
        wanted = inspect.signature(twins[method]).parameters
        for each in inspect.signature(function).parameters.values():
            twin = wanted[each.name]
            assert (each.kind, each.default) == (twin.kind, twin.default), f"{method}({each.name})"


def test_every_method_of_a_queue_can_be_called(redis_url: str) -> None:
    with sync.Queue("mail", redis_url) as queue:
        missing = [name for name, _ in methods(bullmq.Queue) if not hasattr(queue, name)]
        assert missing == []
        with pytest.raises(AttributeError, match="no attribute 'ad'"):
            queue.ad  # type: ignore[attr-defined] # noqa: B018 # pyright: ignore


@pytest.mark.parametrize("name", ["FlowProducer", "Schedulers", "Limits", "DeadLetters"])
def test_every_method_has_a_twin(name: str) -> None:
    ours, theirs = dict(methods(getattr(sync, name))), dict(methods(getattr(bullmq, name)))
    assert sorted(theirs.keys() - ours.keys()) == []


def test_a_method_that_only_the_loop_declares_runs_here_too(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def newest(self: bullmq.Queue, state: Any) -> list[str]:
        return [job.id for job in await self.get_jobs(state, newest_first=True)]

    monkeypatch.setattr(bullmq.Queue, "newest", newest, raising=False)
    with sync.Queue("mail", redis_url) as queue:
        queue.add_many([("send", {}), ("send", {})])
        assert queue.newest("waiting") == ["2", "1"]  # type: ignore[attr-defined] # pyright: ignore
