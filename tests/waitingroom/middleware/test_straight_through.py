"""A site in front of which nobody waits does not show that it has a room."""

from collections.abc import MutableMapping
from typing import Any, NamedTuple

import pytest

from tests.waitingroom.http.harness import QUEUE
from tests.waitingroom.middleware.block import Block
from tests.waitingroom.middleware.shop import PAGE, Shop
from waystation.core.clock import HandClock
from waystation.waitingroom.middleware.gate import Gate, GateOptions, Redeem
from waystation.waitingroom.options import RoomOptions
from waystation.waitingroom.rules import Rule


async def test_a_visitor_passes_and_is_known_from_then_on(shop: Shop, clock: HandClock) -> None:
    await shop.service.room.store.write({"admission_rate": "10"})
    first = await shop.http.get("/checkout", headers=PAGE)
    assert first.status_code == 200
    assert first.headers["set-cookie"].startswith(f"__Host-wr_s_{QUEUE}=")
    second = await shop.http.get("/checkout", headers=PAGE)
    assert second.status_code == 200
    assert (await shop.service.room.state()).inside == 1
    await clock.advance(1000)
    assert (await shop.http.get("/checkout", headers=PAGE)).status_code == 200
    assert (await shop.service.room.state()).inside == 1


async def test_with_a_line_a_visitor_is_sent_to_it_and_the_room_is_not_asked_each_time(
    shop: Shop, clock: HandClock
) -> None:
    await shop.service.room.store.write({"admission_rate": "10"})
    await shop.service.visitor().join()
    shop.service.rooms.forget()
    for _ in range(3):
        assert (await shop.http.get("/checkout", headers=PAGE)).status_code == 303
    assert shop.asked.count("/v1/enter") == 1
    await shop.service.admission.admit_now(1)
    await clock.advance(2)
    shop.service.rooms.forget()
    assert (await shop.http.get("/checkout", headers=PAGE)).status_code == 200


async def test_nothing_but_pages_passes_by_itself(shop: Shop) -> None:
    await shop.service.room.store.write({"admission_rate": "10"})
    for response in (await shop.http.post("/checkout"), await shop.http.get("/checkout")):
        assert response.status_code == 429
    assert (await shop.service.room.state()).inside == 0


async def test_the_first_look_behind_nginx_passes_with_a_cookie(block: Block) -> None:
    await block.service.room.store.write({"admission_rate": "10"})
    got = await block.send("GET /checkout", "Accept: text/html")
    assert (got.status, got.body) == (200, "the shop")
    cookie = got.headers["set-cookie"].partition(";")[0]
    again = await block.send("GET /checkout", "Accept: text/html", f"Cookie: {cookie}")
    assert again.status == 200
    assert (await block.service.room.state()).inside == 1


async def test_a_session_from_another_host_is_kept_and_its_token_leaves_the_address(
    shop: Shop,
) -> None:
    await shop.service.room.store.write({"return_hosts": "shop.test"})
    visitor = shop.service.visitor()
    place = await visitor.enter()
    held = await shop.service.room.get_place(place["session_id"])
    token = f"{QUEUE}.{await shop.service.room.hand_over(held, 'shop.test')}"
    came = await shop.http.get(f"/checkout?seat=4&wr_token={token}", headers=PAGE)
    assert (came.status_code, came.headers["location"]) == (303, "/checkout?seat=4")
    assert came.headers["set-cookie"].startswith(f"__Host-wr_s_{QUEUE}=")
    assert (await shop.http.get("/checkout?seat=4", headers=PAGE)).status_code == 200
    assert shop.seen != []
    assert all("wr_token" not in str(each) for each in shop.seen)


async def test_a_token_that_does_not_count_only_leaves_the_address(shop: Shop) -> None:
    came = await shop.http.get("/checkout?wr_token=shop.made-up", headers=PAGE)
    assert (came.status_code, came.headers["location"]) == (303, "/checkout")
    assert "set-cookie" not in came.headers
    assert (await shop.http.get("/checkout", headers=PAGE)).status_code == 303


@pytest.mark.parametrize("path", ["//evil.example", "/\\evil.example", "\\\\evil.test", "///evil"])
def test_no_path_leads_to_another_host(path: str) -> None:
    found = Gate(GateOptions()).decide("GET", path, "wr_token=shop.x", {"host": "shop.test"})
    assert isinstance(found, Redeem)
    assert found.location.startswith("/evil")


BOTH = "/fair/../checkout"
"""Some sites take it for the part of one room, some for that of the other."""


async def test_the_session_of_one_room_does_not_open_the_part_of_another(
    shop: Shop, clock: HandClock
) -> None:
    fair = shop.service.rooms.of("{fair}")
    await fair.open(RoomOptions(admission_rate=10, max_active=10))
    rules = [Rule(queue="fair", path="/fair*"), Rule(queue=QUEUE, path="/checkout*")]
    site = Shop(shop.service, clock, GateOptions(rules=rules, room_url="https://wait.test"))
    # Nobody waits for the fair, so that it lets everybody in at once.
    own = (await shop.session())["cookie"]
    await shop.service.visitor().join()
    assert (await _read(site, BOTH, {})).status == 303
    passed = await _read(site, "/fair", {})
    assert passed.status == 200
    fair_cookie = passed.cookie
    assert (await _read(site, BOTH, {"cookie": fair_cookie})).status == 303
    both = f"{own}; {fair_cookie}"
    assert (await _read(site, BOTH, {"cookie": both})).status == 200
    # A session that was ended counts no more, although its signature still does.
    (inside,) = await shop.service.store.ask("SMEMBERS", shop.service.room.store.keys.sessions)
    await shop.service.room.complete(await shop.service.room.get_place(inside.decode()))
    assert (await _read(site, BOTH, {"cookie": both})).status == 303
    await site.http.aclose()


class _Given(NamedTuple):
    status: int
    cookie: str


async def _read(site: Shop, path: str, headers: dict[str, str]) -> _Given:
    """Ask for a path as it is written; clients resolve its dots."""
    given = list[dict[str, Any]]()

    async def send(message: MutableMapping[str, Any]) -> None:
        given.append(dict(message))

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    names = {**PAGE, "host": "shop.test", **headers}
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in names.items()],
    }
    await site.middleware(scope, receive, send)
    found = {name: value.decode() for name, value in given[0]["headers"]}
    return _Given(given[0]["status"], found.get(b"set-cookie", "").partition(";")[0])
