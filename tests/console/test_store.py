"""The console says what the store keeps, and which scripts were slow."""

import pytest

from tests.console.harness import ConsoleApi
from waystation.bullmq import Queue
from waystation.bullmq.redis import scripts
from waystation.console import store_facts
from waystation.console import store_facts as script_names


async def test_the_store_says_what_it_keeps_on_disk(api: ConsoleApi) -> None:
    redis = api.store.redis
    before = (await redis.config_get("save"))["save"]
    try:
        await redis.config_set("save", "")
        assert (await api.get("store"))["persistence"] == "nothing on disk"
        await redis.config_set("save", "3600 1")
        assert (await api.get("store"))["persistence"] == "snapshots"
    finally:
        await redis.config_set("save", before or "")


async def test_queues_whose_memory_is_not_measured_are_counted(
    api: ConsoleApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_facts, "MOST_QUEUES", 2)
    for name in ("a", "b", "c"):
        await Queue(name, api.store).add("send")
    reply = await api.get("store")
    assert (len(reply["queues"]), reply["left_out"]) == (2, 1)


def test_a_script_is_told_by_its_name_and_without_what_it_was_about() -> None:
    called = [b"evalsha", scripts.settle.sha.encode(), b"1", b"bull:mail:secret"]
    assert script_names.command(called) == "EVALSHA bullmq settle"
    assert script_names.command([b"EVALSHA", b"0" * 40, b"0"]) == "EVALSHA of another library"
    assert script_names.command([b"get", b"bull:mail:secret"]) == "GET"
    assert script_names.command([]) == ""
