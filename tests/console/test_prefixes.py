"""Queues of the same name under several prefixes: each is shown, asked and changed by itself."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.console import harness
from tests.console.harness import ConsoleApi
from tests.support.patience import limit
from waystation import bullmq
from waystation.bullmq import FlowNode, FlowProducer, NewJob, Queue, Schedule
from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.redis.prefixes import Prefixes
from waystation.cli.places import places_of
from waystation.cli.root import run
from waystation.cli.sections import SECTIONS
from waystation.console.settings import prefixes_of
from waystation.console.why import why
from waystation.core.settings.load import Settings, load

SEND = NewJob("send", {})
OPTIONS = msgspec.structs.replace(harness.ADMIN, prefixes=("bull", "trial"))
PREFIXES = Prefixes(("bull", "trial"))


@pytest.fixture
async def api(redis_url: str, no_strays: None) -> AsyncIterator[ConsoleApi]:
    """A console over two queues called mail: three jobs here, one in the trial."""
    async with (
        harness.api(redis_url, OPTIONS) as opened,
        Queue("mail", opened.store) as here,
        Queue("mail", opened.store, prefix="trial") as there,
    ):
        await here.add_many([SEND] * 3)
        await there.add("try", {"to": "ada"})
        yield opened


def _settings(own: str = "bull") -> Settings:
    names = {"WAYSTATION_BULLMQ__PREFIX": own, "WAYSTATION_CONSOLE__PREFIXES": "bull, trial"}
    return load(SECTIONS, environ=names)


@pytest.mark.parametrize(
    ("shown", "key"),
    [
        ("mail", "bull:mail:meta"),
        ("trial:mail", "trial:mail:meta"),
        ("bull:mail", None),
        ("other:mail", None),
        ("trial:", None),
        (":mail", None),
        ("", None),
        ("x" * 600, None),
    ],
)
def test_a_name_means_one_queue_or_none(shown: str, key: str | None) -> None:
    keys = PREFIXES.keys_of(shown)
    assert (keys and keys.meta) == key
    if keys:
        assert PREFIXES.shown(keys) == shown


def test_a_prefix_may_have_colons() -> None:
    prefixes = Prefixes(("shop:eu", "shop:us"))
    keys = QueueKeys("mail", prefix="shop:us")
    assert prefixes.shown(keys) == "shop:us:mail"
    found = prefixes.keys_of("shop:us:mail")
    assert found is not None
    assert found.meta == keys.meta
    assert prefixes.keys_of("shop:mail") is None


async def test_both_queues_are_listed_with_their_own_numbers(api: ConsoleApi) -> None:
    found = {each["name"]: each["ready"] for each in (await api.get("overview"))["queues"]}
    assert found == {"mail": 3, "trial:mail": 1}
    one = await api.get("queues/bullmq/trial:mail")
    assert (one["name"], one["counts"]["waiting"]) == ("trial:mail", 1)
    answer = await api.here.get("/api/v1/queues/bullmq/other:mail")
    assert answer.status_code == 404
    assert "named as trial:NAME" in answer.json()["detail"]


async def test_an_action_concerns_the_queue_it_names(api: ConsoleApi) -> None:
    await api.act("trial:mail", "pause")
    await api.act("mail", "drain", confirm="mail")
    async with (
        Queue("mail", api.store) as here,
        Queue("mail", api.store, prefix="trial") as there,
    ):
        assert (await here.is_paused(), (await here.counts())["waiting"]) == (False, 0)
        assert (await there.is_paused(), (await there.counts())["waiting"]) == (True, 1)
    entries = (await api.get("audit"))["entries"]
    assert [each["queue"] for each in entries] == ["bullmq/mail", "bullmq/trial:mail"]


async def test_a_key_for_one_of_them_does_not_open_the_other(
    api: ConsoleApi, redis_url: str
) -> None:
    options = msgspec.structs.replace(harness.SIGN_IN, prefixes=("bull", "trial"))
    async with harness.api(redis_url, options) as guarded:
        limited = await guarded.operator("operator", ["bullmq/mail"])
        assert (await limited.get("/api/v1/queues/bullmq/mail")).status_code == 200
        assert (await limited.get("/api/v1/queues/bullmq/trial:mail")).status_code == 403


async def test_search_schedulers_workers_and_failures_name_the_queue(api: ConsoleApi) -> None:
    async def handler(job: bullmq.Job) -> None:
        raise ConnectionError("no answer")

    async with Queue("mail", api.store, prefix="trial") as there:
        await there.schedulers.upsert("nightly", Schedule(pattern="0 3 * * *"), name="report")
        found = await api.get("search?q=queue:trial:mail%20name:try")
        assert [(hit["queue"], hit["job"]["name"]) for hit in found["hits"]] == [
            ("trial:mail", "try")
        ]
        job = await there.add("fail", {}, attempts=1)
        async with bullmq.Worker("mail", handler, api.store, prefix="trial", name="anna"):
            with pytest.raises(bullmq.JobFailed):
                await there.wait(job.id, limit(60))
            [worker] = (await api.get("queues/bullmq/trial:mail/workers"))["workers"]
            assert (worker["name"], worker["queues"]) == ("anna", ["trial:mail"])
            assert (await api.get("queues/bullmq/mail/workers"))["workers"] == []
        await api.app.console.sampler.take()
        [group] = (await api.get("failures?product=bullmq&queue=trial:mail"))["groups"]
        assert group["queue"] == "trial:mail"
    [scheduler] = (await api.get("schedulers"))["schedulers"]
    assert (scheduler["queue"], scheduler["id"]) == ("trial:mail", "nightly")


async def test_a_flow_leads_to_jobs_under_its_own_prefix(api: ConsoleApi) -> None:
    async with FlowProducer(api.store, prefix="trial") as flows:
        child = FlowNode(name="resize", queue="images")
        made = await flows.add(FlowNode(name="album", queue="mail", children=[child]))
        flow = await api.get(f"queues/bullmq/trial:mail/jobs/{made.job.id}/flow")
        [inner] = flow["children"]
        shown = await api.get(f"queues/bullmq/{inner['queue']}/jobs/{inner['id']}")
    assert (flow["queue"], inner["queue"]) == ("trial:mail", "trial:images")
    assert shown["parent"] == {"product": "bullmq", "queue": "trial:mail", "id": made.job.id}


async def test_a_flow_leads_to_a_child_under_another_prefix(api: ConsoleApi) -> None:
    async with FlowProducer(api.store) as flows:
        child = FlowNode(name="resize", queue="images", prefix="trial")
        made = await flows.add(FlowNode(name="album", queue="mail", children=[child]))
    flow = await api.get(f"queues/bullmq/mail/jobs/{made.job.id}/flow")
    assert [each["queue"] for each in flow["children"]] == ["trial:images"]


async def test_why_answers_for_each(api: ConsoleApi) -> None:
    page = await api.get("queues/bullmq/trial:mail/why")
    assert page["sentence"].startswith("Queue trial:mail has nobody who works on it")
    places = places_of(_settings())
    [answer] = await why(api.store, "trial:mail", places=places)
    assert (answer.queue, answer.cause) == ("trial:mail", "nobody")
    [answer] = await why(api.store, "trial:mail/1", places=places)
    assert (answer.queue, answer.id) == ("trial:mail", "1")
    answers = await why(api.store, "1", product="bullmq", places=places)
    assert [each.queue for each in answers] == ["mail", "trial:mail"]


def test_the_prefix_of_the_commands_comes_first() -> None:
    assert prefixes_of(_settings()) == ("bull", "trial")
    assert prefixes_of(_settings("trial")) == ("trial", "bull")


def test_the_command_lists_both(
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def prepare() -> None:
        async with Queue("mail", redis_url) as here, Queue("mail", redis_url, prefix="trial") as on:
            await here.add("send", {})
            await on.add("try", {})

    asyncio.run(prepare())
    monkeypatch.setenv("WAYSTATION_STORE__URL", redis_url)
    monkeypatch.setenv("WAYSTATION_CONSOLE__PREFIXES", '["trial"]')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        run(["queues", "--over", "0", "--json"])
    assert not ended.value.code
    listed: list[dict[str, Any]] = msgspec.json.decode(capsys.readouterr().out)
    assert [(each["name"], each["ready"]) for each in listed] == [("mail", 1), ("trial:mail", 1)]
