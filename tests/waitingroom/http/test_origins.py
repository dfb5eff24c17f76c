"""Pages of other hosts that ask the room from a script."""

from collections.abc import AsyncGenerator

import pytest

from tests.waitingroom.http import harness
from tests.waitingroom.http.harness import QUEUE, RoomService

KNOWN = "https://shop.example"
STRANGERS = (
    "https://evil.example", "https://shop.example.evil.example", "https://shop.example:8443",
    "null", "file://shop.example", "https://evilshop.example", "",
)  # fmt: skip


@pytest.fixture
async def service(redis_url: str) -> AsyncGenerator[RoomService]:
    async with harness.service(redis_url, newcomers_per_minute=0) as service:
        await service.room.store.write({"return_hosts": "shop.example", "admission_rate": "10"})
        service.rooms.forget()
        yield service


async def test_a_browser_is_told_beforehand_what_a_known_host_may_ask(service: RoomService) -> None:
    asked = {"origin": KNOWN, "access-control-request-method": "POST"}
    for path in (
        "/v1/enter",
        "/v1/redeem",
        f"/v1/verify?queue={QUEUE}",
        "/api/v1/sessions/x/renew",
    ):
        response = await service.visitor().http.request("OPTIONS", path, headers=asked)
        assert (response.status_code, response.headers["vary"]) == (204, "origin")
        assert response.headers["access-control-allow-origin"] == KNOWN
        assert response.headers["access-control-allow-headers"] == "content-type, wr-session"
        assert "access-control-allow-credentials" not in response.headers


@pytest.mark.parametrize("origin", STRANGERS)
async def test_nobody_else_is(service: RoomService, origin: str) -> None:
    asked = {"origin": origin, "access-control-request-method": "POST"}
    response = await service.visitor().http.request("OPTIONS", "/v1/enter", headers=asked)
    assert response.status_code == 403
    given = await service.visitor().post("/v1/enter", {"queue": QUEUE}, headers={"origin": origin})
    for each in (response, given):
        assert not [name for name in each.headers if name.startswith("access-control-")]


async def test_a_page_may_read_every_answer_to_it_also_those_that_refuse(
    service: RoomService,
) -> None:
    visitor = service.visitor()
    said = {"origin": KNOWN}
    entered = await visitor.post(
        "/v1/enter", {"queue": QUEUE, "host": "shop.example"}, headers=said
    )
    assert entered.status_code == 200
    refused = await visitor.post("/v1/redeem", {"token": "shop.x", "host": "y"}, headers=said)
    assert refused.status_code == 401
    for each in (entered, refused):
        assert each.headers["access-control-allow-origin"] == KNOWN
    session = entered.json()
    path = f"/api/v1/sessions/{session['session_id']}/complete"
    done = await visitor.post(path, headers={**said, "wr-session": session["session_token"]})
    assert (done.status_code, done.headers["access-control-allow-origin"]) == (200, KNOWN)
    assert (await service.room.state()).inside == 0


async def test_what_belongs_to_visitors_and_operators_is_for_no_other_page(
    service: RoomService,
) -> None:
    asked = {"origin": KNOWN, "access-control-request-method": "POST"}
    for path in (f"/api/v1/queues/{QUEUE}/enqueue", "/api/v1/admin/queues", f"/wait/{QUEUE}"):
        response = await service.visitor().http.request("OPTIONS", path, headers=asked)
        assert response.status_code == 405
        assert "access-control-allow-origin" not in response.headers


async def test_the_script_is_sent_once(service: RoomService) -> None:
    sent = await service.visitor().get("/v1/guard.js")
    assert sent.headers["content-type"] == "text/javascript; charset=utf-8"
    tag = {"if-none-match": sent.headers["etag"]}
    assert (await service.visitor().get("/v1/guard.js", headers=tag)).status_code == 304
