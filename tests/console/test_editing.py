"""The data of a job, edited before it starts or is retried."""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.bullmq.hands import Hands
from tests.console.hands import Desk
from waystation.bullmq import PayloadOptions, Queue
from waystation.bullmq.redis.keys import QueueKeys

PLACE = "queues/bullmq/mail/actions/edit"


@pytest.fixture
async def hands(desk: Desk) -> AsyncIterator[Hands]:
    hands = Hands(desk.store, QueueKeys("mail"))
    yield hands
    await hands.close()


async def _data(desk: Desk, id: str) -> Any:
    return (await desk.get(f"queues/bullmq/mail/jobs/{id}"))["data"]


@pytest.mark.parametrize("state", ["waiting", "prioritized", "delayed", "failed"])
async def test_the_data_of_a_job_that_does_not_run_is_edited_and_noted(
    desk: Desk, hands: Hands, state: str
) -> None:
    options: dict[str, Any] = {"prioritized": {"priority": 3}, "delayed": {"delay": 3600}}
    async with Queue("mail", desk.store) as mail:
        job = await mail.add("send", {"to": "adda"}, attempts=1, **options.get(state, {}))
        if state == "failed":
            await hands.fail(await hands.claim_one())
        assert "edit" in (await desk.get(f"queues/bullmq/mail/jobs/{job.id}"))["actions"]
        asked = {"ids": [job.id], "data": {"to": "ada"}, "reason": "a slip"}
        assert (await desk.post(PLACE, {**asked, "dry_run": True}))["affected"] == 1
        assert await _data(desk, job.id) == {"to": "adda"}
        await desk.post(PLACE, asked)
        assert await _data(desk, job.id) == {"to": "ada"}
        assert await mail.state(job.id) == state
    [entry] = (await desk.get("audit"))["entries"]
    after = json.loads(entry["after"])
    assert (entry["action"], after["ids"], after["reason"]) == ("edit", [job.id], "a slip")
    assert (after["was"], after["data"]) == ('{"to":"adda"}', '{"to":"ada"}')


async def test_what_runs_has_ended_or_is_sealed_is_not_edited(desk: Desk, hands: Hands) -> None:
    payloads = PayloadOptions(keys="k1=" + base64.b64encode(b"1" * 32).decode())
    async with Queue("mail", desk.store, payloads=payloads) as secret:
        ended = await hands.add({"n": 1})
        await hands.complete(await hands.claim_one())
        running = await hands.add({"n": 1})
        await hands.claim_one()
        sealed = (await secret.add("send", {"n": 1})).id
    before = await hands.everything()
    for id in (ended, running, sealed, "nobody"):
        refused = await desk.post(PLACE, {"ids": [id], "data": {"n": 2}}, status=409)
        assert refused["code"] == "WRONG_STATE", id
    wrongs: list[dict[str, Any]] = [{"data": {}}, {"ids": ["1", "2"], "data": {}}, {"ids": ["1"]}]
    for wrong in wrongs:
        await desk.post(PLACE, wrong, status=422)
    assert await hands.everything() == before


async def test_a_job_that_starts_while_it_is_edited_is_reported(
    desk: Desk, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = await hands.add({"n": 1})
    seen = Queue.state

    async def late(self: Queue, id: str) -> Any:
        found = await seen(self, id)
        if found == "waiting":
            await hands.claim_one()
        return found

    monkeypatch.setattr(Queue, "state", late)
    assert (await desk.post(PLACE, {"ids": [id], "data": {}}))["affected"] == 0
    [entry] = (await desk.get("audit"))["entries"]
    assert json.loads(entry["after"])["was"] == '{"n":1}'


async def test_a_viewer_may_not_edit(guarded: Desk) -> None:
    viewer = await guarded.operator("viewer")
    answer = await viewer.post(f"/api/v1/{PLACE}", json={"ids": ["1"], "data": {}})
    assert answer.status_code == 403
