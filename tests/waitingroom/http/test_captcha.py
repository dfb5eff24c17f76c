"""A CAPTCHA for crowded networks, instead of the proof of work."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from msgspec.structs import replace

from tests.support.ports import free_port
from tests.waitingroom.http import harness
from tests.waitingroom.http.harness import OPTIONS, QUEUE, Person, RoomService
from waystation.core.clock import HandClock
from waystation.core.errors import InvalidOption, InvalidSetting
from waystation.core.http.exchange import Receive, Scope, Send
from waystation.core.http.server import serving
from waystation.core.settings.load import load
from waystation.core.settings.section import Secret
from waystation.waitingroom.http.options import AWAY_S, PROVIDERS, CaptchaOptions
from waystation.waitingroom.serving import server_options
from waystation.waitingroom.settings import RoomSettings


class Verifier:
    """What every provider is to a server: it takes a form and says whether it counts."""

    def __init__(self) -> None:
        self.forms: list[dict[str, list[str]]] = []
        self.status = 200

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            # The head of a request may come before its body.
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        self.forms.append(parse_qs(body.decode()))
        good = self.forms[-1]["response"][0].startswith("person")
        said = b'{"success": true}' if good else b'{"success": false, "error-codes": ["bad"]}'
        kind = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": self.status, "headers": kind})
        await send({"type": "http.response.body", "body": said})


@asynccontextmanager
async def crowded(
    redis_url: str, clock: HandClock | None = None
) -> AsyncGenerator[tuple[RoomService, Verifier, str]]:
    """A room behind a CAPTCHA of which one network has had its two places."""
    verifier, port = Verifier(), free_port()
    captcha = CaptchaOptions(
        provider="turnstile",
        site_key="the-site",
        secret=Secret("the-secret"),
        verify_url=f"http://127.0.0.1:{port}/siteverify",
    )
    options = replace(OPTIONS, captcha=captcha)
    async with (
        serving(verifier, host="127.0.0.1", port=port),
        harness.service(redis_url, options, clock=clock) as service,
    ):
        await service.room.store.write({"newcomers_per_minute": "2", "crowded_pow_bits": "4"})
        service.rooms.forget()
        for _ in range(2):
            await service.visitor("10.4.4.4").join()
        yield service, verifier, "10.4.4.4"


async def asks(person: Person, **asked: str) -> str:
    answer = await person.ask("POST", "enqueue", asked)
    return answer.json().get("code", str(answer.status_code))


async def test_a_person_of_a_crowded_network_gets_a_place(redis_url: str) -> None:
    async with crowded(redis_url) as (service, verifier, address):
        person = await service.arrived(address)
        assert await asks(person) == "CHALLENGE_REQUIRED"
        given = (await person.ask("GET", "challenge")).json()
        assert (given["algorithm"], given["provider"]) == ("captcha", "turnstile")
        assert given["challenge"] == "the-site"
        assert given["script_url"] == PROVIDERS["turnstile"].script_url
        assert "the-secret" not in str(given)
        assert await asks(person, captcha="a program") == "CHALLENGE_REQUIRED"
        assert await asks(person, captcha="person 1") == "201"
        assert verifier.forms == [
            {"secret": ["the-secret"], "response": [each]} for each in ("a program", "person 1")
        ]
        # Whoever comes from elsewhere is asked nothing.
        elsewhere = await service.arrived("10.4.4.5")
        assert (await elsewhere.ask("GET", "challenge")).status_code == 204
        assert await asks(elsewhere) == "201"


async def test_an_answer_counts_once_and_only_so_many_are_asked_about(redis_url: str) -> None:
    async with crowded(redis_url, HandClock()) as (service, verifier, address):
        person, thief = service.visitor(address), service.visitor(address)
        for each in (person, thief):
            await each.arrive()
        assert await asks(person, captcha="person 1") == "201"
        assert await asks(thief, captcha="person 1") == "CHALLENGE_USED"
        codes = [await asks(thief, captcha=f"guess {each}") for each in range(60)]
        assert codes[-1] == "RATE_LIMITED"
        assert len(verifier.forms) < 60
        assert await asks(thief, captcha="x" * 9000) == "MALFORMED"


@pytest.mark.parametrize("status", [200, 502])
async def test_while_the_provider_is_away_people_work_for_their_places(
    redis_url: str, status: int
) -> None:
    clock = HandClock()
    async with crowded(redis_url, clock) as (service, verifier, address):
        verifier.status = status
        person = await service.arrived(address)
        said = await asks(person, captcha="person 1")
        assert said == ("201" if status == 200 else "CHALLENGE_REQUIRED")
        given = (await person.ask("GET", "challenge")).json()
        assert given["algorithm"] == ("captcha" if status == 200 else "SHA-256")
        verifier.status = 200
        await clock.advance(AWAY_S + 1)
        for _ in range(2):
            await service.visitor(address).join()
        assert (await person.ask("GET", "challenge")).json()["algorithm"] == "captcha"


async def test_the_page_may_load_the_box_and_nothing_else(
    redis_url: str, service: RoomService
) -> None:
    plain = (await service.visitor().get(f"/wait/{QUEUE}")).headers["content-security-policy"]
    assert "frame-src" not in plain
    assert "https:" not in plain
    async with crowded(redis_url) as (other, _, address):
        page = await other.visitor(address).get(f"/wait/{QUEUE}")
        policy = page.headers["content-security-policy"].split("; ")
        theirs = "https://challenges.cloudflare.com"
        assert f"frame-src {theirs}" in policy
        (scripts,) = (each for each in policy if each.startswith("script-src"))
        assert scripts.endswith(f"' {theirs}")
        assert "unsafe" not in page.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"provider": "nobody"}, "provider must be one of turnstile, hcaptcha, recaptcha"),
        ({"site_key": ""}, "needs site_key and secret"),
        ({"secret": ""}, "needs site_key and secret"),
        ({"verify_url": "http://elsewhere.test/"}, "verify_url must be an https address"),
        ({"script_url": "https://a.test/; script-src *"}, "script_url must be an https address"),
    ],
)
def test_a_captcha_that_cannot_work_is_refused(wrong: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        CaptchaOptions(**{"provider": "hcaptcha", "site_key": "k", "secret": "s", **wrong})  # pyright: ignore[reportArgumentType]


def _set(**said: str) -> RoomSettings:
    environ = {f"WAYSTATION_ROOM__CAPTCHA__{name}": value for name, value in said.items()}
    return load({"room": RoomSettings}, Path("nowhere.yaml"), environ=environ)[RoomSettings]


def test_the_settings_name_the_provider() -> None:
    assert server_options(_set()).captcha is None
    captcha = server_options(_set(PROVIDER="hcaptcha", SITE_KEY="k", SECRET="s")).captcha
    assert captcha is not None
    assert captcha.policy == "https://hcaptcha.com https://*.hcaptcha.com"
    with pytest.raises(InvalidSetting, match=r"room\.captcha\.secret .*wants text, got nothing"):
        _set(PROVIDER="recaptcha", SITE_KEY="k")
