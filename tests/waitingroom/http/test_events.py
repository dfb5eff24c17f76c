"""Events over HTTP: planned, looked at as if they were on, called off."""

from typing import Any

import msgspec
import pytest

from tests.waitingroom.http.harness import QUEUE, RoomService
from waystation.core import codec
from waystation.waitingroom.http.bodies import rfc3339
from waystation.waitingroom.operating.schedule import Schedule
from waystation.waitingroom.running import RoomMaintenance

ROOT = f"/api/v1/admin/queues/{QUEUE}"


async def _times(service: RoomService, first_s: int, last_s: int) -> dict[str, Any]:
    now_ms = (await service.room.state()).now_ms
    return {
        "event_start_time": rfc3339(now_ms + first_s * 1000),
        "event_end_time": rfc3339(now_ms + last_s * 1000),
    }


async def test_an_event_is_planned_looked_at_and_called_off(service: RoomService) -> None:
    admin = await service.operator()
    settings = {"new_users_per_minute": 600, "total_active_users": 70}
    asked = {"name": "Gala", "settings": settings, **await _times(service, 600, 1200)}
    planned = await admin.post(f"{ROOT}/events", asked)
    assert planned.status_code == 201
    found = await admin.get(f"{ROOT}/events/{planned.json()['id']}")
    assert (found.json()["status"], found.json()["settings"]["max_active"]) == ("planned", 70)
    assert found.json()["settings"]["admission_rate"] == 10
    assert (await admin.get(ROOT)).json()["settings"]["max_active"] == 1000
    [listed] = (await admin.get(f"{ROOT}/events")).json()["events"]
    assert listed == found.json()
    overlaps = await admin.post(f"{ROOT}/events", asked)
    assert (overlaps.status_code, overlaps.json()["code"]) == (409, "WRONG_STATE")
    path = f"{ROOT}/events/{planned.json()['id']}"
    assert (await admin.http.delete(path)).status_code == 204
    assert (await admin.http.delete(path)).status_code == 404


async def test_what_is_due_begins_and_its_line_says_so(service: RoomService) -> None:
    admin = await service.operator()
    asked = {**await _times(service, 0, 600), "settings": {"queueing_method": "reject"}}
    planned = await admin.post(f"{ROOT}/events", asked)
    assert planned.json()["status"] == "running"
    assert (await admin.get(ROOT)).json()["event_id"] == planned.json()["id"]
    person = await service.arrived()
    assert (await person.ask("POST", "enqueue", {})).json()["code"] == "REJECTED"
    await admin.http.delete(f"{ROOT}/events/{planned.json()['id']}")
    assert (await person.ask("POST", "enqueue", {})).status_code == 201


async def test_the_duties_of_the_room_keep_its_plan(service: RoomService) -> None:
    admin = await service.operator()
    care = RoomMaintenance(service.rooms, service.context.metrics)
    now_ms = (await service.room.state()).now_ms
    asked = {"prequeue_start_time": rfc3339(now_ms - 1000), **await _times(service, 0, 600)}
    assert (await admin.post(f"{ROOT}/events", asked)).json()["status"] == "gathering"
    await care.open_due()
    [event] = (await admin.get(f"{ROOT}/events")).json()["events"]
    assert event["status"] == "running"


async def test_an_event_that_cannot_be_is_refused(service: RoomService) -> None:
    admin = await service.operator()
    good = await _times(service, 600, 1200)
    for wrong, status in (
        ({"event_end_time": good["event_start_time"]}, 422),
        ({"event_start_time": "2030-01-01T10:00:00"}, 400),
        ({"settings": {"speed": 1}}, 422),
        ({"shuffle_at_event_start": True}, 422),
        ({"event_end_time": "9999-12-31T23:59:59Z"}, 422),
    ):
        assert (await admin.post(f"{ROOT}/events", {**good, **wrong})).status_code == status
    operator = await service.operator("operator")
    assert (await operator.post(f"{ROOT}/events", good)).status_code == 403


@pytest.mark.parametrize(
    "asked",
    [
        {"new_users_per_minute": 600},
        {"total_active_users": 70},
        {"max_active_users": 70},
        {"admission_rate": 10.0},
        {"claim_window_s": 60},
        {"status": "active"},
        {"queueing_method": "fifo"},
        {"lane_weights": [1, 2, 4, 8]},
        {"strict_lanes": False},
        {"invite_only": False},
        {"pow_bits": 4},
        {"page_status": 200},
        {"return_hosts": ["shop.example"]},
    ],
)
async def test_what_an_event_names_counts_when_it_begins_whatever_it_was_when_planned(
    service: RoomService, asked: dict[str, Any]
) -> None:
    admin = await service.operator()
    assert (await admin.http.patch(ROOT, json=asked)).status_code == 200
    wanted = (await admin.get(ROOT)).json()["settings"]
    planned = {"settings": asked, **await _times(service, 600, 1200)}
    id = (await admin.post(f"{ROOT}/events", planned)).json()["id"]
    [event] = await Schedule(service.room).planned()
    assert event.changes
    await service.room.store.ask(
        "HSET",
        service.room.store.keys.schedule,
        id,
        codec.encode(msgspec.structs.replace(event, starts_ms=(await service.room.state()).now_ms)),
    )
    service.room.store.forget_state()
    await service.room.store.write(dict.fromkeys(event.changes, ""))
    await Schedule(service.room).keep()
    assert (await admin.get(ROOT)).json()["settings"] == wanted


async def test_the_commitment_of_a_draw_is_public_when_the_event_is_planned(
    service: RoomService,
) -> None:
    admin, person = await service.operator(), service.visitor()
    times = await _times(service, 600, 1200)
    gathers = {"prequeue_start_time": times["event_start_time"], "shuffle_at_event_start": True}
    planned = await admin.post(f"{ROOT}/events", {**times, **gathers})
    commit = planned.json()["commit"]
    assert (await person.ask("GET", "fairness")).json()["commit"] == commit
    assert commit in (await person.get(f"/wait/{QUEUE}/draw")).text
    # The seed itself is nowhere to be read.
    [seed] = [
        value
        for name, value in (await service.room.store.hash(service.room.store.keys.state)).items()
        if name.startswith("seed:")
    ]
    for asked in (f"{ROOT}/events", f"/api/v1/admin/queues/{QUEUE}", "/api/v1/admin/audit"):
        assert seed not in (await admin.get(asked)).text
