"""Every statement of the spec about keys, fields and scripts, as it holds here."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.waitingroom.hands import QUEUE, Hands
from waystation.core.errors import NotFound
from waystation.core.store.keyspace import Keyspace
from waystation.core.store.script import LuaScript
from waystation.waitingroom.options import RoomOptions, Status
from waystation.waitingroom.redis.keys import RoomKeys, hour_of
from waystation.waitingroom.visitor import Called, Gone, Lane

DOCUMENTED = {
    "meta": ("queue:<name>:meta", "hash"),
    "normal_list": ("queue:<name>:waiting:0", "list"),
    "elevated_list": ("queue:<name>:waiting:1", "list"),
    "vip_list": ("queue:<name>:waiting:2", "list"),
    "premium_list": ("queue:<name>:waiting:3", "list"),
    "positions": ("queue:<name>:positions", "zset"),
    "position": ("position:<position>", "hash"),
    "session": ("session:<position>", "hash"),
    "sessions": ("queue:<name>:sessions:active", "set"),
    "newcomers": ("ratelimit:<network>:enqueue", "zset"),
    "revocation": ("revocation:<token>", "string"),
    "tokens": ("admission:<name>:tokens", "string"),
    "last_update": ("admission:<name>:last_update", "string"),
    "owner": ("ipmap:<name>:<visitor>", "string"),
    "stats": ("stats:<name>:hourly:<hour>", "hash"),
}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_documented_keys_have_their_names_and_types(name: str) -> None:
    """W-5, W-26, F-W19: byte for byte; the list without a lane was only an example."""
    row = next(row for row in RoomKeys.table() if row.name == name)
    assert (row.pattern, row.type) == DOCUMENTED[name]


def test_all_keys_of_a_room_with_braces_share_one_slot() -> None:
    """F20, F-W15: the spec's five keys of one enqueue lie on five nodes."""
    keys = (
        RoomKeys(QUEUE).at(0).handed_over("t").of("{concert-tickets}:x", visitor="v", network="n")
    )
    found = {getattr(keys, line.name) for line in RoomKeys.lines() if line.name != "revocation"}
    assert all("{concert-tickets}" in key for key in found)
    assert issubclass(RoomKeys, Keyspace)


async def test_a_room_is_described_by_the_documented_fields(hands: Hands) -> None:
    """W-1, W-2: the sample's values work as they are."""
    await hands.open(
        name="Concert Ticket Sale",
        target_url="https://example.com/checkout",
        max_active=1000,
        max_queue_size=50_000,
        admission_rate=10,
    )
    meta = await hands.hash(hands.keys.meta)
    wanted = {
        "name": "Concert Ticket Sale",
        "target_url": "https://example.com/checkout",
        "max_active": "1000",
        "max_queue_size": "50000",
        "admission_rate": "10",
        "status": "active",
        "created_at": "1700000000",
        "updated_at": "1700000000",
    }
    assert wanted.items() <= meta.items()
    assert await hands.redis.ttl(hands.keys.meta) == -1
    assert {"active", "paused", "maintenance"} <= {status.value for status in Status}


async def test_a_room_written_by_hand_from_the_spec_works(hands: Hands) -> None:
    """W-1: eight fields are enough; the rest has defaults."""
    fields: Any = {"name": "x", "max_active": "2", "admission_rate": "5", "status": "active"}
    await hands.redis.hset(hands.keys.meta, mapping=fields)  # pyright: ignore
    await hands.join_all("a", "b", "c")
    assert await hands.admit() == ["a", "b"]
    await hands.come_in("a")
    assert (await hands.room.state()).options == RoomOptions(
        name="x", max_active=2, admission_rate=5
    )


async def test_each_lane_has_a_list_and_a_number(hands: Hands) -> None:
    """W-3, W-4, W-6, W-7: joining goes to the back, and the sorted set knows the order."""
    await hands.open()
    for lane in Lane:
        await hands.join_all(f"first{lane}", f"second{lane}", lane=lane)
    lists = ("normal_list", "elevated_list", "vip_list", "premium_list")
    for lane, name in zip(Lane, lists, strict=True):
        key = getattr(hands.keys, name)
        assert await hands.redis.llen(key) == 2  # pyright: ignore
        head: Any = await hands.redis.lindex(key, 0)  # pyright: ignore
        assert hands.names([head.decode()]) == [f"first{lane.value}"]
    redis: Any = hands.redis
    assert await redis.zcard(hands.keys.positions) == 8
    assert await redis.zrank(hands.keys.positions, hands.places["first0"].id) == 0
    assert len(await redis.zrange(hands.keys.positions, 0, 9)) == 8
    score = await redis.zscore(hands.keys.positions, hands.places["first0"].id)
    assert score == hands.clock.now_ms() * 1000


