"""How operators sign in, who has a key, and what they watch."""

import httpx2
import msgspec

from tests.support.patience import LIMIT_S
from tests.support.ports import free_port
from tests.waitingroom.http import harness
from tests.waitingroom.http.harness import HOST, QUEUE, Person, RoomService
from waystation.core.clock import HandClock
from waystation.core.http.server import serving
from waystation.waitingroom.http.options import ServerOptions

SIGN_IN = "/api/v1/admin/sign-in"
OPERATORS = "/api/v1/admin/operators"
ROOM = f"/api/v1/admin/queues/{QUEUE}"
OWN = {"origin": f"https://{HOST}"}


async def _signed_in(service: RoomService, role: str = "admin") -> tuple[Person, httpx2.Response]:
    key = (await service.operator(role)).http.headers["authorization"].partition(" ")[2]
    browser = service.visitor()
    return browser, await browser.post(SIGN_IN, {"key": key}, headers=OWN)


async def test_a_key_is_shown_once_and_a_cookie_stands_for_it(service: RoomService) -> None:
    browser, answer = await _signed_in(service)
    assert (answer.status_code, answer.json()["role"]) == (200, "admin")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-wr_o=")
    assert all(each in cookie for each in ("HttpOnly", "Secure", "SameSite=Strict", "Path=/"))
    assert (await browser.get(SIGN_IN)).json()["name"] == "a admin"
    assert (await browser.post(f"{ROOM}/pause", headers=OWN)).status_code == 200
    assert (await browser.http.delete(SIGN_IN)).status_code == 204
    browser.http.cookies.set("__Host-wr_o", cookie.partition("=")[2].partition(";")[0])
    assert (await browser.get(SIGN_IN)).status_code == 401


async def test_38_another_site_cannot_operate_in_somebody_s_name(service: RoomService) -> None:
    browser, _ = await _signed_in(service)
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "https://evil.test"}):
        answer = await browser.post(f"{ROOM}/pause", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "CROSS_SITE")
    assert (await service.room.state()).options.status == "active"


async def test_a_key_that_is_withdrawn_signs_everybody_out(service: RoomService) -> None:
    admin = await service.operator()
    browser, _ = await _signed_in(service, "viewer")
    assert (await browser.get(f"{ROOM}/stats")).status_code == 200
    assert (await admin.http.delete(f"{OPERATORS}/a viewer")).status_code == 204
    assert (await browser.get(f"{ROOM}/stats")).status_code == 401
    assert (await admin.http.delete(f"{OPERATORS}/a viewer")).status_code == 404


async def test_an_admin_hands_out_keys_and_sees_who_has_one(service: RoomService) -> None:
    admin = await service.operator()
    asked = {"name": "night shift", "role": "operator", "queues": [QUEUE], "days": 2}
    made = await admin.post(OPERATORS, asked)
    assert made.status_code == 201
    shift = service.visitor(authorization=f"Bearer {made.json()['key']}")
    assert (await shift.post(f"{ROOM}/pause")).status_code == 200
    assert (await shift.get(OPERATORS)).status_code == 403
    response = await admin.get(OPERATORS)
    assert [each["name"] for each in response.json()["operators"]] == ["a admin", "night shift"]
    assert made.json()["key"] not in response.text
    assert (await admin.post(OPERATORS, {"name": "x", "role": "king"})).status_code == 422
    limited = await service.operator("admin", [QUEUE])
    assert (await limited.post(OPERATORS, {"name": "x", "role": "admin"})).status_code == 403


async def test_54_guessing_at_the_sign_in_is_slow(service: RoomService) -> None:
    guesser = service.visitor("10.8.8.8")
    codes = [(await guesser.post(SIGN_IN, {"key": f"wrk_{n}"})).status_code for n in range(15)]
    assert (codes[0], codes[-1]) == (401, 429)


async def test_54_whoever_is_signed_in_is_not_locked_out_by_a_guesser_next_to_them(
    service: RoomService,
) -> None:
    browser, _ = await _signed_in(service)
    guesses = [(await service.visitor().post(SIGN_IN, {"key": "wrk_x"})) for _ in range(15)]
    assert guesses[-1].status_code == 429
    assert (await browser.post(f"{ROOM}/pause", headers=OWN)).status_code == 200


async def test_55_nobody_pushes_what_they_did_out_of_the_audit(redis_url: str) -> None:
    async with harness.service(redis_url, ServerOptions(), clock=HandClock()) as service:
        operator = await service.operator("operator")
        codes = [(await operator.post(f"{ROOM}/pause")).status_code for _ in range(70)]
        assert (codes[0], codes[-1], codes.count(200)) == (200, 429, 61)
        assert (await operator.get(f"{ROOM}/stats")).status_code == 200
        other = await service.operator("admin")
        assert (await other.post(f"{ROOM}/resume")).status_code == 200


async def test_the_numbers_come_by_themselves_once_a_second(service: RoomService) -> None:
    viewer = await service.operator("viewer")
    await service.visitor().join()
    port = free_port()
    headers = {"authorization": viewer.http.headers["authorization"]}
    async with (
        serving(service.app, host="127.0.0.1", port=port),
        httpx2.AsyncClient(headers=headers, timeout=LIMIT_S) as client,
        client.stream("GET", f"http://127.0.0.1:{port}{ROOM}/stats/stream") as response,
    ):
        assert response.headers["content-type"] == "text/event-stream"
        seen: list[list[int]] = []
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                seen.append(msgspec.json.decode(line[6:])["waiting"])
            if len(seen) == 2:
                break
    assert seen == [[1, 0, 0, 0], [1, 0, 0, 0]]
