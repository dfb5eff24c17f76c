"""What somebody who wants to jump the line achieves: nothing. Numbers are the reference's."""

import asyncio
import base64
import hashlib
import json
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest

from tests.support.patience import LIMIT_S, until
from tests.support.ports import free_port
from tests.waitingroom.http import harness
from tests.waitingroom.http.harness import ADMIN, QUEUE, RoomService
from waystation.core.clock import HandClock
from waystation.core.http.server import serving
from waystation.waitingroom.http.options import ServerOptions
from waystation.waitingroom.visitor import Lane


async def test_13_nobody_chooses_a_lane(service: RoomService) -> None:
    person = await service.arrived()
    answer = await person.ask("POST", "enqueue", {"priority": 3})
    assert answer.status_code == 400
    assert (await service.room.state()).waiting == 0


async def test_14_only_a_signed_invitation_opens_a_lane(service: RoomService) -> None:
    person = await service.arrived()
    good = service.invitation("guest-1", Lane.VIP)
    joined = await person.ask("POST", "enqueue", {"ticket": good})
    assert joined.json()["lane"] == 2
    now = int(service.tokens.now_s())
    for bad in (
        good[:-3] + "AAA",
        service.invitation("guest-2", exp=now - 60, iat=now - 600),
        service.invitation("guest-3", aud="other"),
        service.invitation("guest-4", epoch=0),
    ):
        other = await service.arrived("10.4.4.4")
        assert (await other.ask("POST", "enqueue", {"ticket": bad})).status_code == 401


async def test_14_a_hundred_uses_of_one_invitation_are_one_place(service: RoomService) -> None:
    people = [service.visitor(f"10.5.0.{number}") for number in range(100)]
    await asyncio.gather(*(person.arrive() for person in people))
    ticket = service.invitation("one place")
    answers = await asyncio.gather(
        *(person.ask("POST", "enqueue", {"ticket": ticket}) for person in people)
    )
    assert len({answer.json()["position_id"] for answer in answers}) == 1
    assert (await service.room.state()).waiting == 1


async def test_14_an_invitation_for_one_network_counts_only_there(service: RoomService) -> None:
    ticket = service.invitation("guest", ip="10.6.6.6")
    person = await service.arrived("10.6.6.7")
    assert (await person.ask("POST", "enqueue", {"ticket": ticket})).status_code == 403


async def test_15_a_place_cannot_be_edited(service: RoomService) -> None:
    first, person = service.visitor(), service.visitor("10.1.1.2")
    await first.join()
    ticket = (await person.join())["token"]
    head, body, signature = ticket.split(".")
    said = json.loads(base64.urlsafe_b64decode(body + "=="))
    for change in ({"seq": 1}, {"jti": "x"}, {"lane": 3}, {"iat": 1}, {"epoch": 99}):
        edited = base64.urlsafe_b64encode(json.dumps({**said, **change}).encode()).rstrip(b"=")
        bearer = {"authorization": f"Bearer {head}.{edited.decode()}.{signature}"}
        stranger = service.visitor("10.1.1.3")
        assert (await stranger.ask("GET", "status", headers=bearer)).status_code == 401
    assert (await person.ask("POST", "enqueue", {"seq": 1})).status_code == 400
    assert (await person.status())["people_ahead"] == 1


async def test_16_a_turn_cannot_be_taken_before_it_came(service: RoomService) -> None:
    person = await service.joined()
    assert (await person.claim()).status_code == 202
    assert (await service.room.state()).inside == 0


async def test_17_a_ticket_without_its_secret_opens_nothing(service: RoomService) -> None:
    person, thief = service.visitor(), service.visitor("10.8.8.8")
    ticket = (await person.join())["token"]
    await thief.arrive()
    await service.admission.admit_now(1)
    bearer = {"authorization": f"Bearer {ticket}"}
    for method, verb in (
        ("POST", "claim"), ("DELETE", "position"), ("POST", "recover"), ("POST", "rejoin"),
    ):  # fmt: skip
        assert (await thief.ask(method, verb, {}, headers=bearer)).status_code == 403
    assert (await service.room.state()).inside == 0
    assert (await person.claim()).status_code == 200


