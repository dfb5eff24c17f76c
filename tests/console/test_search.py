"""Jobs are found by what is known about them."""

import pytest

from tests.console.hands import Desk
from waystation import routing
from waystation.bullmq import NewJob, Queue
from waystation.console.search import parse
from waystation.core.errors import InvalidInput


@pytest.fixture
async def crowded(desk: Desk) -> Desk:
    async with Queue("mail", desk.store) as mail, routing.Queue(desk.store) as routed:
        await mail.add_many(
            NewJob("send", {"tenant": name, "items": [{"sku": f"s-{n}"}], "n": n})
            for n, name in enumerate(("acme", "globex", "initech"))
        )
        await mail.add("report", {"tenant": "acme"}, delay=3600, job_id="nightly-1")
        await routed.add("encode", {"tenant": "acme"})
        await desk.app.console.sampler.take()
    return desk


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ("data.tenant:acme", ["encode", "report", "send"]),
        ("data.tenant:acme state:delayed", ["report"]),
        ("data.items.0.sku:s-1", ["send"]),
        ("data.n:2", ["send"]),
        ("id:nightly-1", ["report"]),
        ("nightly-1", ["report"]),
        ("name:SEND globex", ["send"]),
        ("product:routing acme", ["encode"]),
        ("queue:mail name:send", ["send", "send", "send"]),
        ("nobody", []),
    ],
)
async def test_a_search_finds_exactly_what_fits(
    crowded: Desk, asked: str, names: list[str]
) -> None:
    found = await crowded.get("search", params={"q": asked})
    assert sorted(hit["job"]["name"] for hit in found["hits"]) == names
    assert found["complete"]


async def test_a_search_says_when_it_has_not_seen_everything(crowded: Desk) -> None:
    found = await crowded.get("search", params={"q": "tenant", "limit": "1"})
    assert (len(found["hits"]), found["complete"]) == (1, False)


@pytest.mark.parametrize("asked", ["", "   ", '""'])
def test_nothing_is_not_searched_for(asked: str) -> None:
    with pytest.raises(InvalidInput):
        parse(asked)


def test_quotes_hold_words_together() -> None:
    query = parse('error:"no answer" "two words" x')
    assert query.fields == (("error", "no answer"),)
    assert query.words == ("two words", "x")
