"""What a visitor sees from joining to coming in."""

import asyncio
import contextlib
import hashlib

import httpx2

from tests.support.patience import until
from tests.support.ports import free_port
from tests.waitingroom.http import harness
from tests.waitingroom.http.harness import QUEUE, Person, RoomService
from waystation.core.clock import HandClock
from waystation.core.http.server import serving
from waystation.waitingroom.http.status import STALE_S


async def test_a_visitor_joins_waits_is_called_and_comes_in(service: RoomService) -> None:
    first, second = service.visitor(), service.visitor("10.1.1.2")
    assert (await first.join())["people_ahead"] == 0
    joined = await second.join()
    assert (joined["status"], joined["position"], joined["people_ahead"]) == ("waiting", 2, 1)
    assert (await second.claim()).status_code == 202

    await service.admission.admit_now(1)
    assert (await first.status())["status"] == "admitted"
    assert (await second.status())["people_ahead"] == 0
    begun = await first.claim()
    assert begun.status_code == 200
    assert begun.json()["redirect_url"] == "/"
    assert (await first.status())["status"] == "active"


async def test_whoever_keeps_no_cookie_gets_no_place(service: RoomService) -> None:
    answer = await service.visitor().ask("POST", "enqueue", {})
    assert answer.status_code == 401
    assert answer.json()["code"] == "VISITOR_KEY_REQUIRED"
    assert (await service.room.state()).waiting == 0


async def test_an_app_without_cookies_brings_a_key_and_a_secret(service: RoomService) -> None:
    app = service.visitor()
    key, secret = "k" * 43, "only the app knows"
    joined = await app.ask(
        "POST",
        "enqueue",
        {"h": hashlib.sha256(secret.encode()).hexdigest()},
        headers={"wr-visitor": key},
    )
    assert joined.status_code == 201
    app.http.cookies.clear()
    bearer = {"authorization": f"Bearer {joined.json()['token']}"}
    await service.admission.admit_now(1)
    wrong = await app.ask("POST", "claim", {"secret": "guessed"}, headers=bearer)
    assert wrong.status_code == 403
    begun = await app.ask("POST", "claim", {"secret": secret}, headers=bearer)
    assert begun.status_code == 200


async def test_the_snapshot_costs_the_store_nothing_within_a_second(service: RoomService) -> None:
    visitor = service.visitor()
    joined = await visitor.join()
    first = await visitor.ask("GET", "snapshot")
    before = (await service.store.redis.info("commandstats")).get("cmdstat_evalsha", {})
    second = await visitor.ask("GET", "snapshot")
    after = (await service.store.redis.info("commandstats")).get("cmdstat_evalsha", {})
    assert before == after
    assert first.headers["etag"] == second.headers["etag"]
    assert "max-age=1" in first.headers["cache-control"]
    body = first.json()
    assert body["curve"][0] == [[joined["seq"], 0]]
    fresh = await visitor.ask("GET", "snapshot", headers={"if-none-match": first.headers["etag"]})
    assert fresh.status_code == 304


async def test_a_missed_turn_can_be_taken_back(redis_url: str) -> None:
    clock = HandClock()
    async with harness.service(redis_url, clock=clock) as service:
        visitor = await service.joined()
        await service.admission.admit_now(1)
        await clock.advance(121)
        late = await visitor.ask("GET", "status")
        assert late.status_code == 410
        assert late.json()["code"] == "TURN_MISSED"
        assert late.json()["recoverable_until"]
        back = await visitor.ask("POST", "recover", {})
        assert back.json()["status"] == "returned"


async def test_whoever_left_by_mistake_takes_it_back(redis_url: str) -> None:
    clock = HandClock()
    async with harness.service(redis_url, clock=clock) as service:
        visitor, other = service.visitor(), service.visitor("10.1.1.2")
        place = await visitor.join()
        await other.join()
        left = (await visitor.ask("DELETE", "position", {})).json()
        assert left["status"] == "cancelled"
        assert left["rejoinable_until"]
        facts = (await visitor.get(f"/wait/{QUEUE}/facts")).json()
        assert (facts["status"], facts["rejoinable_until"]) == ("left", left["rejoinable_until"])
        back = await visitor.ask("POST", "rejoin", {})
        assert back.status_code == 200
        assert back.json()["people_ahead"] == 0
        assert back.json()["position_id"] == place["position_id"]
        assert "Max-Age=86400" in back.headers["set-cookie"]
        assert (await visitor.ask("DELETE", "position", {})).status_code == 200
        await clock.advance(121)
        bearer = {"authorization": f"Bearer {place['token']}"}
        late = await visitor.ask("POST", "rejoin", {}, headers=bearer)
        assert (late.status_code, late.json()["code"]) == (410, "PLACE_LOST")


