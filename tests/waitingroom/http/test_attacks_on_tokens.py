"""What forged, stolen or bent tokens achieve: nothing. Numbers are the reference's."""

import base64

import msgspec

from tests.support.forgery import forged
from tests.waitingroom.http import harness
from tests.waitingroom.http.harness import QUEUE, Person, RoomService
from waystation.core.clock import HandClock
from waystation.waitingroom.middleware.gate import Keys
from waystation.waitingroom.options import RoomOptions
from waystation.waitingroom.signing import Kind


async def _verify(person: Person, token: str, queue: str = QUEUE) -> int:
    name = f"__Host-wr_s_{queue}"
    answer = await person.get(f"/v1/verify?queue={queue}", headers={"cookie": f"{name}={token}"})
    return answer.status_code


async def _session(service: RoomService) -> tuple[Person, str]:
    person = service.visitor()
    begun = await person.enter()
    return service.visitor("10.9.9.9"), begun["session_token"]


async def test_a_real_session_passes(service: RoomService) -> None:
    person, token = await _session(service)
    assert await _verify(person, token) == 204


async def test_3_a_ticket_is_no_session_and_a_session_no_ticket(service: RoomService) -> None:
    stranger, session = await _session(service)
    ticket = (await service.visitor("10.3.3.3").join())["token"]
    assert await _verify(stranger, ticket) == 401
    bearer = {"authorization": f"Bearer {session}"}
    assert (await stranger.ask("GET", "status", headers=bearer)).status_code == 401


async def test_4_a_session_of_another_room_does_not_count(service: RoomService) -> None:
    person, token = await _session(service)
    await service.rooms.of("{other}").open(RoomOptions())
    service.rooms.forget()
    assert await _verify(person, token, "other") == 401


async def test_5_an_old_session_is_only_renewed_while_it_lasts(redis_url: str) -> None:
    clock = HandClock()
    async with harness.service(redis_url, clock=clock, session=300) as service:
        person, token = await _session(service)
        await clock.advance(119)
        assert await _verify(person, token) == 204
        await clock.advance(400)
        assert await _verify(person, token) == 401


async def test_5_a_token_from_the_future_does_not_count(service: RoomService) -> None:
    person, token = await _session(service)
    claims = service.tokens.read_session(token, QUEUE)
    for ahead, status in ((20, 204), (60, 401)):
        later = msgspec.structs.replace(claims, nbf=int(service.tokens.now_s()) + ahead)
        assert await _verify(person, service.keyring.sign(later)) == status


async def test_7_nothing_of_an_earlier_epoch_counts(service: RoomService) -> None:
    person, token = await _session(service)
    waiting = await service.joined("10.3.3.3")
    await service.control.revoke_everything()
    await service.room.state()
    assert await _verify(person, token) == 401
    assert (await waiting.ask("GET", "status")).status_code == 401


async def test_9_and_10_a_token_is_written_in_one_way_only(service: RoomService) -> None:
    person, token = await _session(service)
    head, body, signature = token.split(".")
    for bent in (
        f"{head}=.{body}.{signature}",
        f"{head}.{body}.{signature}=",
        f"{head}.{body}.{signature[:-4]}",
        f"{head}.{body}",
        f"{token}.{signature}",
        token.replace(".", "..", 1),
        f"{token}%C3%A9",
    ):
        assert await _verify(person, bent) == 401
    twice = base64.urlsafe_b64encode(b'{"aud":"shop","aud":"other"}').rstrip(b"=").decode()
    assert await _verify(person, f"{head}.{twice}.{signature}") == 401


async def test_12_two_answers_to_one_question_are_refused(service: RoomService) -> None:
    person, token = await _session(service)
    name = f"__Host-wr_s_{QUEUE}"
    path = f"/v1/verify?queue={QUEUE}"
    twice = await person.get(path, headers={"cookie": f"{name}={token}; {name}=other"})
    assert twice.status_code == 401
    headers = {"cookie": f"{name}={token}", "wr-session": "other"}
    assert (await person.get(path, headers=headers)).status_code == 400


async def test_30_and_33_a_copied_session_dies_with_its_owner_s(service: RoomService) -> None:
    person = service.visitor()
    begun = await person.enter()
    thief = service.visitor("10.8.8.8")
    assert await _verify(thief, begun["session_token"]) == 204
    path = f"/api/v1/sessions/{begun['session_id']}"
    assert (await person.post(f"{path}/complete")).status_code == 200
    assert await _verify(thief, begun["session_token"]) == 401
    sent = await thief.get(
        f"/v1/verify/envoy/{QUEUE}/checkout", headers={"wr-session": begun["session_token"]}
    )
    assert sent.status_code == 429


async def test_a_session_that_an_operator_ends_stops_passing_at_once(service: RoomService) -> None:
    person, token = await _session(service)
    other, another = await _session(service)
    assert await _verify(person, token) == 204
    kicked = service.tokens.read_session(token, QUEUE).sub
    operator = await service.operator("operator")
    path = f"/api/v1/admin/queues/{QUEUE}/sessions/{kicked}"
    assert (await operator.http.delete(path)).status_code == 204
    assert await _verify(person, token) == 401
    assert await _verify(other, another) == 204


async def test_31_and_34_a_session_is_not_renewed_once_it_is_complete(service: RoomService) -> None:
    person = service.visitor()
    begun = await person.enter()
    headers = {"wr-session": begun["session_token"]}
    path = f"/api/v1/sessions/{begun['session_id']}"
    assert (await person.post(f"{path}/renew", headers=headers)).status_code == 200
    headers = {"wr-session": person.cookie(f"s_{QUEUE}")}
    assert (await person.post(f"{path}/complete", headers=headers)).status_code == 200
    assert (await person.post(f"{path}/renew", headers=headers)).status_code == 410
    assert (await service.room.state()).inside == 0


async def test_32_a_sealed_return_is_for_one_room_and_one_host(service: RoomService) -> None:
    await service.rooms.of("{other}").open(RoomOptions())
    service.rooms.forget()
    person = service.visitor()
    sent = await person.get(
        f"/v1/verify?queue={QUEUE}",
        headers={"x-original-uri": "/checkout", "x-original-host": "shop.test"},
    )
    sealed = sent.headers["wr-location"].partition("r=")[2]
    assert (await person.get(f"/wait/{QUEUE}?r={sealed}")).status_code == 200
    assert (await person.get(f"/wait/other?r={sealed}")).status_code == 400
    assert (await person.get(f"/wait/{QUEUE}?r={forged(sealed)}")).status_code == 400


async def test_56_ids_alone_open_nothing(service: RoomService) -> None:
    person = service.visitor()
    begun = await person.enter()
    stranger = service.visitor("10.8.8.8")
    mine = await stranger.enter()
    path = f"/api/v1/sessions/{begun['session_id']}"
    assert (await stranger.get(path)).status_code == 401
    headers = {"wr-session": mine["session_token"]}
    assert (await stranger.get(path, headers=headers)).status_code == 404


async def test_a_token_of_a_thousand_levels_does_not_count(service: RoomService) -> None:
    """What is read before its signature is checked may be anything."""
    person, token = await _session(service)
    deep = base64.urlsafe_b64encode(b"[" * 1400).decode()
    head, body, signature = token.split(".")
    for forged_token in (f"{deep}.{body}.{signature}", f"{head}.{deep}.{signature}"):
        assert await _verify(person, forged_token) == 401
        assert Keys(service.keyring.jwks()).read(forged_token, Kind.SESSION.value) is None
