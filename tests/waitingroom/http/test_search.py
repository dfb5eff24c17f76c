"""Visitors are found by the ticket that their page shows."""

import pytest

from tests.waitingroom.http.harness import QUEUE, RoomService

ROOT = f"/api/v1/admin/queues/{QUEUE}"


async def test_a_visitor_is_found_wherever_they_stand(service: RoomService) -> None:
    viewer = await service.operator("viewer")
    people = [service.visitor(f"10.0.0.{number}") for number in range(4)]
    ids = [(await each.join())["position_id"] for each in people]
    await service.admission.admit_now(2)
    assert (await people[0].claim()).status_code == 200
    seen: list[str] = []
    for id in ids:
        answer = await viewer.get(f"{ROOT}/positions", params={"ticket": id[-6:]})
        [found] = answer.json()["positions"]
        assert found["position_id"] == id
        seen.append(found["status"])
    assert seen == ["active", "admitted", "waiting", "waiting"]


async def test_it_is_read_as_people_say_it(service: RoomService) -> None:
    viewer = await service.operator("viewer")
    id = (await service.visitor().join())["position_id"]
    ticket = id[-6:].lower()
    for said in (f" {ticket[:3]} {ticket[3:]} ", f"{ticket[:3]}-{ticket[3:]}", id[-16:]):
        answer = await viewer.get(f"{ROOT}/positions", params={"ticket": said})
        assert [each["position_id"] for each in answer.json()["positions"]] == [id]
    misread = ticket.upper().translate(str.maketrans("OIB", "018"))
    answer = await viewer.get(f"{ROOT}/positions", params={"ticket": misread})
    assert [each["position_id"] for each in answer.json()["positions"]] == [id]


async def test_more_than_can_be_shown_are_refused(service: RoomService) -> None:
    viewer = await service.operator("viewer")
    alike = [part for number in range(11) for part in (number, f"{number}ABCDEF")]
    await service.room.store.ask("ZADD", service.room.store.keys.positions, *alike)
    answer = await viewer.get(f"{ROOT}/positions", params={"ticket": "ABCDEF"})
    assert "more than 10 visitors fit: give more of the ticket" in answer.json()["detail"]


async def test_whoever_has_left_is_not_found(service: RoomService) -> None:
    viewer = await service.operator("viewer")
    visitor = service.visitor()
    id = (await visitor.join())["position_id"]
    assert (await visitor.ask("DELETE", "position", {})).status_code == 200
    answer = await viewer.get(f"{ROOT}/positions", params={"ticket": id[-6:]})
    assert answer.json() == {"positions": []}


@pytest.mark.parametrize("wrong", ["", "abc", "*****", "[A-Z]*", "ab\\cd", "9999", "A" * 40])
async def test_what_cannot_be_a_ticket_is_refused(service: RoomService, wrong: str) -> None:
    viewer = await service.operator("viewer")
    answer = await viewer.get(f"{ROOT}/positions", params={"ticket": wrong})
    assert answer.status_code in (400, 422)
    assert "a ticket must be 4 to 16 letters" in answer.json()["detail"]


async def test_nobody_else_may_search(service: RoomService) -> None:
    assert (await service.visitor().get(f"{ROOT}/positions?ticket=ABCDEF")).status_code == 401
    other = await service.operator("viewer", ["gala"])
    assert (await other.get(f"{ROOT}/positions?ticket=ABCDEF")).status_code == 403


async def test_rooms_are_listed_with_their_numbers(service: RoomService) -> None:
    viewer = await service.operator("viewer")
    await service.visitor().join()
    [room] = (await viewer.get("/api/v1/admin/queues")).json()["queues"]
    assert room["id"] == QUEUE
    assert (room["stats"]["waiting"], room["stats"]["active"]) == ([1, 0, 0, 0], 0)
    assert room["stats"]["hour"]["total_enqueued"] == 1
