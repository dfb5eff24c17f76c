"""Rooms that are deleted and made again, and rooms that are broken beside those that are not."""

from typing import Any

import pytest

from tests.waitingroom.harness import QUEUE, Harness
from tests.waitingroom.http.harness import RoomService
from waystation.core.errors import NotFound, StoreError, WrongState
from waystation.core.store.connection import connect
from waystation.waitingroom.metrics import RoomMetrics
from waystation.waitingroom.operating.history import History
from waystation.waitingroom.options import RoomOptions
from waystation.waitingroom.redis.keys import RoomKeys, RoomsKeys, is_of_room
from waystation.waitingroom.room import Room
from waystation.waitingroom.rooms import Rooms
from waystation.waitingroom.running import RoomMaintenance
from waystation.waitingroom.visitor import JoinRequest, Refused

ADMIN = "/api/v1/admin/queues"


async def one_in(harness: Harness, where: str) -> None:
    """Get somebody into one of the six states in which people are in a room."""
    if where == "prequeued":
        await harness.control.schedule(harness.clock.now_ms() + 60_000)
    await harness.join("a")
    if where in ("called", "late", "returned", "inside"):
        assert await harness.admit() == ["a"]
    if where in ("late", "returned"):
        await harness.clock.advance(121)
        await harness.admit()
    if where == "returned":
        await harness.room.recover(harness.places["a"], "a")
    if where == "inside":
        await harness.come_in("a")


@pytest.mark.parametrize("where", ["prequeued", "waiting", "returned", "called", "late", "inside"])
async def test_a_room_in_which_anybody_is_stays(harness: Harness, where: str) -> None:
    await harness.open()
    await one_in(harness, where)
    counts = await harness.room.counts()
    assert counts == {**dict.fromkeys(counts, 0), where: 1}
    with pytest.raises(WrongState, match="1 people are in the room"):
        await harness.room.delete()
    assert await harness.room.counts() == counts


async def _fill(redis: Any, kind: str, key: str) -> None:
    """Have something in a key that is not about people."""
    match kind:
        case "hash":
            await redis.hset(key, "event", "1")
        case "list":
            await redis.rpush(key, "1")
        case "stream":
            await redis.xadd(key, {"event": "x"})
        case "string":
            await redis.set(key, "1")
        case _:
            pass


@pytest.mark.parametrize("over_http", [True, False])
async def test_a_room_that_is_made_again_is_like_a_new_one(
    redis: Any, service: RoomService, over_http: bool
) -> None:
    """Whatever was kept of it, whoever wrote it."""
    admin = await service.operator()
    fresh = (await admin.post(ADMIN, {"id": "new", "settings": {"admission_rate": 3}})).json()
    old = service.rooms.of("old")
    await old.open(settings={"rules": "[]", "return_hosts": "evil.example", "invite_only": "1"})
    keys = old.store.keys_now()
    for line in RoomKeys.lines():
        if is_of_room(line):
            await _fill(redis, line.type, getattr(keys, line.name))
    await redis.hset(keys.stats, "total_enqueued", "1")
    for part in ("looks", "webhooks", "webhooks:state"):
        await redis.set(f"queue:{old.queue_id}:{part}", "1")

    if over_http:
        assert (await admin.http.delete(f"{ADMIN}/old")).status_code == 204
    else:
        await old.delete()
        service.rooms.forget()
    left = [each.decode() async for each in redis.scan_iter("*old*")]
    assert left == [keys.epoch]
    assert (await admin.get(f"{ADMIN}/old")).status_code == 404
    again = (await admin.post(ADMIN, {"id": "old", "settings": {"admission_rate": 3}})).json()
    assert again == {**fresh, "id": "old", "epoch": 2}
    meta, other = [await redis.hgetall(RoomKeys(each).meta) for each in ("old", "new")]
    assert {**meta, b"epoch": b"1", b"created_at": b"", b"updated_at": b""} == {
        **other, b"created_at": b"", b"updated_at": b"",
    }  # fmt: skip


async def test_nothing_of_a_deleted_room_comes_back_by_a_process_that_has_not_heard(
    harness: Harness,
) -> None:
    """Each step that another server may be about to make."""
    await harness.open()
    place = await harness.join("left")
    await harness.room.state(max_age=60)
    await harness.room.leave(place, "left")
    other = Room(QUEUE, harness.store, clock=harness.clock)
    redis: Any = harness.redis
    await other.delete()
    before = sorted([each async for each in redis.scan_iter()])
    request = JoinRequest(key="late", secret="late")
    assert await harness.room.join(request) == Refused("closed")
    assert await harness.room.enter(request) is None
    await harness.room.rejoin(place, "left")
    await harness.room.heartbeat(place)
    assert await harness.admit() == []
    await harness.expire()
    await History(harness.room).note()
    with pytest.raises(NotFound, match="deleted"):
        await harness.control.pause()
    assert sorted([each async for each in redis.scan_iter()]) == before


