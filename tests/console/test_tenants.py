"""Tenants of a queue over the HTTP API, and budgets wherever somebody looks."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from tests.console.harness import ConsoleApi
from tests.support.patience import limit
from waystation import bullmq
from waystation.bullmq import Group, Job, Limit, Queue
from waystation.console.products import bullmq_tenants
from waystation.console.webhooks import JobFeed
from waystation.console.why import why
from waystation.core.store.commands import newest_first

OF_GROUPS = {
    "a": Group("ada", parent="acme", cost=30),
    "b": Group("bob", parent="acme", cost=30),
    "c": Group("bell", cost=20),
    "d": None,
}


async def run_all(queue: Queue) -> None:
    """Run what waits, and charge the job c ten more."""

    async def handle(job: Job) -> None:
        if job.name == "c":
            await job.charge(30)

    async with bullmq.Worker(queue.name, handle, queue._given):  # pyright: ignore[reportPrivateUsage]
        async with asyncio.timeout(limit(60)):
            while await queue.counts("waiting", "active") != {"waiting": 0, "active": 0}:
                await asyncio.sleep(0.02)


@pytest.mark.parametrize("is_grouped", [False, True])
async def test_the_longest_wait_is_that_of_the_oldest_job_with_a_group_or_without(
    api: ConsoleApi, is_grouped: bool
) -> None:
    old, new = ("acme", None) if is_grouped else (None, "acme")
    async with Queue("llm", api.store) as queue:
        await queue.add("a", created_at=datetime.now(UTC) - timedelta(hours=1), group=old)
        await queue.add("b", group=new)
    [seen] = (await api.get("overview"))["queues"]
    assert seen["oldest_s"] >= 3600


async def test_each_tenant_has_its_share_of_what_was_started(api: ConsoleApi) -> None:
    async with Queue("llm", api.store) as queue:
        for name, group in OF_GROUPS.items():
            await queue.add(name, group=group)
        await run_all(queue)
        await queue.groups.set("acme", weight=2, rate=Limit(90, 60), budget=1000)
        await queue.add("a", group=OF_GROUPS["a"])
        await queue.groups.pause("acme")
        found = await api.get("queues/bullmq/llm/tenants")
    assert [(each["group"], each["service"], each["started"]) for each in found["tenants"]] == [
        ("acme", 60, 2),
        ("bell", 30, 1),
        ("", 1, 1),
    ]
    acme, _, own = found["tenants"]
    assert sum(each["share"] for each in found["tenants"]) == pytest.approx(1)
    assert (acme["waiting"], acme["held_by"], acme["paused"]) == (1, "paused", True)
    limits = (acme["weight"], acme["rate"], acme["rate_s"], acme["budget"], acme["spent_today"])
    assert limits == (2, 90, 60, 1000, 0)
    assert (own["waiting"], own["active"]) == (None, None)
    assert 0 < found["seconds"] < 3600


async def test_a_queue_without_groups_has_no_tenants(api: ConsoleApi) -> None:
    async with Queue("mail", api.store) as queue:
        await queue.add("send")
        assert (await api.get("queues/bullmq/mail/tenants"))["tenants"] == []


async def test_of_very_many_tenants_those_with_the_most_are_shown(
    api: ConsoleApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bullmq_tenants, "SHOWN", 2)
    async with Queue("llm", api.store) as queue:
        for nth in range(4):
            for _ in range(nth + 1):
                await queue.add("answer", group=f"t{nth}")
        found = await api.get("queues/bullmq/llm/tenants")
    assert [each["group"] for each in found["tenants"]] == ["t3", "t2"]
    assert found["more"] == 2


async def test_why_says_that_a_budget_for_the_day_holds_a_job_back(api: ConsoleApi) -> None:
    async with Queue("llm", api.store) as queue:
        await queue.groups.set("acme", budget=100)
        await queue.add("first", group=Group("acme", cost=90))
        await run_all(queue)
        held = await queue.add("second", group=Group("acme", cost=20))
        async with bullmq.Worker("llm", _nothing, api.store):
            async with asyncio.timeout(limit(60)):
                while (await queue.groups.get("acme")).held_for_s is None:
                    await asyncio.sleep(0.02)
            [answer] = await why(api.store, held.id)
    assert "its group acme is at its budget for the day until" in answer.sentence
    assert "90 of 100 were started" in answer.sentence


async def _nothing(job: Job) -> None:
    pass


async def test_webhooks_hear_of_whose_budget_nearly_ends(api: ConsoleApi) -> None:
    async with Queue("llm", api.store) as queue:
        await queue.groups.set("acme", budget=100)
        await queue.add("first", group=Group("acme", cost=90))
        await run_all(queue)
        await api.app.console.directory.look()
        found = await api.app.console.directory.find("bullmq", "llm")
        feed = JobFeed(found)
        entries = [each async for each in newest_first(api.store.hot, found.stream)]
    said = [feed.read(id.decode(), dict(fields)) for id, fields in entries]
    [budget] = [more for name, _, more in said if name == "group-budget"]
    assert budget == {"group": "acme", "spent": "90", "budget": "100"}
