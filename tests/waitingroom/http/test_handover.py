"""A session on its way from the waiting page to a site on another host."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.waitingroom.http import harness
from tests.waitingroom.http.harness import QUEUE, Person, RoomService
from waystation.core.clock import HandClock
from waystation.waitingroom.http.context import split_token
from waystation.waitingroom.visitor import Inside

SITE = "shop.example"
PAGE = {"accept": "text/html"}


async def handed(service: RoomService, visitor: Person | None = None) -> str:
    """The token that somebody who is called brings to the site."""
    await service.room.store.write({"return_hosts": f"{SITE},other.example"})
    service.rooms.forget()
    person = visitor or service.visitor()
    await person.get(f"/wait/{QUEUE}/facts?target=https://{SITE}/checkout?seat=4")
    await person.ask("POST", "enqueue", {})
    await service.admission.admit_now(1)
    sealed = service.tokens.seal_target(service.room, SITE, "/checkout?seat=4")
    begun = await person.ask("POST", "claim", {"return": sealed})
    address = urlsplit(str(begun.json()["redirect_url"]))
    assert (address.netloc, address.path) == (SITE, "/checkout")
    query = parse_qs(address.query)
    assert query["seat"] == ["4"]
    return query["wr_token"][0]


async def redeem(service: RoomService, token: str, host: str = SITE) -> Any:
    return await service.visitor("10.7.7.7").post("/v1/redeem", {"token": token, "host": host})


async def test_a_site_takes_the_session_over_once(service: RoomService) -> None:
    visitor = service.visitor()
    token = await handed(service, visitor)
    # Cookies only where they belong.
    assert visitor.cookie(f"s_{QUEUE}") == ""
    body = (await redeem(service, token)).json()
    assert body["queue_id"] == QUEUE
    claims = service.tokens.read_session(body["session_token"], QUEUE)
    assert claims.host == SITE
    place = await service.room.get_place(claims.sub)
    assert isinstance(await service.room.status(place), Inside)
    again = await redeem(service, token)
    assert (again.status_code, again.json()["code"]) == (401, "INVALID_TOKEN")


@pytest.mark.parametrize("query", ["", "?x=1", "?a=b%20c&d"])
@pytest.mark.parametrize("fragment", ["", "#section", "#/sale?from=mail"])
async def test_a_target_keeps_its_query_and_its_fragment(
    service: RoomService, query: str, fragment: str
) -> None:
    await service.room.store.write({"return_hosts": SITE})
    service.rooms.forget()
    person = await service.joined()
    await service.admission.admit_now(1)
    sealed = service.tokens.seal_target(service.room, SITE, f"/page{query}{fragment}")
    begun = await person.ask("POST", "claim", {"return": sealed})
    address = urlsplit(str(begun.json()["redirect_url"]))
    assert f"#{address.fragment}" == (fragment or "#")
    path, token = split_token(f"{address.path}?{address.query}")
    assert path == f"/page{query}"
    assert (await redeem(service, token)).status_code == 200


async def test_another_host_gets_nothing_and_spoils_nothing(service: RoomService) -> None:
    token = await handed(service)
    for host in ("other.example", "", f"{SITE}:8000", SITE.upper()):
        assert (await redeem(service, token, host)).status_code == 401
    assert (await redeem(service, token)).status_code == 200


async def test_a_token_counts_for_a_minute(service: RoomService) -> None:
    token = await handed(service)
    key = service.room.store.keys.handed_over("").handover
    (kept,) = await service.room.store.ask("KEYS", f"{key}*")
    assert 0 < await service.room.store.ask("TTL", kept) <= 60
    # What lies in the store does not show the token.
    assert token.rpartition(".")[2].encode() not in kept


async def test_a_session_that_has_ended_is_not_taken_over(service: RoomService) -> None:
    token = await handed(service)
    (place,) = await service.room.store.ask("SMEMBERS", service.room.store.keys.sessions)
    await service.room.terminate(
        await service.room.get_place(place.decode()), "an operator says so"
    )
    assert (await redeem(service, token)).status_code == 401


@pytest.mark.parametrize(
    "token", ["", ".", "shop.", "nobody.abc", "shop.abc", "{shop}.a", "x" * 256]
)
async def test_made_up_tokens_bring_nothing(service: RoomService, token: str) -> None:
    assert (await redeem(service, token)).status_code == 401


async def test_a_destination_on_the_pages_own_host_needs_no_token(service: RoomService) -> None:
    person = await service.joined()
    await service.admission.admit_now(1)
    sealed = service.tokens.seal_target(service.room, "", "/checkout")
    begun = await person.ask("POST", "claim", {"return": sealed})
    assert begun.json()["redirect_url"] == "/checkout"
    assert person.cookie(f"s_{QUEUE}")


async def test_a_form_hands_over_as_well(service: RoomService) -> None:
    await service.room.store.write({"return_hosts": SITE})
    person = await service.joined()
    await service.admission.admit_now(1)
    sealed = service.tokens.seal_target(service.room, SITE, "/checkout")
    sent = await person.http.post(f"/wait/{QUEUE}/claim", data={"r": sealed})
    assert sent.status_code == 303
    assert sent.headers["location"].startswith(f"//{SITE}/checkout?wr_token={QUEUE}.")
    assert "set-cookie" not in sent.headers


async def test_a_proxy_brings_the_token_to_verify(redis_url: str) -> None:
    options = harness.ServerOptions(
        poll_floor=0, trusted_proxies=["10.0.0.0/8"], public_url="https://wait.example/"
    )
    clock = HandClock()
    async with harness.service(redis_url, options, clock=clock) as service:
        site = {"x-original-host": SITE, "x-original-method": "GET", **PAGE}
        verify = f"/v1/verify?queue={QUEUE}"
        token = await handed(service)
        came = f"/checkout?seat=4&wr_token={token}"
        sent = await service.visitor().get(verify, headers={**site, "x-original-uri": "/checkout"})
        assert sent.headers["wr-location"].startswith(f"https://wait.example/wait/{QUEUE}?r=")
        clean = await service.visitor().get(
            f"{verify}&mode=redirect", headers={**site, "x-original-uri": came}
        )
        assert (clean.status_code, clean.headers["location"]) == (303, "/checkout?seat=4")
        assert clean.headers["set-cookie"].startswith(f"__Host-wr_s_{QUEUE}=")
        # Spent: it is sent to wait, and the page does not get the token.
        spent = await service.visitor().get(verify, headers={**site, "x-original-uri": came})
        assert spent.status_code == 401
        sealed = parse_qs(urlsplit(spent.headers["wr-location"]).query)["r"][0]
        back = service.tokens.seal.open(sealed, queue=QUEUE, now_s=service.tokens.now_s())
        assert (back.host, back.path) == (SITE, "/checkout?seat=4")
        passed = await service.visitor().get(
            verify,
            headers={**site, "x-original-uri": f"/checkout?wr_token={await handed(service)}"},
        )
        assert passed.status_code == 204
        assert passed.headers["set-cookie"].startswith(f"__Host-wr_s_{QUEUE}=")


@pytest.mark.parametrize(
    ("path", "plain", "token"),
    [
        ("/a", "/a", ""),
        ("/a?x=1", "/a?x=1", ""),
        ("/a?wr_token=shop.ab", "/a", "shop.ab"),
        ("/a?x=1&wr_token=shop.ab&y=2", "/a?x=1&y=2", "shop.ab"),
        ("/a?wr_token=one&wr_token=two", "/a", ""),
    ],
)
def test_the_token_leaves_the_address(path: str, plain: str, token: str) -> None:
    assert split_token(path) == (plain, token)
