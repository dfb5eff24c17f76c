"""The answers to visitors in every state of a room and of theirs: one table."""

import re

import pytest

from tests.waitingroom.http import harness
from tests.waitingroom.http.harness import QUEUE, Person, RoomService
from waystation.core.clock import HandClock
from waystation.waitingroom.http.status import OVER, serving_state
from waystation.waitingroom.options import Status
from waystation.waitingroom.pages.words import languages
from waystation.waitingroom.running import Admission, Upkeep

HOUR_MS = 3_600_000
ROOMS = [*Status, "prequeue", "fail_open"]
"""Every mode that an operator sets, and what comes of a plan or an emergency."""
OPEN = ("active", "draining", "paused", "queue_all", "maintenance", "prequeue", "fail_open")
BANNERS = {
    **dict.fromkeys(("paused", "queue_all", "maintenance"), "paused"),
    "prequeue": "later",
}
"""What those in line read besides, where nobody is let in."""
REFUSED = {
    "closed": ("closed", 410, "ENDED"),
    "sold_out": ("sold_out", 410, "SOLD_OUT"),
    "maintenance": ("maintenance", 503, "MAINTENANCE_MODE"),
    "draining": ("closed", 503, "DRAINING"),
}
"""The page, the status and the code of somebody without a place."""
HERE = {"waiting": "waiting", "returned": "returned", "called": "admitted", "inside": "active"}
LOST = {
    "late": ("missed", "TURN_MISSED"),
    "gone": ("gone", "PLACE_LOST"),
    "done": ("done", "PLACE_LOST"),
}
ENDS = ("waiting", "returned", "late", "gone", "done")
"""Who gets the answer that the room is over; whoever was called or is inside goes in."""


async def _stand(service: RoomService, clock: HandClock, where: str) -> Person:
    """Get somebody where a row of the table says."""
    person = service.visitor()
    if where == "new":
        await person.arrive()
        return person
    await person.join()
    if where in ("waiting", "gone"):
        if where == "gone":
            place = await service.room.get_place((await person.status())["position_id"])
            await service.room.remove(place, "test")
        return person
    await Admission(service.room).admit_now(1)
    if where in ("late", "returned"):
        await clock.advance(121)
        await Admission(service.room).admit()
    if where == "returned":
        assert (await person.ask("POST", "recover", {})).status_code == 200
    if where in ("inside", "done"):
        assert (await person.claim()).status_code == 200
    if where == "done":
        place = await service.room.get_place((await person.status())["position_id"])
        await service.room.complete(place)
    return person


async def _become(service: RoomService, clock: HandClock, room: str) -> None:
    if room == "prequeue":
        await service.control.schedule(clock.now_ms() + HOUR_MS)
    elif room == "fail_open":
        await service.control.fail_open(3600)
    else:
        await service.room.store.write({"status": room})


def _expected(room: str, where: str) -> tuple[str, int, str, str]:
    """The page, the status of looks and beats with their code, and the banner."""
    if room in OVER and where in ENDS:
        return room, *REFUSED[room][1:], ""
    if where in LOST:
        page, code = LOST[where]
        return page, 410, code, ""
    banner = BANNERS.get(room, "") if where in ("waiting", "returned") else ""
    return HERE[where], 200, "", banner


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("where", [*HERE, *LOST])
async def test_everybody_is_told_how_things_stand(redis_url: str, room: str, where: str) -> None:
    """The page with scripts, the page without, the status and the heartbeat say the same."""
    clock = HandClock()
    async with harness.service(redis_url, clock=clock, max_active=10) as service:
        person = await _stand(service, clock, where)
        await _become(service, clock, room)
        page, status, code, banner = _expected(room, where)
        facts = (await person.get(f"/wait/{QUEUE}/facts")).json()
        assert facts["status"] == page
        assert (facts.get("ending") is not None) == (room in OVER)
        for method, verb in (("GET", "status"), ("POST", "heartbeat")):
            answered = await person.ask(method, verb, {} if method == "POST" else None)
            assert (answered.status_code, answered.json().get("code", "")) == (status, code), verb
            if status == 200:
                assert answered.json()["serving_state"] == serving_state(await service.room.state())
            assert ("ending" in answered.json()) == (room in OVER and status == 410)
        plain = (await person.get(f"/wait/{QUEUE}?plain=1&lang=en")).text
        english = languages()["en"]
        assert f'<h1 id="headline">{english[f"head_{page}"]}</h1>' in plain
        shown = re.search(r'<p id="banner" class="banner" (hidden)?>([^<]*)</p>', plain)
        assert shown is not None
        assert (bool(shown[1]), shown[2]) == (not banner, english[banner] if banner else "")
        # Who waits looks again by itself, and learns of every change; who need not does not.
        looks = page in ("waiting", "returned", "admitted", "missed")
        assert ('http-equiv="refresh"' in plain) == looks