async def test_19_joining_again_and_again_is_one_place(service: RoomService) -> None:
    person = service.visitor()
    first = await person.join()
    answers = [await person.ask("POST", "enqueue", {}) for _ in range(50)]
    assert {answer.json()["position_id"] for answer in answers} == {first["position_id"]}


async def test_19_and_44_many_keys_from_one_network_are_limited(service: RoomService) -> None:
    await service.room.store.write({"newcomers_per_minute": "5"})
    codes: list[int] = []
    for number in range(8):
        person = await service.arrived(f"2001:db8:0:1::{number + 1:x}")
        codes.append((await person.ask("POST", "enqueue", {})).status_code)
    assert codes == [201] * 5 + [403] * 3


async def test_44_a_crowded_network_is_set_a_challenge_instead_of_refused(
    service: RoomService,
) -> None:
    await service.room.store.write({"newcomers_per_minute": "2", "crowded_pow_bits": "6"})
    service.rooms.forget()
    first = await service.arrived("10.4.4.4")
    assert (await first.ask("GET", "challenge")).status_code == 204
    for _ in range(2):
        await service.visitor("10.4.4.4").join()
    refused = await first.ask("POST", "enqueue", {})
    assert (refused.status_code, refused.json()["code"]) == (403, "CHALLENGE_REQUIRED")
    assert int(refused.headers["retry-after"]) >= 1

    puzzle = (await first.ask("GET", "challenge")).json()
    assert puzzle["difficulty"] == 6
    solution = _solve(puzzle["challenge"], puzzle["difficulty"])
    wrong = await first.ask("POST", "enqueue", {"pow": puzzle["challenge"] + ":no"})
    assert wrong.json()["code"] == "CHALLENGE_REQUIRED"
    thief = await service.arrived("10.4.4.4")
    stolen = await thief.ask("POST", "enqueue", {"pow": solution})
    assert stolen.json()["code"] == "CHALLENGE_REQUIRED"
    assert (await first.ask("POST", "enqueue", {"pow": solution})).status_code == 201
    again = await first.ask("POST", "enqueue", {"pow": solution})
    assert again.json()["code"] == "CHALLENGE_USED"
    # Elsewhere nobody has to work.
    assert (await service.visitor("10.4.4.5").join())["status"] == "waiting"


async def test_44_a_large_crowd_works_harder_and_has_an_end(service: RoomService) -> None:
    await service.room.store.write({"newcomers_per_minute": "1", "crowded_pow_bits": "4"})
    service.rooms.forget()
    hard: list[int] = []
    codes: list[str] = []
    for _ in range(12):
        person = await service.arrived("10.4.4.4")
        given = await person.ask("GET", "challenge")
        asked = {}
        if given.status_code == 200:
            puzzle = given.json()
            hard.append(puzzle["difficulty"])
            asked = {"pow": _solve(puzzle["challenge"], puzzle["difficulty"])}
        codes.append((await person.ask("POST", "enqueue", asked)).json().get("code", "joined"))
    assert codes == ["joined"] * 10 + ["RATE_LIMITED"] * 2
    assert hard == [4, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7]


async def test_44_a_room_may_refuse_crowded_networks(service: RoomService) -> None:
    admin = await service.operator("admin")
    for wrong in (-1, 25, "many"):
        bad = await admin.http.patch(ADMIN, json={"crowded_pow_bits": wrong})
        assert bad.status_code == 422, wrong
    done = await admin.http.patch(ADMIN, json={"crowded_pow_bits": 0, "newcomers_per_minute": 1})
    assert done.json()["settings"]["crowded_pow_bits"] == "0"
    await service.visitor("10.4.4.4").join()
    person = await service.arrived("10.4.4.4")
    assert (await person.ask("GET", "challenge")).status_code == 204
    refused = await person.ask("POST", "enqueue", {})
    assert (refused.status_code, refused.json()["code"]) == (429, "RATE_LIMITED")


