"""An identity provider that lies, or says nothing, lets nobody in."""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from tests.support.oidc.false import FalseProvider, false_provider
from tests.support.oidc.real import CLIENT
from tests.waitingroom.http import harness
from tests.waitingroom.http.harness import HOST, QUEUE, RoomService
from waystation.core.clock import HandClock
from waystation.core.operators.oidc import AWAY_S
from waystation.core.operators.oidc_settings import CALLBACK

SET_OUT = f"/operate/{QUEUE}/sign-in"


@pytest.fixture
async def liar() -> AsyncGenerator[FalseProvider]:
    async with false_provider(f"https://{HOST}") as running:
        yield running


@pytest.fixture
async def service(
    redis_url: str, liar: FalseProvider, no_strays: None
) -> AsyncGenerator[RoomService]:
    async with harness.service(redis_url, oidc=liar.options) as built:
        yield built


async def _come_back(service: RoomService, liar: FalseProvider, **said: Any) -> tuple[int, str]:
    """Sign in while the provider says this about somebody in every group."""
    browser = service.visitor()
    sent = await browser.get(SET_OUT)
    asked = {n: v for n, (v,) in parse_qs(urlsplit(sent.headers["location"]).query).items()}
    now = int(time.time())
    claims = {
        "iss": liar.issuer, "aud": CLIENT, "sub": "alice", "nonce": asked["nonce"],
        "iat": now, "exp": now + 60, "groups": ["admins"],
    }  # fmt: skip
    liar.token = lambda: liar.sign({**claims, **said})
    answer = await browser.get(f"{CALLBACK}?{urlencode({'state': asked['state'], 'code': 'c'})}")
    return answer.status_code, answer.text


async def test_the_truth_is_believed(service: RoomService, liar: FalseProvider) -> None:
    assert (await _come_back(service, liar))[0] == 303
    assert (await _come_back(service, liar, groups="admins"))[0] == 303


@pytest.mark.parametrize(
    "said",
    [
        {"nonce": "of another sign-in"}, {"aud": "another site"}, {"iss": "https://elsewhere"},
        {"exp": 1}, {"sub": ""}, {"sub": "a\nb"}, {"sub": "x" * 256}, {"groups": None},
        {"groups": {"admins": 1}}, {"groups": [["admins"]]}, {"groups": ["Admins"]},
    ],
)  # fmt: skip
async def test_52_a_lie_is_not(
    service: RoomService, liar: FalseProvider, said: dict[str, Any]
) -> None:
    status, text = await _come_back(service, liar, **said)
    assert (status, "Not signed in" in text) == (403, True)
    assert await service.app.operators.every() == []


async def test_52_what_nobody_signed_is_not(service: RoomService, liar: FalseProvider) -> None:
    liar.signs = False
    assert (await _come_back(service, liar))[0] == 403
    assert await service.app.operators.every() == []


@pytest.mark.parametrize(
    "said",
    [
        {"issuer": "https://elsewhere"},
        {"authorization_endpoint": "http://login.example/auth"},
        {"authorization_endpoint": "https://login.example/\r\nset-cookie: a=b"},
        {"token_endpoint": "http://10.0.0.1/token"},
        {"jwks_uri": ""},
        {"jwks_uri": None},
    ],
)
async def test_a_provider_that_names_no_safe_address_is_not_asked(
    service: RoomService, liar: FalseProvider, said: dict[str, Any]
) -> None:
    liar.itself |= said
    answer = await service.visitor().get(SET_OUT)
    assert (answer.status_code, "location" in answer.headers) == (502, False)


async def test_45_a_provider_that_is_away_is_asked_once_however_many_knock(
    redis_url: str, liar: FalseProvider
) -> None:
    clock = HandClock()
    liar.status = 500
    async with harness.service(redis_url, clock=clock, oidc=liar.options) as service:
        visitors = [service.visitor(f"10.6.0.{number}") for number in range(10)]
        answers = await asyncio.gather(*(each.get(SET_OUT) for each in visitors))
        assert {each.status_code for each in answers} == {502}
        assert len(liar.asked) == 1
        redis: Any = service.store.redis
        assert await redis.keys("admin:oidc:*") == []
        liar.status = 200
        await clock.advance(AWAY_S)
        assert (await visitors[0].get(SET_OUT)).status_code == 303
        assert len(liar.asked) == 2