@pytest.mark.parametrize("room", ROOMS)
async def test_a_newcomer_is_told_how_things_stand(redis_url: str, room: str) -> None:
    clock = HandClock()
    async with harness.service(redis_url, clock=clock) as service:
        person = await _stand(service, clock, "new")
        await _become(service, clock, room)
        page, status, code = REFUSED.get(room, ("new", 0, ""))
        assert (await person.get(f"/wait/{QUEUE}/facts")).json()["status"] == page
        plain = (await person.get(f"/wait/{QUEUE}?plain=1&lang=en")).text
        assert f'<h1 id="headline">{languages()["en"][f"head_{page}"]}</h1>' in plain
        joined = await person.ask("POST", "enqueue", {})
        if code:
            assert (joined.status_code, joined.json()["code"]) == (status, code)
        else:
            assert joined.status_code in (200, 201, 202)


@pytest.mark.parametrize("room", ROOMS)
def test_every_state_of_a_room_has_its_row(room: str) -> None:
    """A mode that is added without a text is a failure."""
    assert room in OPEN or room in REFUSED
    for words in languages().values():
        for page in {REFUSED.get(room, ("new",))[0], *HERE.values(), *dict(LOST.values())}:
            assert words[f"head_{page}"]
            assert words[f"text_{page}"]
        assert words[BANNERS.get(room, "paused")]


@pytest.mark.parametrize(("verb", "end"), [("close", "closed"), ("sold-out", "sold_out")])
async def test_a_room_ends_with_the_words_and_the_link_of_its_seller(
    service: RoomService, verb: str, end: str
) -> None:
    admin, person = await service.operator(), service.visitor()
    await person.join()
    texts = {"en": "See you in May.", "de": "Bis Mai."}
    said = {"text": texts, "link": "https://shop.example/next"}
    answered = await admin.post(f"/api/v1/admin/queues/{QUEUE}/{verb}", said)
    assert answered.json()["serving_state"] == end
    assert (await person.status())["ending"] == said
    for lang, text in texts.items():
        plain = (await person.get(f"/wait/{QUEUE}?plain=1&lang={lang}")).text
        assert f'<p id="text">{text}</p>' in plain
        assert 'href="https://shop.example/next"' in plain
    wrong = {"link": "http://shop.example"}
    refused = await admin.post(f"/api/v1/admin/queues/{QUEUE}/{verb}", wrong)
    assert refused.status_code == 422
    # Open again, nothing of it is left.
    await admin.post(f"/api/v1/admin/queues/{QUEUE}/resume")
    assert "ending" not in (await service.room.state()).fields
    assert (await person.status())["status"] == "waiting"


async def test_who_is_told_that_it_is_over_loses_the_place_by_silence(redis_url: str) -> None:
    """Beats count no longer, and the usual patience does, not that of a pause."""
    clock = HandClock()
    async with harness.service(redis_url, clock=clock) as service:
        person = await _stand(service, clock, "waiting")
        await clock.advance(301)
        await person.ask("POST", "heartbeat", {})
        await service.control.close()
        await clock.advance(200)
        assert (await person.ask("POST", "heartbeat", {})).json()["code"] == "ENDED"
        await clock.advance(101)
        assert len(await Upkeep(service.room).expire_silent()) == 1


async def test_a_site_is_the_way_on_where_the_seller_gives_no_other(service: RoomService) -> None:
    await service.room.store.write({"return_hosts": "shop.example"})
    person = await service.joined()
    await service.control.close()
    plain = await person.get(f"/wait/{QUEUE}?plain=1&target=https://shop.example/checkout")
    assert 'href="https://shop.example/"' in plain.text