async def test_a_full_line_a_closed_room_and_a_passing_one_say_so(service: RoomService) -> None:
    await service.visitor().join()
    await service.room.store.write({"max_queue_size": "1"})
    late = await service.arrived("10.1.1.2")
    full = await late.ask("POST", "enqueue", {})
    assert (full.status_code, full.json()["code"]) == (503, "QUEUE_FULL")
    assert full.headers["retry-after"]

    await service.control.close()
    over = await late.ask("POST", "enqueue", {})
    assert (over.status_code, over.json()["code"]) == (410, "ENDED")

    await service.room.store.write({"status": "active", "queueing_method": "passthrough"})
    passed = await late.ask("POST", "enqueue", {})
    assert (passed.status_code, passed.json()["status"]) == (200, "pass")
    assert late.cookie(f"s_{QUEUE}") == passed.json()["session_token"]


async def test_everybody_hears_the_operator(service: RoomService) -> None:
    visitor = await service.joined()
    await service.control.show_message({"en": "Back at noon"}, level="warning")
    assert (await visitor.status())["message"]["text"] == {"en": "Back at noon"}


async def test_a_heartbeat_keeps_a_place_and_says_when_the_next_is_due(
    service: RoomService,
) -> None:
    visitor = await service.joined()
    beat = await visitor.ask("POST", "heartbeat", {"visible": False})
    assert beat.json()["next_heartbeat_seconds"] == 120


async def test_a_problem_says_what_it_is(service: RoomService) -> None:
    answer = await service.visitor().ask("GET", "status")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json().keys() >= {"type", "title", "status", "code", "detail", "request_id"}
    missing = await service.visitor().get("/api/v1/queues/nowhere/snapshot")
    assert missing.status_code == 404
    wrong = await service.visitor().ask("PUT", "status")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET")


async def test_those_in_front_follow_their_place_live(service: RoomService) -> None:
    visitor = await service.joined()
    await service.admission.admit_now(1)
    live = await visitor.ask("GET", "events")
    assert live.headers["content-type"] == "text/event-stream"
    assert live.text.startswith("event: admitted\ndata: {")


async def test_those_far_behind_do_not(redis_url: str) -> None:
    from tests.waitingroom.http import harness
    from waystation.waitingroom.http.options import ServerOptions

    async with harness.service(redis_url, ServerOptions(poll_floor=0, front=0)) as service:
        visitor = await service.joined()
        assert (await visitor.ask("GET", "events")).status_code == 204


async def test_a_phone_that_changes_its_network_keeps_place_and_seat(service: RoomService) -> None:
    """F33: nothing is bound to an address."""
    person = service.visitor("203.0.113.5")
    joined = await person.join()
    moved = service.visitor("2001:db8::7")
    moved.http.cookies = person.http.cookies
    assert (await moved.status())["position_id"] == joined["position_id"]
    await service.admission.admit_now(1)
    assert (await moved.claim()).status_code == 200
    back = service.visitor("198.51.100.9")
    back.http.cookies = moved.http.cookies
    assert (await back.get(f"/v1/verify?queue={QUEUE}")).status_code == 204


async def test_the_snapshot_is_told_as_it_was_while_the_store_is_away(redis_url: str) -> None:
    clock = HandClock()
    async with harness.service(redis_url, clock=clock) as service:
        visitor = await service.joined()
        before = await visitor.ask("GET", "snapshot")
        await service.store.close()
        service.rooms.forget()
        await clock.advance(30)
        stale = await visitor.ask("GET", "snapshot")
        assert (stale.status_code, stale.json()) == (200, before.json())
        assert stale.headers["age"] == "30"
        await clock.advance(STALE_S)
        assert (await visitor.ask("GET", "snapshot")).status_code == 503


async def test_one_visitor_follows_the_line_in_a_few_tabs_only(service: RoomService) -> None:
    visitor, other = service.visitor(), service.visitor("10.1.1.9")
    await visitor.join()
    await other.join()
    port = free_port()
    async with (
        serving(service.app, host="127.0.0.1", port=port),
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as browser,
        contextlib.AsyncExitStack() as open_streams,
    ):
        path = f"/api/v1/queues/{QUEUE}/events"

        async def follow(person: Person) -> int:
            token = (await person.join())["token"]
            shown = {"authorization": f"Bearer {token}"}
            answer = await open_streams.enter_async_context(
                browser.stream("GET", path, headers=shown)
            )
            return answer.status_code

        begun = [asyncio.create_task(follow(visitor)) for _ in range(8)]
        statuses = sorted(await asyncio.gather(*begun))
        assert statuses == [200] * 3 + [204] * 5
        assert await follow(other) == 200
        # A tab that is closed, or loaded anew, makes room for the next.
        await open_streams.aclose()

        async def has_room() -> bool:
            return await follow(visitor) == 200

        await until(has_room)
