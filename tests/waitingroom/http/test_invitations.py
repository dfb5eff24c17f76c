"""Invitations and access codes, from the operator's hand to a place in line."""

import asyncio
from typing import Any

from tests.waitingroom.http import harness
from tests.waitingroom.http.harness import QUEUE, Person, RoomService
from waystation.core.clock import HandClock

ROOT = f"/api/v1/admin/queues/{QUEUE}"


async def _codes(admin: Person, **more: Any) -> list[str]:
    made = await admin.post(f"{ROOT}/codes", {"batch": "press", "count": 1, "lane": 2, **more})
    assert made.status_code == 201, made.text
    return made.json()["codes"]


async def test_whoever_was_invited_comes_with_a_link(service: RoomService) -> None:
    admin = await service.operator()
    await service.room.store.write({"invite_only": "1"})
    made = await admin.post(f"{ROOT}/invites", {"keys": ["ada", "bob"], "lane": 3})
    assert made.status_code == 201
    ada, bob = made.json()["invites"]
    guest = service.visitor()
    where, _, query = ada["url"].partition("?")
    facts = (await guest.get(f"{where}/facts?{query}")).json()
    assert (facts["status"], facts["ticket"]) == ("new", ada["ticket"])
    joined = await guest.ask("POST", "enqueue", {"ticket": ada["ticket"]})
    assert (joined.status_code, joined.json()["lane"]) == (201, 3)

    gone = await admin.http.delete(f"{ROOT}/invites/{bob['jti']}")
    assert gone.status_code == 204
    other = await service.arrived("10.2.2.2")
    refused = await other.ask("POST", "enqueue", {"ticket": bob["ticket"]})
    assert (refused.status_code, refused.json()["code"]) == (401, "INVALID_TOKEN")


async def test_a_line_for_the_invited_asks_for_a_code_with_or_without_script(
    service: RoomService,
) -> None:
    admin = await service.operator()
    await service.room.store.write({"invite_only": "1"})
    [code] = await _codes(admin)
    person = service.visitor()
    page = await person.get(f"/wait/{QUEUE}?plain=1")
    assert 'data-status="invite"' in page.text
    assert (await person.get(f"/wait/{QUEUE}/facts")).json()["status"] == "invite"
    assert (await person.ask("POST", "enqueue", {})).json()["code"] == "INVITE_REQUIRED"
    wrong = await person.http.post(f"/wait/{QUEUE}/join", data={"code": "WRONG", "plain": "1"})
    assert wrong.headers["location"].endswith("&plain=1&trouble=code")
    page = await person.get(wrong.headers["location"])
    assert "is not valid, or is used up" in page.text
    joined = await person.http.post(f"/wait/{QUEUE}/join", data={"code": code, "plain": "1"})
    page = await person.get(joined.headers["location"])
    assert 'data-status="waiting"' in page.text
    assert (await service.room.state()).lanes == (0, 0, 1, 0)


async def test_14_a_hundred_uses_of_one_code_at_once_are_one_place(service: RoomService) -> None:
    [code] = await _codes(await service.operator())
    people = [service.visitor(f"10.5.1.{number}") for number in range(100)]
    await asyncio.gather(*(person.arrive() for person in people))
    answers = await asyncio.gather(
        *(person.ask("POST", "enqueue", {"code": code}) for person in people)
    )
    assert sorted(answer.status_code for answer in answers) == [201] + [403] * 99
    assert (await service.room.state()).waiting == 1


async def test_59_a_guesser_learns_nothing_from_a_code_that_is_nearly_right(redis_url: str) -> None:
    async with harness.service(redis_url, clock=HandClock()) as service:
        right, used = await _codes(await service.operator(), count=2)
        first = await service.arrived("10.6.0.1")
        assert (await first.ask("POST", "enqueue", {"code": used})).status_code == 201
        wrong = right[:-1] + ("0" if right[-1] != "0" else "1")
        answers: set[str] = set()
        for number, code in enumerate([wrong, right[:4], used, "0000-0000-0000", "x"]):
            guesser = await service.arrived(f"10.6.1.{number}")
            before = await _calls(service)
            answer = await guesser.ask("POST", "enqueue", {"code": code})
            assert await _calls(service) - before == 1
            body = answer.json()
            del body["request_id"]
            answers.add(f"{answer.status_code} {body} {sorted(answer.headers)}")
        assert len(answers) == 1
        assert "CODE_INVALID" in answers.pop()