async def test_a_place_is_described_by_the_documented_fields(hands: Hands) -> None:
    """W-8, W-13, W-27, F14, F15, F-W13, F-W14: in seconds, and nothing that names a person."""
    await hands.open()
    place = await hands.join(
        "ann", lane=2, address="192.0.2.1", agent="Mozilla/5.0", metadata='{"user_id":"123"}'
    )
    found = await hands.position("ann")
    assert found == {
        "queue_id": QUEUE,
        "status": "waiting",
        "priority": "2",
        "enqueued_at": "1700000000",
        "last_heartbeat": "1700000000",
        "ip_hash": place.owner,
        "ua_hash": found["ua_hash"],
        "proof": found["proof"],
        "metadata": '{"user_id":"123"}',
    }
    redis: Any = hands.redis
    assert 1200 <= await redis.ttl(hands.keys.of(place.id).position) <= 1800
    assert await redis.zscore(hands.keys.heartbeat, place.id) == 1_700_000_000


async def test_nothing_that_names_a_person_is_kept(hands: Hands) -> None:
    """F25: no address, no browser, no key, no secret, no token; only keyed digests."""
    await hands.open()
    await hands.join("ann-key", address="192.0.2.77", agent="Mozilla/5.0 (X11; Linux)")
    await hands.admit()
    await hands.come_in("ann-key")
    redis: Any = hands.redis
    kept = b""
    async for key in redis.scan_iter():
        kept += key + (await redis.dump(key))
    for word in (b"192.0.2.77", b"Mozilla", b"ann-key"):
        assert word not in kept


async def test_a_place_says_when_it_was_called_and_what_became_of_it(hands: Hands) -> None:
    """W-9, W-28, W-30, W-31, W-32: waiting, called, active, completed; each told by the place."""
    await hands.open()
    place = await hands.join("ann")
    await hands.clock.advance(5)
    assert await hands.admit() == ["ann"]
    assert isinstance(await hands.status("ann"), Called)
    await hands.clock.advance(7)
    await hands.come_in("ann")
    found = await hands.position("ann")
    assert (found["status"], found["session_id"]) == ("active", place.id)
    assert found["admitted_at"] == str(1_700_000_005)
    redis: Any = hands.redis
    assert await redis.sismember(hands.keys.sessions, place.id)
    await hands.room.complete(place)
    assert (await hands.position("ann"))["status"] == "completed"
    assert await redis.scard(hands.keys.sessions) == 0


async def test_joining_again_writes_nothing(hands: Hands) -> None:
    """W-29, W-22: the place that a visitor has is found by the visitor."""
    await hands.open()
    place = await hands.join("ann")
    before = await hands.position("ann")
    await hands.clock.advance(9)
    assert await hands.join("ann") == place
    assert await hands.position("ann") == before
    assert (await hands.room.statistics())["total_enqueued"] == 1


async def test_a_visitors_entry_lives_as_long_as_the_place(hands: Hands) -> None:
    """W-21, W-22: half an hour, renewed with every sign of life, gone with the place."""
    await hands.open()
    place = await hands.join("ann")
    owner = hands.keys.of(place.id, visitor=place.owner).owner
    assert 1200 <= await hands.redis.ttl(owner) <= 1800
    await hands.room.leave(place, "ann")
    assert await hands.redis.exists(owner) == 0


async def test_a_session_is_described_by_the_documented_fields(hands: Hands) -> None:
    """W-10, W-11, W-12, W-27: activity counts pages and keeps it alive up to its limit."""
    await hands.open(session=600, session_max=900)
    place = await hands.join("ann")
    await hands.admit()
    await hands.room.claim(place, "ann", user="user-123")
    session = await hands.room.get_session(place.id)
    assert (session.queue_id, session.user_id, session.status) == (QUEUE, "user-123", "active")
    assert session.started_at == datetime.fromtimestamp(1_700_000_000, UTC)
    assert session.expires_at == datetime.fromtimestamp(1_700_000_600, UTC)
    await hands.clock.advance(500)
    renewed = await hands.room.renew(place)
    assert (renewed.until_ms, renewed.limit_ms, renewed.views) == (
        1_700_000_900_000,
        1_700_000_900_000,
        1,
    )
    assert (await hands.room.get_session(place.id)).last_activity.timestamp() == 1_700_000_500
    ttl = await hands.redis.ttl(hands.keys.of(place.id).session)
    assert 300 <= ttl <= 400


