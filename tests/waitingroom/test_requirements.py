"""Every statement of the spec about keys, fields and scripts, as it holds here."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.waitingroom.harness import QUEUE, Harness
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


async def test_a_room_is_described_by_the_documented_fields(harness: Harness) -> None:
    """W-1, W-2: the sample's values work as they are."""
    await harness.open(
        name="Concert Ticket Sale",
        target_url="https://example.com/checkout",
        max_active=1000,
        max_queue_size=50_000,
        admission_rate=10,
    )
    meta = await harness.hash(harness.keys.meta)
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
    assert await harness.redis.ttl(harness.keys.meta) == -1
    assert {"active", "paused", "maintenance"} <= {status.value for status in Status}


async def test_a_room_written_by_hand_from_the_spec_works(harness: Harness) -> None:
    """W-1: eight fields are enough; the rest has defaults."""
    fields: Any = {"name": "x", "max_active": "2", "admission_rate": "5", "status": "active"}
    await harness.redis.hset(harness.keys.meta, mapping=fields)  # pyright: ignore
    await harness.join_all("a", "b", "c")
    assert await harness.admit() == ["a", "b"]
    await harness.come_in("a")
    assert (await harness.room.state()).options == RoomOptions(
        name="x", max_active=2, admission_rate=5
    )


async def test_each_lane_has_a_list_and_a_number(harness: Harness) -> None:
    """W-3, W-4, W-6, W-7: joining goes to the back, and the sorted set knows the order."""
    await harness.open()
    for lane in Lane:
        await harness.join_all(f"first{lane}", f"second{lane}", lane=lane)
    lists = ("normal_list", "elevated_list", "vip_list", "premium_list")
    for lane, name in zip(Lane, lists, strict=True):
        key = getattr(harness.keys, name)
        assert await harness.redis.llen(key) == 2  # pyright: ignore
        head: Any = await harness.redis.lindex(key, 0)  # pyright: ignore
        assert harness.names([head.decode()]) == [f"first{lane.value}"]
    redis: Any = harness.redis
    assert await redis.zcard(harness.keys.positions) == 8
    assert await redis.zrank(harness.keys.positions, harness.places["first0"].id) == 0
    assert len(await redis.zrange(harness.keys.positions, 0, 9)) == 8
    score = await redis.zscore(harness.keys.positions, harness.places["first0"].id)
    assert score == harness.clock.now_ms() * 1000


async def test_a_place_is_described_by_the_documented_fields(harness: Harness) -> None:
    """W-8, W-13, W-27, F14, F15, F-W13, F-W14: in seconds, and nothing that names a person."""
    await harness.open()
    place = await harness.join(
        "ann", lane=2, address="192.0.2.1", agent="Mozilla/5.0", metadata='{"user_id":"123"}'
    )
    found = await harness.position("ann")
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
    redis: Any = harness.redis
    # Half an hour, and as long as the usual options let a place last.
    assert 2200 <= await redis.ttl(harness.keys.of(place.id).position) <= 2280
    assert await redis.zscore(harness.keys.heartbeat, place.id) == 1_700_000_000


async def test_a_place_says_when_it_was_called_and_what_became_of_it(harness: Harness) -> None:
    """W-9, W-28, W-30, W-31, W-32: waiting, called, active, completed; each in its fields."""
    await harness.open()
    place = await harness.join("ann")
    await harness.clock.advance(5)
    assert await harness.admit() == ["ann"]
    assert isinstance(await harness.status("ann"), Called)
    await harness.clock.advance(7)
    await harness.come_in("ann")
    found = await harness.position("ann")
    assert (found["status"], found["session_id"]) == ("active", place.id)
    assert found["admitted_at"] == str(1_700_000_005)
    redis: Any = harness.redis
    assert await redis.sismember(harness.keys.sessions, place.id)
    await harness.room.complete(place)
    assert (await harness.position("ann"))["status"] == "completed"
    assert await redis.scard(harness.keys.sessions) == 0


async def test_joining_again_writes_nothing(harness: Harness) -> None:
    """W-29, W-22: the place that a visitor has is found by the visitor."""
    await harness.open()
    place = await harness.join("ann")
    before = await harness.position("ann")
    await harness.clock.advance(9)
    assert await harness.join("ann") == place
    assert await harness.position("ann") == before
    assert (await harness.room.statistics())["total_enqueued"] == 1


async def test_a_visitors_entry_lives_as_long_as_the_place(harness: Harness) -> None:
    """W-21, W-22: half an hour at least, renewed with every sign of life, gone with the place."""
    await harness.open()
    place = await harness.join("ann")
    owner = harness.keys.of(place.id, visitor=place.owner).owner
    assert 1800 <= await harness.redis.ttl(owner) <= 2280
    await harness.room.leave(place, "ann")
    assert await harness.redis.exists(owner) == 0