async def test_59_guessing_codes_is_slow(service: RoomService) -> None:
    guesser = await service.arrived("10.8.8.8")
    codes = [
        (await guesser.ask("POST", "enqueue", {"code": f"{n}"})).status_code for n in range(15)
    ]
    assert codes[0] == 403
    assert codes[-1] == 429


async def test_codes_are_seen_once_counted_and_taken_back(service: RoomService) -> None:
    admin = await service.operator()
    [code] = await _codes(admin, uses=3)
    person = await service.arrived()
    await person.ask("POST", "enqueue", {"code": code})
    [batch] = (await admin.get(f"{ROOT}/codes")).json()["batches"]
    assert (batch["batch"], batch["codes"], batch["used"], batch["uses"]) == ("press", 1, 1, 3)
    assert (await admin.http.delete(f"{ROOT}/codes/press")).status_code == 204
    assert (await admin.http.delete(f"{ROOT}/codes/press")).status_code == 404
    assert code not in (await admin.get("/api/v1/admin/audit")).text
    operator = await service.operator("operator")
    assert (await operator.post(f"{ROOT}/codes", {"batch": "b", "count": 1})).status_code == 403
    wrongs: list[dict[str, Any]] = [{"keys": []}, {"keys": [""]}, {"keys": ["a"], "minutes": 0}]
    for wrong in wrongs:
        assert (await admin.post(f"{ROOT}/invites", wrong)).status_code == 422


async def _calls(service: RoomService) -> int:
    """Script calls that the store has answered, which is what a wrong guess costs."""
    raw: Any = await service.store.redis.info("commandstats")
    return raw.get("cmdstat_evalsha", {}).get("calls", 0)


async def test_a_revocation_is_kept_as_long_as_its_invitation_counts(service: RoomService) -> None:
    admin = await service.operator()
    asked = {"keys": ["ada"], "minutes": 10}
    (made,) = (await admin.post(f"{ROOT}/invites", asked)).json()["invites"]
    assert (await admin.http.delete(f"{ROOT}/invites/{made['jti']}")).status_code == 204
    left_s = await service.store.redis.ttl(service.room.store.keys.revocation_of(made["jti"]))
    assert 540 < left_s <= 660
    person = await service.arrived()
    refused = await person.ask("POST", "enqueue", {"ticket": made["ticket"]})
    assert refused.status_code == 401
    # What somebody else has signed says nothing about itself.
    await admin.http.delete(f"{ROOT}/invites/somebody-else-s")
    assert (
        await service.store.redis.ttl(service.room.store.keys.revocation_of("somebody-else-s"))
        > 86_400
    )


async def test_the_second_device_of_somebody_invited_may_claim_the_place(
    service: RoomService,
) -> None:
    """Nobody is shown a place that they cannot claim: who shows the invitation has it."""
    ticket = service.invitation("ada")
    phone, laptop = service.visitor(), service.visitor("10.3.3.3")
    first = await phone.join(ticket=ticket)
    second = await laptop.join(ticket=ticket)
    assert second["position_id"] == first["position_id"]
    for verb in ("heartbeat", "recover", "claim"):
        refused = await phone.ask("POST", verb, {})
        assert (refused.status_code, refused.json()["code"]) == (403, "NOT_YOURS"), verb
    assert (await laptop.ask("POST", "heartbeat", {})).status_code == 200
    await service.admission.admit_now(1)
    assert (await laptop.claim()).status_code == 200


async def test_an_invitation_that_is_passed_on_lets_one_device_in(service: RoomService) -> None:
    ticket = service.invitation("ada")
    first = service.visitor()
    await first.join(ticket=ticket)
    await service.admission.admit_now(1)
    assert (await first.claim()).status_code == 200
    for address in ("10.3.3.3", "10.3.3.4"):
        friend = service.visitor(address)
        await friend.join(ticket=ticket)
        refused = await friend.claim()
        assert (refused.status_code, refused.json()["code"]) == (403, "NOT_YOURS")
    assert (await first.claim()).status_code == 200
