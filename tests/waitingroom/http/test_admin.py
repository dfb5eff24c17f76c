"""What operators can do."""

from collections.abc import Awaitable, Callable

import pytest

from tests.waitingroom.http import harness
from tests.waitingroom.http.harness import ADMIN, QUEUE, RoomService
from waystation.core import codec
from waystation.core.clock import HandClock
from waystation.waitingroom.operating.schedule import Schedule, ScheduledEvent
from waystation.waitingroom.visitor import JoinRequest

ROOT = "/api/v1/admin/queues"


async def test_a_room_is_set_up_changed_and_taken_away(service: RoomService) -> None:
    admin = await service.operator()
    made = await admin.post(
        ROOT, {"id": "concert", "settings": {"new_users_per_minute": 120, "total_active_users": 50}}
    )
    assert made.status_code == 201
    assert made.json()["settings"]["admission_rate"] == 2
    assert made.json()["settings"]["max_active"] == 50
    assert (await admin.post(ROOT, {"id": "concert"})).status_code == 409

    tag = made.headers["etag"]
    changed = await admin.http.patch(
        f"{ROOT}/concert", json={"name": "Concert"}, headers={"if-match": tag}
    )
    assert changed.status_code == 200
    late = await admin.http.patch(
        f"{ROOT}/concert", json={"name": "Other"}, headers={"if-match": tag}
    )
    assert late.status_code == 412
    now = changed.headers["etag"]
    for expected in ("W/" + tag, '"x"', "x", "W/5", '"0", "00"'):
        patch = admin.http.patch(f"{ROOT}/concert", json={}, headers={"if-match": expected})
        assert (await patch).status_code == 412, expected
    for form in ("W/{}", '"0", {}', "*"):
        expected = form.format(now)
        found = await admin.http.patch(
            f"{ROOT}/concert", json={"name": expected}, headers={"if-match": expected}
        )
        assert found.status_code == 200, expected
        now = found.headers["etag"]
    assert (await admin.http.patch(f"{ROOT}/concert", json={"speed": 1})).status_code == 422
    assert (await admin.http.delete(f"{ROOT}/concert")).status_code == 204
    assert (await admin.get(f"{ROOT}/concert")).status_code == 404


async def test_numbers_are_those_of_the_room(service: RoomService) -> None:
    viewer = await service.operator("viewer")
    await service.visitor().join()
    stats = (await viewer.get(f"{ROOT}/{QUEUE}/stats")).json()
    assert stats["waiting"] == [1, 0, 0, 0]
    assert stats["hour"]["total_enqueued"] == 1


async def test_a_room_whose_numbers_cannot_be_read_hides_no_other(service: RoomService) -> None:
    admin = await service.operator()
    assert (await admin.post(ROOT, {"id": "concert"})).status_code == 201
    keys = service.rooms.of("concert").store.keys_now()
    await service.store.ask("SET", keys.stats, "of another type", "EX", 60)
    listed = (await admin.get(ROOT)).json()["queues"]
    assert [each["id"] for each in listed] == [QUEUE]
    await service.store.ask("DEL", keys.stats)


async def test_an_operator_of_one_room_sees_nobody_of_another(service: RoomService) -> None:
    """Ids are found by any room; whose they are is looked at."""
    admin = await service.operator()
    await admin.post(ROOT, {"id": "concert"})
    place = await service.visitor().join()
    theirs = f"{ROOT}/concert/positions/{place['position_id']}"
    assert (await admin.get(theirs)).status_code == 404
    assert (await admin.http.delete(theirs)).status_code == 404


async def test_somebody_can_be_taken_out_and_a_session_ended(service: RoomService) -> None:
    operator = await service.operator("operator")
    person = service.visitor()
    place = await person.join()
    gone = await operator.http.delete(f"{ROOT}/{QUEUE}/positions/{place['position_id']}")
    assert gone.status_code == 204
    assert (await person.ask("GET", "status")).status_code == 410

    begun = await service.visitor("10.1.1.5").enter()
    path = f"{ROOT}/{QUEUE}/sessions/{begun['session_id']}"
    assert (await operator.get(path)).json()["status"] == "active"
    assert (await operator.http.delete(path)).status_code == 204
    assert (await service.room.state()).inside == 0


