"""Jobs are found by what is known about them."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.console import harness
from tests.console.harness import ConsoleApi
from tests.pipeline.ask import lakes
from waystation import routing
from waystation.bullmq import NewJob, Queue
from waystation.console.query import parse
from waystation.console.search import LONGEST_DATA, Reach, Search
from waystation.core.errors import InvalidInput


@pytest.fixture
async def crowded(api: ConsoleApi) -> ConsoleApi:
    async with Queue("mail", api.store) as mail, routing.Queue(api.store) as routed:
        await mail.add_many(
            NewJob("send", {"tenant": name, "items": [{"sku": f"s-{n}"}], "n": n})
            for n, name in enumerate(("acme", "globex", "initech"))
        )
        await mail.add("report", {"tenant": "acme"}, delay=3600, job_id="nightly-1")
        await mail.add("refund", {"n": 7}, job_id="Order-A17")
        await routed.add("encode", {"tenant": "acme"})
        await api.app.console.sampler.take()
    return api


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ("data.tenant:acme", ["encode", "report", "send"]),
        ("data.tenant:acme state:delayed", ["report"]),
        ("data.items.0.sku:s-1", ["send"]),
        ("data.n:2", ["send"]),
        ("id:nightly-1", ["report"]),
        ("nightly-1", ["report"]),
        ("Order-A17", ["refund"]),
        ("order-a17", ["refund"]),
        ("name:SEND globex", ["send"]),
        ("product:routing acme", ["encode"]),
        ("queue:mail name:send", ["send", "send", "send"]),
        ("nobody", []),
    ],
)
async def test_a_search_finds_exactly_what_fits(
    crowded: ConsoleApi, asked: str, names: list[str]
) -> None:
    found = await crowded.get("search", params={"q": asked})
    assert sorted(hit["job"]["name"] for hit in found["hits"]) == names
    assert found["complete"]


async def test_a_search_that_sees_only_the_beginning_of_some_data_says_so(
    crowded: ConsoleApi,
) -> None:
    async with Queue("mail", crowded.store) as mail:
        await mail.add("send", {"text": "x" * LONGEST_DATA, "end": "unseen"})
    found = await crowded.get("search", params={"q": "data.end:unseen"})
    assert (found["hits"], found["complete"]) == ([], False)


async def test_a_search_counts_what_it_does_not_show(crowded: ConsoleApi) -> None:
    every = await crowded.get("search", params={"q": "tenant"})
    found = await crowded.get("search", params={"q": "tenant", "limit": "1"})
    assert found["hits"] == every["hits"][:1]
    assert found["total"] == every["total"] == len(every["hits"]) > 1
    assert found["complete"]


@pytest.mark.parametrize("asked", ["no-such-word", "id:none"])
async def test_a_search_ends_in_time_also_where_nothing_is_found(
    crowded: ConsoleApi, asked: str
) -> None:
    queues = crowded.app.console.directory.every()
    found = await Search().run(queues, parse(asked), Reach(limit=10, budget_s=0.0))
    assert (found.looked_at, found.complete) == (0, False)


@pytest.mark.parametrize("asked", ["", "   ", '""'])
def test_nothing_is_not_searched_for(asked: str) -> None:
    with pytest.raises(InvalidInput):
        parse(asked)


def test_quotes_hold_words_together() -> None:
    query = parse('error:"no answer" "two words" x')
    assert query.fields == (("error", "no answer"),)
    assert query.words == ("two words", "x")


@pytest.mark.parametrize(
    ("asked", "meant"),
    [("stat:failed", "state"), ("tenant:acme", "data.tenant"), ('eror:"no answer"', "error")],
)
def test_a_field_that_does_not_exist_is_answered_with_the_nearest(asked: str, meant: str) -> None:
    with pytest.raises(InvalidInput, match=rf"did you mean {meant}\?"):
        parse(asked)


@pytest.mark.parametrize(
    "word",
    ["http://shop", "12:30", "KeyError:email", "repeat:nightly:17", "reason:", '"stat:failed"'],
)
def test_not_everything_with_a_colon_is_a_field(word: str) -> None:
    assert parse(word).words == (word.strip('"'),)


def _questions(id: str) -> list[tuple[str, Callable[[dict[str, Any]], bool]]]:
    """What is searched for, and the same as a test of one job."""

    def of_acme(job: dict[str, Any]) -> bool:
        return job["state"] == "failed" and job["data"].get("tenant") == "acme"

    def with_sku(job: dict[str, Any]) -> bool:
        return job["queue"] == "pay" and job["data"]["order"]["lines"][0]["sku"] == "a"

    def late(job: dict[str, Any]) -> bool:
        return job["name"] == "send" and "Timeout" in (job["reason"] or "")

    return [
        ("data.tenant:acme state:failed", of_acme),
        ("data.order.lines.0.sku:a queue:pay", with_sku),
        ("name:send error:timeout", late),
        (f"id:{id}", lambda job: job["job_id"] == id),
    ]


async def test_the_past_is_searched_by_the_same_words(redis_url: str, tmp_path: Path) -> None:
    dice = random.Random(5)
    jobs = [lakes.job(dice, number) for number in range(60)]
    lakes.keep(str(tmp_path / "history"), jobs)
    options = msgspec.structs.replace(harness.ADMIN, history=str(tmp_path / "history"))
    async with harness.api(redis_url, options) as api:
        for asked, fits in _questions(jobs[7]["job_id"]):
            answer = await api.get("history/search", params={"q": asked, "limit": "500"})
            kept = [job for job in jobs if not (job["gone"] and "data" in asked)]
            wanted = {job["job_id"] for job in kept if fits(job)}
            assert {each["id"] for each in answer["jobs"]} == wanted, asked
        hostile = await api.get("history/search", params={"q": "x'); drop table items; --"})
        assert hostile["jobs"] == []
        late = (await api.get("history/search", params={"q": "timeout"}))["jobs"]
        assert late != []
        # What is cut says that there is more.
        for limit, complete in ((len(late), True), (len(late) - 1, False)):
            asked = {"q": "timeout", "limit": str(limit)}
            answer = await api.get("history/search", params=asked)
            assert (answer["jobs"], answer["complete"]) == (late[:limit], complete)


async def test_every_i_is_one_letter_now_and_in_the_past(redis_url: str, tmp_path: Path) -> None:
    towns = ("\u0130stanbul", "istanbul", "ISTANBUL", "\u0131stanbul")
    dice = random.Random(5)
    jobs = [lakes.job(dice, number) | {"name": town} for number, town in enumerate((*towns, "x"))]
    lakes.keep(str(tmp_path / "history"), jobs)
    options = msgspec.structs.replace(harness.ADMIN, history=str(tmp_path / "history"))
    async with harness.api(redis_url, options) as api, Queue("mail", api.store) as mail:
        await mail.add_many(NewJob("send", {"town": town}) for town in (*towns, "Ankara"))
        await api.app.console.sampler.take()
        for asked in towns:
            past = await api.get("history/search", params={"q": asked})
            now = await api.get("search", params={"q": asked})
            assert ({each["name"] for each in past["jobs"]}, len(now["hits"])) == ({*towns}, 4)


async def test_without_a_history_the_past_is_not_available(api: ConsoleApi) -> None:
    answer = await api.get("history/search", params={"q": "id:1"})
    assert answer == {"available": False, "jobs": [], "complete": True, "took_ms": 0.0}
