"""Operators who sign in with a real identity provider, and what attackers make of it."""

from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import msgspec
import pytest

from tests.support.oidc.real import PEOPLE, log_in, provider
from tests.support.ports import free_port
from tests.waitingroom.http import harness
from tests.waitingroom.http.harness import HOST, QUEUE, Person, RoomService
from waystation.core.clock import HandClock
from waystation.core.operators.oidc_settings import CALLBACK, OidcOptions

SET_OUT = f"/operate/{QUEUE}/sign-in"
SIGN_IN = "/api/v1/admin/sign-in"
ROOM = f"/api/v1/admin/queues/{QUEUE}"
OWN = {"origin": f"https://{HOST}"}


@pytest.fixture(scope="module")
async def oidc() -> AsyncGenerator[OidcOptions]:
    async with provider(f"https://{HOST}") as running:
        yield running


@pytest.fixture
async def service(
    redis_url: str, oidc: OidcOptions, no_strays: None
) -> AsyncGenerator[RoomService]:
    async with harness.service(redis_url, oidc=oidc) as built:
        yield built


async def _set_out(browser: Person) -> str:
    answer = await browser.get(SET_OUT)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def _inside(where: str) -> str:
    """An address of ours without its host, which is not a real one."""
    parts = urlsplit(where)
    return f"{parts.path}?{parts.query}"


async def _signed_in(service: RoomService, name: str) -> tuple[Person, httpx2.Response]:
    browser = service.visitor()
    back = await log_in(await _set_out(browser), name)
    return browser, await browser.get(_inside(back))


async def test_somebody_whom_the_provider_knows_operates_as_their_group_may(
    service: RoomService,
) -> None:
    browser, answer = await _signed_in(service, "bob")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/operate/{QUEUE}")
    (cookie,) = (c for c in answer.headers.get_list("set-cookie") if c.startswith("__Host-wr_o="))
    assert all(each in cookie for each in ("HttpOnly", "Secure", "SameSite=Strict", "Path=/"))
    who = (await browser.get(SIGN_IN)).json()
    assert (who["name"], who["role"], who["queues"]) == ("oidc:bob", "operator", [QUEUE])
    assert (await browser.post(f"{ROOM}/pause", headers=OWN)).status_code == 200
    assert (await browser.http.patch(ROOM, json={"max_active": 5}, headers=OWN)).status_code == 403
    entries = (await service.app.operators.audit(10)).entries
    assert [(each["who"], each["action"]) for each in entries] == [
        ("oidc:bob", "pause"),
        ("oidc:bob", "sign-in"),
    ]
    assert msgspec.json.decode(entries[1]["after"])["subject"] == "bob"


async def test_an_admin_shows_them_out_and_sees_who_is_in(service: RoomService) -> None:
    browser, _ = await _signed_in(service, "bob")
    admin, _ = await _signed_in(service, "alice")
    people = (await admin.get("/api/v1/admin/operators")).json()["operators"]
    assert [each["name"] for each in people] == ["oidc:alice", "oidc:bob"]
    shown_out = await admin.http.delete("/api/v1/admin/operators/oidc:bob", headers=OWN)
    assert shown_out.status_code == 204
    assert (await browser.get(SIGN_IN)).status_code == 401


async def test_whoever_signs_out_is_out(service: RoomService) -> None:
    browser, _ = await _signed_in(service, "alice")
    assert (await browser.http.delete(SIGN_IN, headers=OWN)).status_code == 204
    assert (await browser.get(SIGN_IN)).status_code == 401


async def test_nobody_gets_in_whose_groups_say_nothing(service: RoomService) -> None:
    for name in ("eve", "a stranger"):
        assert not {"admins", "night-shift", "staff"} & set(PEOPLE.get(name, []))
        browser, answer = await _signed_in(service, name)
        assert (answer.status_code, "no group of yours may operate" in answer.text) == (403, True)
        assert (await browser.get(SIGN_IN)).status_code == 401
    assert await service.app.operators.every() == []


async def test_52_a_state_that_was_not_given_out_opens_nothing(service: RoomService) -> None:
    browser = service.visitor()
    back = await log_in(await _set_out(browser), "alice")
    said = {name: value for name, (value,) in parse_qs(urlsplit(back).query).items()}
    for wrong in ({**said, "state": "x" * 43}, {"code": said["code"]}, {}):
        answer = await browser.get(f"{CALLBACK}?{urlencode(wrong)}")
        assert (answer.status_code, "did not begin here" in answer.text) == (400, True)
    assert (await browser.get(SIGN_IN)).status_code == 401


async def test_52_nobody_finishes_what_another_browser_began(service: RoomService) -> None:
    """Otherwise a link could sign somebody in as the one who sent it."""
    attacker, victim = service.visitor("10.1.1.2"), service.visitor()
    back = await log_in(await _set_out(attacker), "bob")
    assert (await victim.get(_inside(back))).status_code == 400
    await _set_out(victim)
    assert (await victim.get(_inside(back))).status_code == 400
    assert (await victim.get(SIGN_IN)).status_code == 401