async def test_22_one_idempotency_key_means_one_request(service: RoomService) -> None:
    person = await service.arrived()
    key = {"idempotency-key": "abc"}
    assert (await person.ask("POST", "enqueue", {}, headers=key)).status_code == 201
    assert (await person.ask("POST", "enqueue", {}, headers=key)).status_code == 200
    other = await person.ask("POST", "enqueue", {"target": "/x"}, headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_CONFLICT")


async def test_26_a_forged_address_is_ignored_and_a_proxy_s_word_believed(redis_url: str) -> None:
    """F30: only what a proxy of ours says about a visitor counts."""
    options = ServerOptions(poll_floor=0, trusted_proxies=["10.0.0.0/8"])
    async with harness.service(redis_url, options, newcomers_per_minute=1) as service:
        codes: list[int] = []
        for peer, said in (
            ("192.0.2.1", "1.1.1.1"),
            ("192.0.2.1", "2.2.2.2"),
            ("10.0.0.1", "9.9.9.9, 3.3.3.3, 10.0.0.7"),
            ("10.0.0.1", "8.8.8.8, 3.3.3.3"),
        ):
            person = await service.arrived(peer)
            headers = {"x-forwarded-for": said}
            codes.append((await person.ask("POST", "enqueue", {}, headers=headers)).status_code)
        assert codes == [201, 403, 201, 403]


async def test_45_asking_too_often_is_answered_without_the_store(redis_url: str) -> None:
    clock = HandClock()
    async with harness.service(redis_url, ServerOptions(), clock=clock) as service:
        person = await service.joined()
        codes = [(await person.ask("GET", "status")).status_code for _ in range(20)]
        assert codes[:10] == [200] * 10
        assert codes[-1] == 429
        late = await person.ask("GET", "status")
        assert int(late.headers["retry-after"]) >= 1
        await clock.advance(30)
        assert (await person.ask("GET", "status")).status_code == 200


async def test_46_a_challenge_is_solved_once_by_whom_it_was_set_for(service: RoomService) -> None:
    await service.room.store.write({"pow_bits": "8"})
    person = await service.arrived()
    assert (await person.ask("POST", "enqueue", {})).json()["code"] == "CHALLENGE_REQUIRED"
    puzzle = (await person.ask("GET", "challenge")).json()
    solution = _solve(puzzle["challenge"], puzzle["difficulty"])
    thief = await service.arrived("10.8.8.8")
    assert (await thief.ask("POST", "enqueue", {"pow": solution})).status_code == 403
    assert (await person.ask("POST", "enqueue", {"pow": solution})).status_code == 201
    again = await person.ask("POST", "enqueue", {"pow": solution})
    assert again.json()["code"] == "CHALLENGE_USED"
    for forged in ("", ":", "1.8.x.y:0", "a" * 5000):
        answer = await person.ask("POST", "enqueue", {"pow": forged[:3000]})
        assert answer.status_code in (403, 413)


async def test_47_large_and_deep_bodies_are_refused(service: RoomService) -> None:
    person = await service.arrived()
    deep = b'{"metadata":' + b"[" * 1500 + b"]" * 1500 + b"}"
    kind = {"content-type": "application/json"}
    path = f"/api/v1/queues/{QUEUE}/enqueue"
    assert (await person.http.post(path, content=deep, headers=kind)).status_code == 400
    assert (await person.ask("POST", "enqueue", {"locale": "x" * 5000})).status_code == 413
    large = {"metadata": {"note": "x" * 2000}}
    assert (await person.ask("POST", "enqueue", large)).status_code == 400
    plain = {"content-type": "text/plain"}
    assert (await person.http.post(path, content=b"{}", headers=plain)).status_code == 415


async def test_48_streams_are_few(redis_url: str) -> None:
    async with harness.service(redis_url, ServerOptions(poll_floor=0, streams=0)) as service:
        person = await service.joined()
        answer = await person.ask("GET", "events")
        assert (answer.status_code, answer.headers["retry-after"]) == (204, "30")


async def test_48_one_client_has_few_of_them(redis_url: str) -> None:
    options = ServerOptions(poll_floor=0, streams_client=2, trusted_proxies=["127.0.0.1/32"])
    port = free_port()
    url = f"http://127.0.0.1:{port}/api/v1/queues/{QUEUE}/events"
    async with (
        harness.service(redis_url, options) as service,
        serving(service.app, host="127.0.0.1", port=port),
        httpx2.AsyncClient(timeout=LIMIT_S) as client,
        AsyncExitStack() as following,
    ):
        tokens = [(await service.visitor(f"10.0.0.{n}").join())["token"] for n in range(4)]

        async def follow(token: str, address: str) -> int:
            headers = {"authorization": f"Bearer {token}", "x-forwarded-for": address}
            stream = client.stream("GET", url, headers=headers)
            return (await following.enter_async_context(stream)).status_code

        one, same, other = "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"
        assert [await follow(token, one) for token in tokens[:2]] == [200, 200]
        assert await follow(tokens[2], same) == 204
        assert await follow(tokens[3], other) == 200
        # Whoever goes away makes room.
        await following.aclose()

        async def has_room() -> bool:
            return await follow(tokens[2], same) == 200

        await until(has_room)


async def test_49_ghosts_and_ended_sessions_hold_up_no_call(redis_url: str) -> None:
    clock = HandClock()
    async with harness.service(
        redis_url, clock=clock, newcomers_per_minute=0, session=60
    ) as service:
        operator = await service.operator("operator")
        redis: Any = service.store.redis
        for number in range(600):
            await redis.zadd(service.room.store.keys.sessions_expiry, {f"{{shop}}:old{number}": 1})
            await redis.sadd(service.room.store.keys.sessions, f"{{shop}}:old{number}")
        for _ in range(10):
            await redis.rpush(service.room.store.keys.normal_list, *("{shop}:ghost",) * 10_000)
        person = await service.joined()
        path, asked = f"/api/v1/admin/queues/{QUEUE}/admit", {"count": 1}
        left: list[int] = []
        while not left or left[-1]:
            left.append((await operator.post(path, asked)).json()["waiting"])
            assert len(left) < 40
        # Each call did a bounded part of the work, and the one alive person was found.
        assert len(left) > 2
        assert (await person.status())["status"] == "admitted"
        assert (await service.room.state()).inside == 0


@pytest.mark.parametrize("name", ["x" * 65, "a:b", "a b", "{shop}", "..", "sh\u00f6p"])
async def test_51_strange_names_are_nobody_s(service: RoomService, name: str) -> None:
    answer = await service.visitor().get(f"/api/v1/queues/{name}/snapshot")
    assert answer.status_code in (404, 400)


def _solve(challenge: str, bits: int) -> str:
    tried = 0
    while True:
        digest = hashlib.sha256(f"{challenge}:{tried}".encode()).digest()
        if int.from_bytes(digest) >> (256 - bits) == 0:
            return f"{challenge}:{tried}"
        tried += 1


async def test_a_ticket_without_the_visitors_key_changes_nothing(service: RoomService) -> None:
    """Whoever got hold of a ticket alone can look, and no more."""
    victim = service.visitor()
    ticket = (await victim.join())["token"]
    noted = await victim.ask("POST", "notify", {"handle": "order-7"})
    assert noted.status_code == 201
    bodies = {("POST", "notify"): {"handle": "me"}, ("POST", "heartbeat"): {"leaving": True}}
    endpoints = [
        (each.method, each.path.rpartition("/")[2])
        for each in service.app.table
        if each.scope == "ticket" and each.method != "GET"
    ]
    assert ("POST", "heartbeat") in endpoints

    async def kept() -> dict[Any, Any]:
        keys = await service.store.redis.keys("*")
        return {key: await service.store.redis.dump(key) for key in sorted(keys)}

    before = await kept()
    thief = service.visitor("10.6.6.6", authorization=f"Bearer {ticket}")
    for method, verb in endpoints:
        for key in ({}, {"wr-visitor": "another-key-of-a-thief"}):
            got = await thief.ask(method, verb, bodies.get((method, verb), {}), headers=key)
            assert (got.status_code, got.json()["code"]) == (403, "NOT_YOURS"), verb
    assert await kept() == before
    for method, verb in endpoints:
        if verb in ("heartbeat", "notify"):
            own = await victim.ask(
                method, verb, {"handle": "x"} if method + verb == "POSTnotify" else {}
            )
            assert own.status_code in (200, 201, 204), verb
