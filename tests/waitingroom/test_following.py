"""The rate follows what lies behind the room."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest

from tests.support.patience import LIMIT_S
from tests.support.ports import free_port
from tests.waitingroom.harness import Harness
from waystation.core.errors import InvalidOption
from waystation.core.http.server import serving
from waystation.core.store.connection import connect
from waystation.waitingroom import Following, FollowOptions
from waystation.waitingroom.metrics import RoomMetrics
from waystation.waitingroom.operating import following
from waystation.waitingroom.operating.following import Reading, look, next_rate
from waystation.waitingroom.options import RoomOptions
from waystation.waitingroom.rooms import Rooms
from waystation.waitingroom.running import RoomMaintenance


class Site:
    """A site whose health and metrics are as a test wants them."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/"
        self.status = 200
        self.text = ""
        self.drips = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        while self.drips:
            await send({"type": "http.response.body", "body": b".", "more_body": True})
            await asyncio.sleep(0.05)
        await send({"type": "http.response.body", "body": self.text.encode()})


@pytest.fixture
async def site() -> AsyncGenerator[Site]:
    port = free_port()
    built = Site(port)
    async with serving(built, host="127.0.0.1", port=port):
        yield built


async def rate_after(harness: Harness, looks: int = 1) -> float:
    for _ in range(looks):
        await Following(harness.room).keep()
        await harness.clock.advance(5)
    return (await harness.room.state()).rate


async def test_the_rate_falls_while_the_site_is_ill_and_rises_when_it_is_well(
    harness: Harness, site: Site
) -> None:
    await harness.open(admission_rate=8)
    # A minute is fast enough on any machine.
    options = FollowOptions(url=site.url, target=60, least=1, most=9)
    await Following(harness.room).start(options)
    site.status = 503
    assert await rate_after(harness) == 4
    assert "503" in (await harness.room.state()).fields["follow_said"]
    assert await rate_after(harness, 5) == 1
    site.status = 200
    assert await rate_after(harness) == pytest.approx(1.1)
    assert await rate_after(harness, 40) == 9


async def test_the_rate_follows_a_metric_such_as_the_length_of_a_queue(
    harness: Harness, site: Site
) -> None:
    await harness.open(admission_rate=9)
    series = 'queue_length{queue="mail"}'
    await Following(harness.room).start(FollowOptions(url=site.url, series=series, target=100))
    site.text = f'queue_length{{queue="other"}} 1\n{series} 150\n'
    assert await rate_after(harness) == pytest.approx(6)
    site.text = f"{series} 90\n"
    assert await rate_after(harness) == pytest.approx(6)
    site.text = f"{series} 10\n"
    assert await rate_after(harness) == pytest.approx(6.6)
    site.text = f"{series} NaN\n"
    assert await rate_after(harness) == pytest.approx(3.3)


async def test_a_change_is_left_alone_for_a_while_and_an_operator_comes_first(
    harness: Harness, site: Site
) -> None:
    await harness.open(admission_rate=8)
    await Following(harness.room).start(FollowOptions(url=site.url, target=60, most=9))
    site.status = 500
    assert await Following(harness.room).keep()
    assert not await Following(harness.room).keep()
    await Following(harness.room).stop()
    await harness.clock.advance(60)
    assert not await Following(harness.room).keep()
    assert (await harness.room.state()).rate == 4
    assert "follow" not in (await harness.room.state()).fields


async def test_a_rate_of_nothing_that_an_operator_set_stays(harness: Harness, site: Site) -> None:
    await harness.open(admission_rate=8)
    await Following(harness.room).start(FollowOptions(url=site.url, target=60, least=1, most=9))
    await harness.control.set_rate(0)
    assert await rate_after(harness, 3) == 0
    await harness.control.set_rate(2)
    assert await rate_after(harness) == pytest.approx(2.2)


async def test_a_site_that_never_ends_its_answer_is_given_up(site: Site) -> None:
    site.drips = True
    options = FollowOptions(url=site.url)
    try:
        assert await look(options, patience_s=0.3) == Reading(None, "the site did not answer")
    finally:
        site.drips = False


async def test_a_site_that_drips_costs_its_own_room_alone(
    redis_url: str, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rooms are looked at side by side: the second one's look ends before the first one's."""
    async with await connect(redis_url) as store:
        rooms, looked = Rooms(store), asyncio.Event()

        async def look_at(options: FollowOptions) -> Reading:
            await looked.wait() if options.target == 1 else looked.set()
            return Reading(None, "away")

        monkeypatch.setattr(following, "look", look_at)
        for name, target in (("slow", 1), ("well", 2)):
            await rooms.of(name).open(RoomOptions(admission_rate=8))
            await Following(rooms.of(name)).start(FollowOptions(url=site.url, target=target))
        async with asyncio.timeout(LIMIT_S):
            await RoomMaintenance(rooms, RoomMetrics(None)).follow()
        assert [state.rate for _, state in await rooms.states()] == [4, 4]


async def test_a_site_that_is_away_lets_the_least_in(harness: Harness) -> None:
    await harness.open(admission_rate=8)
    url = f"http://127.0.0.1:{free_port()}/"
    await Following(harness.room).start(FollowOptions(url=url, least=3, most=9))
    assert await rate_after(harness, 3) == 3


@pytest.mark.parametrize(
    ("value", "rate"), [(0.5, 11), (0.9, 10), (1.0, 10), (1.25, 8), (3.0, 5), (None, 5)]
)
def test_the_rate_falls_in_proportion_and_rises_in_small_steps(
    value: float | None, rate: float
) -> None:
    options = FollowOptions(url="http://shop.example/", target=1.0, most=20)
    assert next_rate(options, 10, Reading(value, "")) == pytest.approx(rate)


@pytest.mark.parametrize(
    "wrong",
    [{"url": "ftp://x/"}, {"url": ""}, {"target": 0}, {"least": 0}, {"least": 5, "most": 2}],
)
def test_what_cannot_be_followed_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        msgspec.structs.replace(FollowOptions(url="http://shop.example/"), **wrong)