async def test_52_a_code_counts_once_and_only_where_it_was_asked_for(service: RoomService) -> None:
    browser, attacker = service.visitor(), service.visitor("10.1.1.2")
    back = await log_in(await _set_out(browser), "alice")
    assert (await browser.get(_inside(back))).status_code == 303
    assert (await browser.get(_inside(back))).status_code == 400
    stolen = parse_qs(urlsplit(back).query)["code"][0]
    for code in (stolen, parse_qs(urlsplit(await _fresh_code(service)).query)["code"][0]):
        state = parse_qs(urlsplit(await _set_out(attacker)).query)["state"][0]
        answer = await attacker.get(f"{CALLBACK}?{urlencode({'state': state, 'code': code})}")
        assert (answer.status_code, "does not know this sign-in" in answer.text) == (403, True)
    assert (await attacker.get(SIGN_IN)).status_code == 401


async def _fresh_code(service: RoomService) -> str:
    return await log_in(await _set_out(service.visitor("10.1.1.3")), "alice")


async def test_52_another_provider_s_answer_is_not_taken_for_ours(service: RoomService) -> None:
    browser = service.visitor()
    back = await log_in(await _set_out(browser), "alice")
    answer = await browser.get(_inside(back.replace("iss=http", "iss=https")))
    assert (answer.status_code, "Another identity provider" in answer.text) == (400, True)


async def test_whoever_says_no_there_is_told_so_here(service: RoomService) -> None:
    browser = service.visitor()
    state = parse_qs(urlsplit(await _set_out(browser)).query)["state"][0]
    said = {"state": state, "error": "access_denied", "error_description": "<script>"}
    answer = await browser.get(f"{CALLBACK}?{urlencode(said)}")
    assert (answer.status_code, "did not let you in" in answer.text) == (403, True)
    assert "<script>" not in answer.text


async def test_a_provider_that_is_away_is_told_on_a_page(redis_url: str, oidc: OidcOptions) -> None:
    away = msgspec.structs.replace(oidc, issuer=f"http://127.0.0.1:{free_port()}")
    async with harness.service(redis_url, oidc=away) as service:
        answer = await service.visitor().get(SET_OUT)
    assert (answer.status_code, answer.headers["content-type"]) == (502, "text/html; charset=utf-8")
    assert "The identity provider does not answer; try again later." in answer.text
    assert f'href="/operate/{QUEUE}"' in answer.text


async def test_a_provider_that_calls_itself_something_else_is_not_believed(
    redis_url: str, oidc: OidcOptions
) -> None:
    other = msgspec.structs.replace(oidc, issuer=oidc.issuer + "/")
    async with harness.service(redis_url, oidc=other) as service:
        answer = await service.visitor().get(SET_OUT)
    assert (answer.status_code, "calls itself something else" in answer.text) == (502, True)


async def test_a_wrong_secret_is_told_as_what_it_is(redis_url: str, oidc: OidcOptions) -> None:
    wrong = msgspec.structs.replace(oidc, client_secret="guessed")
    async with harness.service(redis_url, oidc=wrong) as service:
        _, answer = await _signed_in(service, "alice")
    assert (answer.status_code, "check client_id and its secret" in answer.text) == (502, True)


async def test_54_setting_out_again_and_again_is_slowed_down(
    redis_url: str, oidc: OidcOptions
) -> None:
    async with harness.service(redis_url, clock=HandClock(), oidc=oidc) as service:
        browser = service.visitor()
        assert [(await browser.get(SET_OUT)).status_code for _ in range(25)][-1] == 429
        assert (await service.visitor("10.1.1.2").get(SET_OUT)).status_code == 303


async def test_no_key_passes_for_somebody_whom_the_provider_knows(service: RoomService) -> None:
    await _signed_in(service, "alice")
    redis: Any = service.store.redis
    raw: list[bytes] = await redis.hkeys("admin:keys")
    issuer = service.oidc.issuer if service.oidc else ""
    for key in (f"{issuer}\nalice", *(each.decode() for each in raw)):
        answer = await service.visitor().post(SIGN_IN, {"key": key}, headers=OWN)
        assert answer.status_code == 401
    admin = await service.operator()
    named = await admin.post("/api/v1/admin/operators", {"name": "oidc:alice", "role": "viewer"})
    assert named.status_code == 422


async def test_without_a_provider_there_is_no_way_to_one(redis_url: str) -> None:
    async with harness.service(redis_url) as service:
        browser = service.visitor()
        assert (await browser.get(SET_OUT)).status_code == 404
        assert (await browser.get(CALLBACK)).status_code == 404
        assert 'hidden><a class="primary"' in (await browser.get(f"/operate/{QUEUE}")).text
