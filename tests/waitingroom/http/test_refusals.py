"""What a browser is shown that cannot have what it asks for, with and without scripts."""

import re

import httpx2
import pytest

from tests.support.forgery import forged
from tests.waitingroom.http import harness
from tests.waitingroom.http.harness import QUEUE, RoomService
from waystation.waitingroom.pages.words import languages

PAGE = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
WAIT = f"/wait/{QUEUE}"
PLAIN = {"plain": "1"}


def _status(page: httpx2.Response) -> str:
    found = re.search(r'<body data-status="(\w+)"', page.text)
    return found[1] if found else ""


def _wrong(service: RoomService, kind: str) -> tuple[str, int]:
    """A page that cannot be shown, and the status of the answer."""
    sealed = service.tokens.seal_target(service.room, "", "/checkout")
    return {
        "unknown": ("/wait/nowhere", 404),
        "link": (f"{WAIT}?r={forged(sealed)}", 400),
        "target": (f"{WAIT}?target=https%3A%2F%2Fevil.example%2F", 400),
    }[kind]


@pytest.mark.parametrize("lang", sorted(languages()))
@pytest.mark.parametrize("kind", ["unknown", "link", "target"])
async def test_a_browser_is_shown_a_page_in_its_language(
    service: RoomService, kind: str, lang: str
) -> None:
    path, status = _wrong(service, kind)
    person = service.visitor()
    shown = await person.get(path, headers={**PAGE, "accept-language": lang})
    assert (shown.status_code, _status(shown)) == (status, "refused")
    assert shown.headers["content-type"].startswith("text/html")
    assert "frame-ancestors 'none'" in shown.headers["content-security-policy"]
    words = languages()[lang]
    assert words[f"page_{kind}_text"].replace("'", "&#x27;") in shown.text
    assert "evil" not in shown.text
    # There is a way on wherever there is a room.
    assert (f'href="{WAIT}"' in shown.text) == (kind != "unknown")
    response = await person.get(path)
    assert response.headers["content-type"] == "application/problem+json"
    assert response.status_code == status


async def test_a_room_that_cannot_be_asked_is_asked_again_by_itself(redis_url: str) -> None:
    async with harness.service(redis_url) as service:
        person = await service.joined()
        await service.store.close()
        service.rooms.forget()
        service.room.store.forget_state()
        shown = await person.get(WAIT, headers=PAGE)
        assert (shown.status_code, _status(shown)) == (503, "refused")
        assert '<meta http-equiv="refresh" content="5">' in shown.text
        assert languages()["en"]["page_away_text"] in shown.text
        came = f"https://{harness.HOST}{WAIT}?lang=en&r=x"
        sent = await person.http.post(f"{WAIT}/claim", headers={**PAGE, "referer": came})
        assert sent.status_code == 503
        assert f'content="5; url={WAIT}?lang=en&amp;r=x"' in sent.text


async def test_a_crowded_network_is_told_so_without_scripts(redis_url: str) -> None:
    async with harness.service(redis_url, newcomers_per_minute=1) as service:
        await service.visitor().join()
        person = await service.arrived()
        sent = await person.http.post(f"{WAIT}/join", headers=PAGE, data=PLAIN)
        assert sent.status_code == 303
        shown = await person.get(sent.headers["location"], headers=PAGE)
        assert _status(shown) == "crowded"
        said = re.search(r'<p id="text">(.+)</p>', shown.text)
        assert said is not None
        assert re.fullmatch(
            languages()["en"]["text_crowded_form"].replace("{n}", r"\d+ seconds?"), said[1]
        )
        assert re.search(r'<form id="join"[^>]*action="/wait/shop/join" >', shown.text)
        assert 0 < int(sent.headers["location"].rpartition("after=")[2]) <= 60


async def test_a_browser_that_keeps_no_cookies_is_told_so_without_scripts(
    service: RoomService,
) -> None:
    person = service.visitor()
    sent = await person.http.post(f"{WAIT}/join", headers=PAGE)
    # The form is sent once more, with the cookie that it brought.
    assert sent.status_code == 307
    assert "wr_v" in sent.headers["set-cookie"]
    stranger = service.visitor()
    again = await stranger.http.post(sent.headers["location"], headers=PAGE, data=PLAIN)
    assert again.status_code == 303
    shown = await stranger.get(again.headers["location"], headers=PAGE)
    assert _status(shown) == "cookies"
    assert languages()["en"]["text_cookies"] in shown.text
    joined = await person.http.post(sent.headers["location"], headers=PAGE, data=PLAIN)
    assert joined.status_code == 303
    assert _status(await person.get(joined.headers["location"], headers=PAGE)) == "waiting"


async def test_work_that_needs_scripts_is_said_to_need_them(service: RoomService) -> None:
    await service.room.store.write({"pow_bits": "4"})
    person = await service.arrived()
    sent = await person.http.post(f"{WAIT}/join", headers=PAGE, data=PLAIN)
    shown = await person.get(sent.headers["location"], headers=PAGE)
    assert languages()["en"]["scripts"] in shown.text


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        ({"status": "maintenance"}, "maintenance"),
        ({"status": "closed"}, "closed"),
        ({"status": "draining"}, "closed"),
        ({"queueing_method": "reject"}, "rejected"),
    ],
)
async def test_a_room_that_takes_nobody_says_why(
    service: RoomService, settings: dict[str, str], status: str
) -> None:
    await service.room.store.write(settings)
    person = service.visitor()
    assert (await person.get(f"{WAIT}/facts")).json()["status"] == status
    shown = await person.get(f"{WAIT}?plain=1", headers=PAGE)
    assert _status(shown) == status
    looks_again = '<meta http-equiv="refresh"' in shown.text
    assert looks_again == (status in ("maintenance", "rejected"))


async def test_a_spoiled_link_does_not_cost_the_turn(service: RoomService) -> None:
    person = await service.joined()
    await service.admission.admit_now(1)
    spoiled = forged(service.tokens.seal_target(service.room, "", "/checkout"))
    sent = await person.http.post(f"{WAIT}/claim", data={"r": spoiled}, headers=PAGE)
    assert (sent.status_code, _status(sent)) == (400, "refused")
    assert (await person.ask("POST", "claim", {"return": spoiled})).status_code == 400
    assert (await service.room.state()).inside == 0
    assert (await person.claim()).status_code == 200


async def test_a_form_without_a_ticket_leads_back_to_the_page(service: RoomService) -> None:
    person = await service.arrived()
    for step in ("claim", "recover", "leave", "rejoin"):
        sent = await person.http.post(f"{WAIT}/{step}", headers=PAGE, data=PLAIN)
        assert sent.status_code == 303
        assert _status(await person.get(sent.headers["location"], headers=PAGE)) == "new"


async def test_too_many_wrong_codes_are_said_on_a_page(service: RoomService) -> None:
    await service.room.store.write({"invite_only": "1"})
    person = await service.arrived()
    join = f"{WAIT}/join"
    for _ in range(20):
        await person.http.post(join, data={"code": "NO"}, headers=PAGE)
    sent = await person.http.post(join, data={"code": "NO"}, headers=PAGE)
    assert (sent.status_code, _status(sent)) == (429, "refused")
    assert "try again in" in sent.text


async def test_the_log_says_once_that_a_host_was_not_named(
    service: RoomService, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        await service.visitor().get(f"{WAIT}?target=https%3A%2F%2Fshop.example%2F")
    (said,) = [each for each in caplog.records if "return_refused" in each.getMessage()]
    assert "return_hosts" in said.getMessage()
