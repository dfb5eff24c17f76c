"""Sessions that begin without the waiting page."""

from typing import Any

from tests.waitingroom.http.hands import QUEUE, House
from waystation.waitingroom.visitor import Inside

PAGE = {"accept": "text/html", "x-original-uri": "/checkout", "x-original-method": "GET"}
VERIFY = f"/v1/verify?queue={QUEUE}"


async def busy(house: House, **fields: str) -> None:
    """Let people in, as the room of a house does not by itself."""
    await house.room.store.write({"admission_rate": "100", **fields})


async def enter(house: House, address: str = "10.1.1.1", **body: Any) -> Any:
    headers = body.pop("headers", {})
    visitor = house.visitor(address)
    return await visitor.post("/v1/enter", {"queue": QUEUE, **body}, headers=headers)


async def test_a_browser_passes_an_empty_room_and_keeps_its_session(house: House) -> None:
    await busy(house)
    browser = house.visitor()
    first = await browser.get(VERIFY, headers=PAGE)
    assert first.status_code == 204
    assert first.headers["set-cookie"].startswith(f"__Host-wr_s_{QUEUE}=")
    assert (await house.room.state()).inside == 1
    second = await browser.get(VERIFY, headers=PAGE)
    assert second.status_code == 204
    # Coming back is what keeps the seat for the whole length.
    assert "set-cookie" in second.headers
    assert (await house.room.state()).inside == 1
    token = house.tokens.read_session(browser.cookie(f"s_{QUEUE}"), QUEUE)
    status = await house.room.status(await house.room.get_place(token.sub))
    assert isinstance(status, Inside)
    assert status.until_ms - (await house.room.state()).now_ms > 3_000_000
    third = await browser.get(VERIFY, headers=PAGE)
    assert (third.status_code, "set-cookie" in third.headers) == (204, False)
    assert third.headers["wr-visitor"] == first.headers["wr-visitor"]


async def test_whatever_is_no_page_is_told_to_wait(house: House) -> None:
    await busy(house)
    for headers in ({}, {"accept": "application/json"}, {**PAGE, "sec-purpose": "prefetch"}):
        assert (await house.visitor().get(VERIFY, headers=headers)).status_code == 401
    assert (await house.room.state()).inside == 0


async def test_with_a_line_everybody_waits(house: House) -> None:
    await busy(house)
    await house.visitor().join()
    house.rooms.forget()
    found = await house.visitor().get(VERIFY, headers=PAGE)
    assert found.status_code == 401
    assert found.headers["wr-location"].startswith(f"/wait/{QUEUE}")


async def test_a_room_may_always_show_its_page(house: House) -> None:
    await busy(house, waiting_page="always")
    assert (await house.visitor().get(VERIFY, headers=PAGE)).status_code == 401


async def test_a_site_asks_for_its_visitor(house: House) -> None:
    await busy(house)
    response = await enter(house, agent="Firefox", host="shop.example")
    assert response.status_code == 200
    claims = house.tokens.read_session(response.json()["session_token"], QUEUE)
    assert (claims.sub, claims.host) == (response.json()["session_id"], "shop.example")
    await house.visitor().join()
    house.rooms.forget()
    refused = await enter(house)
    assert (refused.status_code, refused.json()["code"]) == (401, "WAITING_ROOM_REQUIRED")


async def test_an_address_is_believed_of_a_connector_alone(house: House) -> None:
    await busy(house, newcomers_per_minute="1")
    assert (await enter(house, address="10.1.1.1")).status_code == 200
    assert (await enter(house, address="10.1.1.1")).status_code == 401
    forged = await house.visitor().post("/v1/enter", {"queue": QUEUE, "address": "10.9.9.9"})
    assert forged.status_code == 401
    assert forged.json()["code"] != "WAITING_ROOM_REQUIRED"
    viewer = await house.operator("viewer")
    asked = {"queue": QUEUE, "address": "10.9.9.9"}
    assert (await viewer.post("/v1/enter", asked)).status_code == 403
    connector = await house.operator("connector")
    assert (await connector.post("/v1/enter", asked)).status_code == 200
    assert (await connector.post("/v1/enter", asked)).status_code == 401
    assert (await connector.post("/v1/enter", {**asked, "address": "x"})).status_code == 400