async def test_a_session_is_described_by_the_documented_fields(harness: Harness) -> None:
    """W-10, W-11, W-12, W-27: activity counts pages and keeps it alive up to its limit."""
    await harness.open(session=600, session_max=900)
    place = await harness.join("ann")
    await harness.admit()
    await harness.room.claim(place, "ann", user="user-123")
    session = await harness.room.get_session(place.id)
    assert (session.queue_id, session.user_id, session.status) == (QUEUE, "user-123", "active")
    assert session.started_at == datetime.fromtimestamp(1_700_000_000, UTC)
    assert session.expires_at == datetime.fromtimestamp(1_700_000_600, UTC)
    await harness.clock.advance(500)
    renewed = await harness.room.renew(place)
    assert (renewed.until_ms, renewed.limit_ms, renewed.views) == (
        1_700_000_900_000,
        1_700_000_900_000,
        1,
    )
    assert (await harness.room.get_session(place.id)).last_activity.timestamp() == 1_700_000_500
    ttl = await harness.redis.ttl(harness.keys.of(place.id).session)
    assert 300 <= ttl <= 400


async def test_a_session_that_has_ended_cannot_be_renewed(harness: Harness) -> None:
    """W-11, F-W19, F-W6: attack 31; and a hash that is gone stays gone."""
    await harness.open(session=60, session_max=600)
    place = await harness.join("ann")
    await harness.admit()
    await harness.come_in("ann")
    assert await harness.room.complete(place)
    assert not await harness.room.complete(place)
    with pytest.raises(NotFound, match="has ended"):
        await harness.room.renew(place)


async def test_renewal_can_be_switched_off(harness: Harness) -> None:
    """F39: some sites want everybody to have the same time."""
    await harness.open(session=60, session_max=600, session_renewal=False)
    place = await harness.join("ann")
    await harness.admit()
    await harness.come_in("ann")
    await harness.clock.advance(30)
    assert (await harness.room.renew(place)).until_ms == 1_700_000_060_000


async def test_whoever_falls_silent_is_found_by_the_last_sign_of_life(harness: Harness) -> None:
    """W-13, W-14, W-33, W-34, F-W7: and is then in none of the structures, beats or not."""
    await harness.open()
    await harness.join_all("silent", "alive")
    await harness.clock.advance(200)
    await harness.beat("alive")
    assert (await harness.position("alive"))["last_heartbeat"] == "1700000200"
    await harness.clock.advance(101)
    assert await harness.expire() == ["silent"]
    assert await harness.members(harness.keys.heartbeat) == ["alive"]
    assert await harness.members(harness.keys.positions) == ["alive"]
    assert await harness.expire() == []
    assert await harness.room.heartbeat(harness.places["silent"]) == Gone()


async def test_a_revoked_token_is_remembered_as_long_as_it_would_count(harness: Harness) -> None:
    """W-18, F24: attack 33; with its reason, and for a whole room by its epoch."""
    await harness.open()
    await harness.room.revoke("token-1", "abuse_detected", ttl=1800)
    assert await harness.room.revoked("token-1") == "abuse_detected"
    assert await harness.room.revoked("token-2") is None
    assert 1200 <= await harness.redis.ttl("revocation:token-1") <= 1800
    assert await harness.control.revoke_everything() == 2
    assert (await harness.room.state()).epoch == 2


async def test_turns_are_kept_under_the_documented_keys(harness: Harness) -> None:
    """W-19, W-20: a number of turns and the second they were counted."""
    await harness.open(admission_rate=10)
    await harness.join_all("a", "b", "c")
    await harness.admit()
    redis: Any = harness.redis
    assert float(await redis.get(harness.keys.tokens)) == 7
    assert float(await redis.get(harness.keys.last_update)) == 1_700_000_000
    assert await redis.ttl(harness.keys.tokens) == -1
    await harness.room.leave(harness.places["a"], "a")
    assert await harness.hash(harness.keys.state) | {"owed": "1"} == await harness.hash(
        harness.keys.state
    )


def test_an_hour_is_named_as_in_the_sample() -> None:
    """W-23: YYYYMMDDHH."""
    assert hour_of(1_704_110_400_000) == "2024010112"


async def test_leaving_frees_everything_and_joining_again_goes_to_the_back(
    harness: Harness,
) -> None:
    """F5, F-W3: attack 20."""
    await harness.open()
    await harness.join_all("a", "b")
    assert await harness.room.leave(harness.places["a"], "a") is True
    assert await harness.room.leave(harness.places["a"], "a") is False
    await harness.join("a")
    status = await harness.waiting("a")
    assert status.ahead == 1


def test_scripts_name_every_key_they_touch() -> None:
    """F19, F-W15, W-36: Dragonfly refuses a script that builds keys of its own."""
    scripts = [script for script in LuaScript.every if "waitingroom" in script.script.where]
    assert len(scripts) >= 15
    for script in scripts:
        for command in ("'queue:", "'position:", "'session:", "'ipmap:", "'stats:"):
            assert command not in script.source


def test_scripts_keep_to_what_both_versions_of_lua_know() -> None:
    """F-W20: no 5.1-only functions, and whole numbers are written as such."""
    for script in LuaScript.every:
        if "waitingroom" in script.script.where:
            for word in ("math.pow", "table.getn", "loadstring", "setfenv", "math.mod("):
                assert word not in script.source
