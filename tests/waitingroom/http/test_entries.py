"""Sessions that begin without the waiting page."""

from typing import Any

from tests.waitingroom.http.harness import QUEUE, RoomService
from waystation.waitingroom.visitor import Inside

PAGE = {"accept": "text/html", "x-original-uri": "/checkout", "x-original-method": "GET"}
VERIFY = f"/v1/verify?queue={QUEUE}"


async def busy(service: RoomService, **fields: str) -> None:
    """Admit visitors, which the room of a service does not by itself."""
    await service.room.store.write({"admission_rate": "100", **fields})


async def enter(service: RoomService, address: str = "10.1.1.1", **body: Any) -> Any:
    headers = body.pop("headers", {})
    visitor = service.visitor(address)
    return await visitor.post("/v1/enter", {"queue": QUEUE, **body}, headers=headers)


async def test_a_browser_passes_an_empty_room_and_keeps_its_session(service: RoomService) -> None:
    await busy(service)
    browser = service.visitor()
    first = await browser.get(VERIFY, headers=PAGE)
    assert first.status_code == 204
    assert first.headers["set-cookie"].startswith(f"__Host-wr_s_{QUEUE}=")
    assert (await service.room.state()).inside == 1
    second = await browser.get(VERIFY, headers=PAGE)
    assert second.status_code == 204
    # Coming back is what keeps the seat for the whole length.
    assert "set-cookie" in second.headers
    assert (await service.room.state()).inside == 1
    token = service.tokens.read_session(browser.cookie(f"s_{QUEUE}"), QUEUE)
    status = await service.room.status(await service.room.get_place(token.sub))
    assert isinstance(status, Inside)
    assert status.until_ms - (await service.room.state()).now_ms > 3_000_000
    third = await browser.get(VERIFY, headers=PAGE)
    assert (third.status_code, "set-cookie" in third.headers) == (204, False)
    assert third.headers["wr-visitor"] == first.headers["wr-visitor"]


async def test_whatever_is_no_page_is_told_to_wait(service: RoomService) -> None:
    await busy(service)
    for headers in ({}, {"accept": "application/json"}, {**PAGE, "sec-purpose": "prefetch"}):
        assert (await service.visitor().get(VERIFY, headers=headers)).status_code == 401
    assert (await service.room.state()).inside == 0


async def test_with_a_line_everybody_waits(service: RoomService) -> None:
    await busy(service)
    await service.visitor().join()
    service.rooms.forget()
    found = await service.visitor().get(VERIFY, headers=PAGE)
    assert found.status_code == 401
    assert found.headers["wr-location"].startswith(f"/wait/{QUEUE}")


async def test_a_site_asks_for_its_visitor(service: RoomService) -> None:
    await busy(service)
    response = await enter(service, agent="Firefox", host="shop.example")
    assert response.status_code == 200
    claims = service.tokens.read_session(response.json()["session_token"], QUEUE)
    assert (claims.sub, claims.host) == (response.json()["session_id"], "shop.example")
    await service.visitor().join()
    service.rooms.forget()
    refused = await enter(service)
    assert (refused.status_code, refused.json()["code"]) == (401, "WAITING_ROOM_REQUIRED")


async def test_an_address_is_believed_of_a_connector_alone(service: RoomService) -> None:
    await busy(service, newcomers_per_minute="1")
    assert (await enter(service, address="10.1.1.1")).status_code == 200
    assert (await enter(service, address="10.1.1.1")).status_code == 401
    forged = await service.visitor().post("/v1/enter", {"queue": QUEUE, "address": "10.9.9.9"})
    assert forged.status_code == 401
    assert forged.json()["code"] != "WAITING_ROOM_REQUIRED"
    viewer = await service.operator("viewer")
    asked = {"queue": QUEUE, "address": "10.9.9.9"}
    assert (await viewer.post("/v1/enter", asked)).status_code == 403
    connector = await service.operator("connector")
    assert (await connector.post("/v1/enter", asked)).status_code == 200
    assert (await connector.post("/v1/enter", asked)).status_code == 401
    assert (await connector.post("/v1/enter", {**asked, "address": "x"})).status_code == 400
