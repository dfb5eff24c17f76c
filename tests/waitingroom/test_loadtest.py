"""The load test against a real room: visitors get in, and mistakes of a room are seen."""

import msgspec
import pytest

from benchmarks.room.loadtest import Visits
from benchmarks.room.loadtest import visits as visits_module
from benchmarks.room.simulator import Crowd, Mood
from tests.support.ports import free_port
from tests.support.size import size
from tests.waitingroom.http import harness
from waystation.core.errors import InvalidOption
from waystation.core.http.server import serving
from waystation.waitingroom.options import RoomOptions
from waystation.waitingroom.running import RoomMaintenance

SMALL = Crowd(
    visitors=size(150, full=300),
    hours=size(1, full=3) / 3600,
    patience_s=1e6,
    no_show=0.1,
    session_median_s=0.01,
    bots=0,
    hidden=0,
)
SHOP = "api/v1/queues/shop"


@pytest.mark.slow
@pytest.mark.full
async def test_a_crowd_comes_in_through_the_doors(redis_url: str) -> None:
    port = free_port()
    seen: list[tuple[int, int]] = []
    async with harness.service(redis_url) as service:
        await service.room.open(
            RoomOptions(
                admission_rate=25, max_active=500, newcomers_per_minute=0, idle=size(10, full=20)
            )
        )
        async with (
            RoomMaintenance(service.rooms, service.context.metrics),
            serving(service.app, host="127.0.0.1", port=port),
        ):
            visits = Visits(
                f"http://127.0.0.1:{port}/{SHOP}",
                SMALL,
                connections=32,
                progress=lambda came, here: seen.append((came, here)),
            )
            verdicts = {each.name: each for each in await visits.run()}
    assert visits.outcomes[Mood.DONE] + visits.outcomes[Mood.MISSED] == SMALL.visitors
    assert visits.outcomes[Mood.DONE] > SMALL.visitors // 2
    assert verdicts["broken promises"].holds, verdicts["broken promises"]
    assert verdicts["places that moved back"].holds
    overtaken = verdicts["people overtaken"]
    assert overtaken.holds, overtaken
    assert overtaken.seen == f"0 of {SMALL.visitors}"
    assert "the crowd itself was late by" in verdicts
    assert any(name.endswith("times beat") for name in verdicts)
    assert seen[-1] == (SMALL.visitors, 0)


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_those_who_are_late_take_their_turn_back(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visits_module, "LATE_S", (0.5, 1.0))
    crowd = msgspec.structs.replace(SMALL, visitors=60, no_show=0.5, late=0.9)
    port = free_port()
    async with harness.service(redis_url) as service:
        await service.room.open(
            RoomOptions(admission_rate=25, max_active=500, newcomers_per_minute=0, claim_window=60)
        )
        async with (
            RoomMaintenance(service.rooms, service.context.metrics),
            serving(service.app, host="127.0.0.1", port=port),
        ):
            visits = Visits(f"http://127.0.0.1:{port}/{SHOP}", crowd, connections=16)
            verdicts = {each.name: each for each in await visits.run()}
    assert int(verdicts["turns that were taken back"].seen) > 0
    assert visits.outcomes[Mood.DONE] > crowd.visitors // 2
    assert verdicts["broken promises"].holds, verdicts["broken promises"]
    assert verdicts["people overtaken"].seen == f"0 of {crowd.visitors}"
    assert len(visits.called) == crowd.visitors


async def test_a_room_that_is_not_there_is_told_as_such() -> None:
    crowd = Crowd(visitors=3, hours=1 / 3600)
    visits = Visits(f"http://127.0.0.1:{free_port()}/{SHOP}", crowd, connections=2)
    verdicts = {each.name: each for each in await visits.run()}
    assert visits.outcomes == {Mood.REFUSED: 3}
    assert "does not answer" in verdicts["broken promises"].seen


@pytest.mark.parametrize("url", ["shop", "https://host/api/v1/queues/x", "http://host/elsewhere"])
def test_what_is_no_address_of_a_room_is_refused(url: str) -> None:
    with pytest.raises(InvalidOption, match="wanted http://"):
        Visits(url, SMALL)
