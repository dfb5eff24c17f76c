"""A session on its way from the waiting page to a site on another host."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.waitingroom.http import hands
from tests.waitingroom.http.hands import QUEUE, House, Person
from waystation.core.clock import HandClock
from waystation.waitingroom.http.context import split_token
from waystation.waitingroom.visitor import Inside

SITE = "shop.example"
PAGE = {"accept": "text/html"}


async def handed(house: House, visitor: Person | None = None) -> str:
    """The token that somebody who is called brings to the site."""
    await house.room.store.write({"return_hosts": f"{SITE},other.example"})
    house.rooms.forget()
    person = visitor or house.visitor()
    await person.get(f"/wait/{QUEUE}/facts?target=https://{SITE}/checkout?seat=4")
    await person.ask("POST", "enqueue", {})
    await house.admission.admit_now(1)
    sealed = house.tokens.seal_target(house.room, SITE, "/checkout?seat=4")
    begun = await person.ask("POST", "claim", {"return": sealed})
    address = urlsplit(str(begun.json()["redirect_url"]))
    assert (address.netloc, address.path) == (SITE, "/checkout")
    query = parse_qs(address.query)
    assert query["seat"] == ["4"]
    return query["wr_token"][0]


async def redeem(house: House, token: str, host: str = SITE) -> Any:
    return await house.visitor("10.7.7.7").post("/v1/redeem", {"token": token, "host": host})


async def test_a_site_takes_the_session_over_once(house: House) -> None:
    visitor = house.visitor()
    token = await handed(house, visitor)
    # Cookies only where they belong.
    assert visitor.cookie(f"s_{QUEUE}") == ""
    body = (await redeem(house, token)).json()
    assert body["queue_id"] == QUEUE
    claims = house.tokens.read_session(body["session_token"], QUEUE)
    assert claims.host == SITE
    place = await house.room.get_place(claims.sub)
    assert isinstance(await house.room.status(place), Inside)
    again = await redeem(house, token)
    assert (again.status_code, again.json()["code"]) == (401, "INVALID_TOKEN")


@pytest.mark.parametrize("query", ["", "?x=1", "?a=b%20c&d"])
@pytest.mark.parametrize("fragment", ["", "#section", "#/sale?from=mail"])
async def test_a_target_keeps_its_query_and_its_fragment(
    house: House, query: str, fragment: str
) -> None:
    await house.room.store.write({"return_hosts": SITE})
    house.rooms.forget()
    person = await house.joined()
    await house.admission.admit_now(1)
    sealed = house.tokens.seal_target(house.room, SITE, f"/page{query}{fragment}")
    begun = await person.ask("POST", "claim", {"return": sealed})
    address = urlsplit(str(begun.json()["redirect_url"]))
    assert f"#{address.fragment}" == (fragment or "#")
    path, token = split_token(f"{address.path}?{address.query}")
    assert path == f"/page{query}"
    assert (await redeem(house, token)).status_code == 200


async def test_another_host_gets_nothing_and_spoils_nothing(house: House) -> None:
    token = await handed(house)
    for host in ("other.example", "", f"{SITE}:8000", SITE.upper()):
        assert (await redeem(house, token, host)).status_code == 401
    assert (await redeem(house, token)).status_code == 200


async def test_a_token_counts_for_a_minute(house: House) -> None:
    token = await handed(house)
    key = house.room.store.keys.handed_over("").handover
    (kept,) = await house.room.store.ask("KEYS", f"{key}*")
    assert 0 < await house.room.store.ask("TTL", kept) <= 60
    # What lies in the store does not show the token.
    assert token.rpartition(".")[2].encode() not in kept


async def test_a_session_that_has_ended_is_not_taken_over(house: House) -> None:
    token = await handed(house)
    (place,) = await house.room.store.ask("SMEMBERS", house.room.store.keys.sessions)
    await house.room.terminate(await house.room.get_place(place.decode()), "an operator says so")
    assert (await redeem(house, token)).status_code == 401


@pytest.mark.parametrize(
    "token", ["", ".", "shop.", "nobody.abc", "shop.abc", "{shop}.a", "x" * 256]
)
async def test_made_up_tokens_bring_nothing(house: House, token: str) -> None:
    assert (await redeem(house, token)).status_code == 401


async def test_a_destination_on_the_pages_own_host_needs_no_token(house: House) -> None:
    person = await house.joined()
    await house.admission.admit_now(1)
    sealed = house.tokens.seal_target(house.room, "", "/checkout")
    begun = await person.ask("POST", "claim", {"return": sealed})
    assert begun.json()["redirect_url"] == "/checkout"
    assert person.cookie(f"s_{QUEUE}")


async def test_a_form_hands_over_as_well(house: House) -> None:
    await house.room.store.write({"return_hosts": SITE})
    person = await house.joined()
    await house.admission.admit_now(1)
    sealed = house.tokens.seal_target(house.room, SITE, "/checkout")
    sent = await person.http.post(f"/wait/{QUEUE}/claim", data={"r": sealed})
    assert sent.status_code == 303
    assert sent.headers["location"].startswith(f"//{SITE}/checkout?wr_token={QUEUE}.")
    assert "set-cookie" not in sent.headers


async def test_a_proxy_brings_the_token_to_verify(redis_url: str) -> None:
    options = hands.ServerOptions(
        poll_floor_ms=0, trusted_proxies=["10.0.0.0/8"], public_url="https://wait.example/"
    )
    clock = HandClock()
    async with hands.house(redis_url, options, clock=clock) as house:
        site = {"x-original-host": SITE, "x-original-method": "GET", **PAGE}
        verify = f"/v1/verify?queue={QUEUE}"
        token = await handed(house)
        came = f"/checkout?seat=4&wr_token={token}"
        sent = await house.visitor().get(verify, headers={**site, "x-original-uri": "/checkout"})
        assert sent.headers["wr-location"].startswith(f"https://wait.example/wait/{QUEUE}?r=")
        clean = await house.visitor().get(
            f"{verify}&mode=redirect", headers={**site, "x-original-uri": came}
        )
        assert (clean.status_code, clean.headers["location"]) == (303, "/checkout?seat=4")
        assert clean.headers["set-cookie"].startswith(f"__Host-wr_s_{QUEUE}=")
        # Spent: it is sent to wait, and the page is not told the token.
        spent = await house.visitor().get(verify, headers={**site, "x-original-uri": came})
        assert spent.status_code == 401
        sealed = parse_qs(urlsplit(spent.headers["wr-location"]).query)["r"][0]
        back = house.tokens.seal.open(sealed, queue=QUEUE, now_s=house.tokens.now_s())
        assert (back.host, back.path) == (SITE, "/checkout?seat=4")
        passed = await house.visitor().get(
            verify,
            headers={**site, "x-original-uri": f"/checkout?wr_token={await handed(house)}"},
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
