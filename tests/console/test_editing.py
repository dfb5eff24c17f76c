"""The data of a job, edited before it starts or is retried."""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.bullmq.harness import Harness
from tests.console.harness import ConsoleApi
from waystation.bullmq import Group, PayloadOptions, Queue
from waystation.bullmq.redis.keys import QueueKeys

PLACE = "queues/bullmq/mail/actions/edit"


@pytest.fixture
async def harness(api: ConsoleApi) -> AsyncIterator[Harness]:
    harness = Harness(api.store, QueueKeys("mail"))
    yield harness
    await harness.close()


async def _data(api: ConsoleApi, id: str) -> Any:
    return (await api.get(f"queues/bullmq/mail/jobs/{id}"))["data"]


@pytest.mark.parametrize("state", ["waiting", "prioritized", "delayed", "failed"])
async def test_the_data_of_a_job_that_does_not_run_is_edited_and_noted(
    api: ConsoleApi, harness: Harness, state: str
) -> None:
    options: dict[str, Any] = {"prioritized": {"priority": 3}, "delayed": {"delay": 3600}}
    async with Queue("mail", api.store) as mail:
        job = await mail.add("send", {"to": "adda"}, attempts=1, **options.get(state, {}))
        if state == "failed":
            await harness.fail(await harness.claim_one())
        assert "edit" in (await api.get(f"queues/bullmq/mail/jobs/{job.id}"))["actions"]
        asked = {"ids": [job.id], "data": {"to": "ada"}, "reason": "a slip"}
        assert (await api.post(PLACE, {**asked, "dry_run": True}))["affected"] == 1
        assert await _data(api, job.id) == {"to": "adda"}
        await api.post(PLACE, asked)
        assert await _data(api, job.id) == {"to": "ada"}
        assert await mail.state(job.id) == state
    [entry] = (await api.get("audit"))["entries"]
    after = json.loads(entry["after"])
    assert (entry["action"], after["ids"], after["reason"]) == ("edit", [job.id], "a slip")
    assert (after["was"], after["data"]) == ('{"to":"adda"}', '{"to":"ada"}')


async def test_what_runs_has_ended_or_is_sealed_is_not_edited(
    api: ConsoleApi, harness: Harness
) -> None:
    payloads = PayloadOptions(keys="k1=" + base64.b64encode(b"1" * 32).decode())
    async with Queue("mail", api.store, payloads=payloads) as secret:
        ended = await harness.add({"n": 1})
        await harness.complete(await harness.claim_one())
        running = await harness.add({"n": 1})
        await harness.claim_one()
        sealed = (await secret.add("send", {"n": 1})).id
    before = await harness.everything()
    for id in (ended, running, sealed, "nobody"):
        refused = await api.post(PLACE, {"ids": [id], "data": {"n": 2}}, status=409)
        assert refused["code"] == "WRONG_STATE", id
    wrongs: list[dict[str, Any]] = [{"data": {}}, {"ids": ["1", "2"], "data": {}}, {"ids": ["1"]}]
    for wrong in wrongs:
        await api.post(PLACE, wrong, status=422)
    assert await harness.everything() == before


async def test_a_job_that_starts_while_it_is_edited_is_reported(
    api: ConsoleApi, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = await harness.add({"n": 1})
    seen = Queue.state

    async def late(self: Queue, id: str) -> Any:
        found = await seen(self, id)
        if found == "waiting":
            await harness.claim_one()
        return found

    monkeypatch.setattr(Queue, "state", late)
    assert (await api.post(PLACE, {"ids": [id], "data": {}}))["affected"] == 0
    [entry] = (await api.get("audit"))["entries"]
    assert json.loads(entry["after"])["was"] == '{"n":1}'


async def test_a_viewer_may_not_edit(guarded: ConsoleApi) -> None:
    viewer = await guarded.operator("viewer")
    answer = await viewer.post(f"/api/v1/{PLACE}", json={"ids": ["1"], "data": {}})
    assert answer.status_code == 403


async def test_a_clone_has_the_options_that_belong_to_such_jobs_and_none_of_the_one(
    api: ConsoleApi, harness: Harness
) -> None:
    place = "queues/bullmq/mail/actions/clone"
    async with Queue("mail", api.store) as mail:
        job = await mail.add(
            "send", {"to": "ada"}, attempts=7, backoff=3, timeout=9, delay=3600, job_id="one",
            group=Group("acme", priority=4), remove_on_complete=True,
        )  # fmt: skip
        await api.post(place, {"ids": [job.id]})
        await api.post(place, {"ids": [job.id], "name": "greet", "data": {"to": "grace"}})
        alike, other = sorted(
            [each for each in await mail.get_jobs() if each.id != "one"], key=lambda each: each.id
        )
        assert (alike.name, alike.data, alike.delay_ms) == ("send", {"to": "ada"}, 0)
        assert (other.name, other.data) == ("greet", {"to": "grace"})
        for each in (alike, other):
            assert (each.max_attempts, each.options.terms.timeout) == (7, 9000)
            assert (each.options.group, each.priority) == (Group("acme", priority=4), 4)
            assert each.options.backoff == job.options.backoff
            assert each.options.keep_completed == job.options.keep_completed
        assert (await mail.get_job("one")) is not None
    entries = (await api.get("audit"))["entries"]
    assert [json.loads(each["after"])["made"] for each in entries] == [other.id, alike.id]


async def test_what_is_gone_or_sealed_is_not_cloned(api: ConsoleApi) -> None:
    place = "queues/bullmq/mail/actions/clone"
    payloads = PayloadOptions(keys="k1=" + base64.b64encode(b"1" * 32).decode())
    async with Queue("mail", api.store, payloads=payloads) as secret:
        sealed = await secret.add("send", {"n": 1})
        await api.post(place, {"ids": ["nothing"]}, status=404)
        await api.post(place, {"ids": []}, status=422)
        await api.post(place, {"ids": [sealed.id]}, status=409)
        assert await secret.counts("waiting") == {"waiting": 1}