async def test_a_session_that_has_ended_cannot_be_renewed(hands: Hands) -> None:
    """W-11, F-W19, F-W6: attack 31; and a hash that is gone stays gone."""
    await hands.open(session=60, session_max=600)
    place = await hands.join("ann")
    await hands.admit()
    await hands.come_in("ann")
    assert await hands.room.complete(place)
    assert not await hands.room.complete(place)
    with pytest.raises(NotFound, match="has ended"):
        await hands.room.renew(place)


async def test_renewal_can_be_switched_off(hands: Hands) -> None:
    """F39: some sites want everybody to have the same time."""
    await hands.open(session=60, session_max=600, session_renewal=False)
    place = await hands.join("ann")
    await hands.admit()
    await hands.come_in("ann")
    await hands.clock.advance(30)
    assert (await hands.room.renew(place)).until_ms == 1_700_000_060_000


async def test_whoever_falls_silent_is_found_by_the_last_sign_of_life(hands: Hands) -> None:
    """W-13, W-14, W-33, W-34: and is then in none of the structures."""
    await hands.open()
    await hands.join_all("silent", "alive")
    await hands.clock.advance(200)
    await hands.beat("alive")
    assert (await hands.position("alive"))["last_heartbeat"] == "1700000200"
    await hands.clock.advance(101)
    assert await hands.expire() == ["silent"]
    assert await hands.members(hands.keys.heartbeat) == ["alive"]
    assert await hands.members(hands.keys.positions) == ["alive"]
    assert await hands.expire() == []
    assert await hands.room.heartbeat(hands.places["silent"]) == Gone()


async def test_a_revoked_token_is_remembered_as_long_as_it_would_count(hands: Hands) -> None:
    """W-18, F24: attack 33; with its reason, and for a whole room by its epoch."""
    await hands.open()
    await hands.room.revoke("token-1", "abuse_detected", ttl=1800)
    assert await hands.room.revoked("token-1") == "abuse_detected"
    assert await hands.room.revoked("token-2") is None
    assert 1200 <= await hands.redis.ttl("revocation:token-1") <= 1800
    assert await hands.control.revoke_everything() == 2
    assert (await hands.room.state()).epoch == 2


async def test_turns_are_kept_under_the_documented_keys(hands: Hands) -> None:
    """W-19, W-20: a number of turns and the second they were counted."""
    await hands.open(admission_rate=10)
    await hands.join_all("a", "b", "c")
    await hands.admit()
    redis: Any = hands.redis
    assert float(await redis.get(hands.keys.tokens)) == 7
    assert float(await redis.get(hands.keys.last_update)) == 1_700_000_000
    assert await redis.ttl(hands.keys.tokens) == -1
    await hands.room.leave(hands.places["a"], "a")
    assert await hands.hash(hands.keys.state) | {"owed": "1"} == await hands.hash(hands.keys.state)


def test_an_hour_is_named_as_in_the_sample() -> None:
    """W-23: YYYYMMDDHH."""
    assert hour_of(1_704_110_400_000) == "2024010112"


async def test_leaving_frees_everything_and_joining_again_goes_to_the_back(hands: Hands) -> None:
    """F5, F-W3: attack 20."""
    await hands.open()
    await hands.join_all("a", "b")
    assert await hands.room.leave(hands.places["a"], "a") is True
    assert await hands.room.leave(hands.places["a"], "a") is False
    await hands.join("a")
    status = await hands.waiting("a")
    assert status.ahead == 1


def test_scripts_name_every_key_they_touch() -> None:
    """F19, F-W15, W-36: Dragonfly refuses a script that builds keys of its own."""
    doors = [door for door in LuaScript.every if "waitingroom" in door.script.where]
    assert len(doors) >= 15
    for door in doors:
        for command in ("'queue:", "'position:", "'session:", "'ipmap:", "'stats:"):
            assert command not in door.source


def test_scripts_keep_to_what_both_versions_of_lua_know() -> None:
    """F-W20: no 5.1-only functions, and whole numbers are written as such."""
    for door in LuaScript.every:
        if "waitingroom" in door.script.where:
            for word in ("math.pow", "table.getn", "loadstring", "setfenv", "math.mod("):
                assert word not in door.source