async def test_two_who_make_the_same_room_make_it_once(service: RoomService) -> None:
    admin = await service.operator()
    for status in (201, 409):
        made = await admin.post(ADMIN, {"id": "twin", "settings": {"invite_only": status == 201}})
        assert made.status_code == status
    seen = await service.rooms.of("twin").state()
    assert (seen.fields["invite_only"], seen.version) == ("1", 1)


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("first", ["delete", "open"])
async def test_a_room_that_is_made_while_it_is_deleted_is_on_the_list(
    redis: Any, service: RoomService, first: str, nth: int
) -> None:
    """The other one comes between any two commands; the list has what is set up."""
    mine, other = Room("twin", service.store), Room("twin", service.store)
    if first == "delete":
        await mine.open()
    ask, asked = mine.store.ask, list[object]()

    async def interrupted(*command: Any) -> Any:
        asked.append(command)
        if len(asked) == nth:
            await (other.open() if first == "delete" else other.delete())
        return await ask(*command)

    mine.store.ask = interrupted
    await (mine.delete() if first == "delete" else mine.open())
    listed = await redis.sismember(RoomsKeys().every, mine.queue_id)
    assert listed >= await redis.exists(RoomKeys("twin").meta)


async def _missing(redis: Any, keys: RoomKeys) -> None:
    await redis.delete(keys.meta)


async def _garbled(redis: Any, keys: RoomKeys) -> None:
    await redis.hset(keys.meta, "max_active", "many")


async def _mistyped(redis: Any, keys: RoomKeys) -> None:
    await redis.delete(keys.positions)
    await redis.set(keys.positions, "x")


async def _unplanned(redis: Any, keys: RoomKeys) -> None:
    await redis.hset(keys.schedule, "event", "{")


@pytest.mark.parametrize("broken", [_missing, _garbled, _mistyped, _unplanned])
async def test_what_is_wrong_with_one_room_does_not_concern_the_others(
    redis: Any, redis_url: str, service: RoomService, broken: Any
) -> None:
    """A loop over rooms never ends because of one of them, whichever it is."""
    names = ("aa", "mm", "zz")
    for name in names:
        await service.rooms.of(name).open(RoomOptions(admission_rate=10), settings={"follow": "{}"})
    await broken(redis, RoomKeys("mm"))
    well = [service.rooms.of(name) for name in ("aa", "zz")]
    for room in well:
        await room.join(JoinRequest(key="a", secret="a"))
    async with await connect(redis_url) as store:
        care = RoomMaintenance(Rooms(store), RoomMetrics(None))
        for duty in (care.admit, care.sweep, care.open_due, care.measure, care.follow, care.watch):
            await duty()
    assert [(await room.counts())["called"] for room in well] == [1, 1]
    admin = await service.operator()
    listed = (await admin.get(ADMIN)).json()["queues"]
    assert {"aa", "zz"} <= {each["id"] for each in listed}
    shown = await service.visitor().get("/v1/connector-config")
    rules = {each["id"]: each["rules"] for each in shown.json()["queues"]}
    assert {"aa", "zz"} <= rules.keys()
    # Nobody knows what it protects, if it is set up at all.
    assert rules.get("mm", []) == ([{"path": "/*"}] if broken in (_garbled, _mistyped) else [])
    origin = {"origin": "https://x.example", "access-control-request-method": "GET"}
    asked = await service.visitor().http.options("/v1/verify", headers=origin)
    assert asked.status_code == 403
    await redis.delete(RoomKeys("mm").positions)


async def test_a_store_that_is_away_is_not_the_fault_of_a_room(service: RoomService) -> None:
    """The loop around it reports that once, and tries again."""
    care = RoomMaintenance(service.rooms, RoomMetrics(None))
    await service.store.close()
    with pytest.raises(StoreError):
        await care.admit()


async def test_a_room_that_is_listed_and_has_no_settings_can_be_made_or_deleted(
    redis: Any, service: RoomService
) -> None:
    admin = await service.operator()
    for name in ("made", "gone"):
        await redis.sadd(RoomsKeys().every, f"{{{name}}}")
    service.rooms.forget()
    assert (await admin.post(ADMIN, {"id": "made", "settings": {}})).status_code == 201
    assert (await admin.http.delete(f"{ADMIN}/gone")).status_code == 204
    assert "gone" not in {each["id"] for each in (await admin.get(ADMIN)).json()["queues"]}