async def test_calling_some_in_and_emptying_all_hands(service: RoomService) -> None:
    admin = await service.operator()
    for number in range(3):
        await service.visitor(f"10.1.2.{number}").join()
    called = await admin.post(f"{ROOT}/{QUEUE}/admit", {"count": 2})
    assert called.json() == {"called": 2, "waiting": 1}
    assert (await admin.post(f"{ROOT}/{QUEUE}/reset", {"confirm": "no"})).status_code == 422
    assert (await admin.post(f"{ROOT}/{QUEUE}/reset", {"confirm": QUEUE})).status_code == 200
    assert (await service.room.state()).epoch == 2
    wrong = await admin.post(f"{ROOT}/{QUEUE}/rate", {"new_users_per_minute": -1})
    assert wrong.status_code == 422


async def test_those_inside_and_in_line_are_found_for_somebody_who_asks(
    service: RoomService,
) -> None:
    viewer = await service.operator("viewer")
    begun = await service.visitor().enter()
    place = await service.visitor("10.1.1.7").join()
    [listed] = (await viewer.get(f"{ROOT}/{QUEUE}/sessions")).json()["sessions"]
    assert (listed["session_id"], listed["status"]) == (begun["session_id"], "active")
    found = await viewer.get(f"{ROOT}/{QUEUE}/positions/{place['position_id']}")
    assert (found.json()["status"], found.json()["people_ahead"]) == ("waiting", 0)
    assert "token" not in found.json()
    assert (await viewer.get(f"{ROOT}/{QUEUE}/positions/nobody")).status_code == 404


async def _patched(service: RoomService, per_second: float) -> None:
    admin = await service.operator()
    answer = await admin.http.patch(ADMIN, json={"new_users_per_minute": 60 * per_second})
    assert answer.status_code == 200, answer.text


async def _steered(service: RoomService, per_second: float) -> None:
    admin = await service.operator()
    asked = {"new_users_per_minute": 60 * per_second}
    assert (await admin.post(f"{ADMIN}/rate", asked)).status_code == 200


async def _opened(service: RoomService, per_second: float) -> None:
    options = (await service.room.state()).options
    await service.room.open(options.changed(admission_rate=per_second))


async def _planned(service: RoomService, per_second: float) -> None:
    """An event that begins now."""
    schedule, now_ms = Schedule(service.room), (await service.room.state()).now_ms
    changes = {"admission_rate": f"{per_second:g}"}
    event = ScheduledEvent(id="gala", starts_ms=now_ms, ends_ms=now_ms + 60_000, changes=changes)
    await schedule.plan(event)
    await schedule.keep()


async def _over(service: RoomService, per_second: float) -> None:
    """An event that ends now, during which somebody began a ramp."""
    fields = {"admission_rate": f"{per_second:g}"}
    await service.room.store.write({"event": "gala", "event_before": codec.encode(fields).decode()})
    await Schedule(service.room).keep()


@pytest.mark.parametrize("write", [_patched, _steered, _opened, _planned, _over])
@pytest.mark.parametrize("per_second", [0, 1, 200])
async def test_whichever_way_the_rate_is_written_the_room_obeys_at_once(
    write: Callable[[RoomService, float], Awaitable[None]], per_second: float, redis_url: str
) -> None:
    """Also while it was on its way to another rate, or slowly to this one."""
    clock = HandClock()
    async with harness.service(redis_url, clock=clock, newcomers_per_minute=0) as service:
        await service.room.open((await service.room.state()).options.changed(admission_rate=100))
        await service.control.set_rate(200, ramp=3600)
        await clock.advance(60)
        for number in range(250):
            await service.room.join(JoinRequest(key=f"v{number}", secret="s"))
        await service.admission.admit()
        await write(service, per_second)
        await clock.advance(1)
        assert (await service.room.state()).rate == per_second
        called = await service.admission.admit()
        assert len(called.called) <= per_second


async def test_what_does_not_concern_the_rate_leaves_a_ramp_alone(service: RoomService) -> None:
    await service.control.set_rate(200, ramp=3600)
    admin = await service.operator()
    assert (await admin.http.patch(ADMIN, json={"max_active": 7})).status_code == 200
    assert (await service.room.state()).rate < 100
