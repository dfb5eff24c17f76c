"""The room: a virtual waiting line that visitors join, wait in and are admitted from."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import NamedTuple, TypeVar

import msgspec

from waystation.core.clock import Clock
from waystation.core.durations import Duration, instant, milliseconds, seconds
from waystation.core.errors import InvalidInput, NotFound, WrongState
from waystation.core.events import Event, from_entry
from waystation.core.options import checked
from waystation.core.store.client import StoreClient
from waystation.core.store.connection import Store
from waystation.core.store.connection.batcher import Batcher
from waystation.core.store.script import Client
from waystation.waitingroom.estimates import estimate
from waystation.waitingroom.options import RoomOptions
from waystation.waitingroom.redis import replies, scripts
from waystation.waitingroom.redis.keys import RoomKeys, RoomsKeys, name_of
from waystation.waitingroom.redis.store import STATE_S, RoomStore
from waystation.waitingroom.state import RoomState
from waystation.waitingroom.visitor import (
    Begun,
    Entry,
    Forbidden,
    Identity,
    Joined,
    JoinRequest,
    Lane,
    Passed,
    Place,
    Renewal,
    Session,
    VisitorStatus,
    digest,
    identify,
    network_digests,
    new_id,
    proof_of,
)

T = TypeVar("T")

CURVE_POINTS = 64
"""Enough to find one's place to within a hundredth; everybody who looks is sent all of them."""
PROMISE_EVERY = 4
"""One in so many newcomers is remembered with their estimate."""
SOLVED_TIMES = 10
"""How many times as many may come from one network of those who have solved a challenge."""
HANDOVER_S = 60
"""How long a session may be on its way from the waiting page to the site."""


@checked
class Room(StoreClient):
    """One waiting room; many processes may work on the same one.

    Without a URL the store is the one that the settings name, as for every queue of waystation.
    """

    def __init__(
        self,
        name: str,
        url: str | Store | None = None,
        *,
        clock: Clock | None = None,
        bits: random.Random | None = None,
    ) -> None:
        super().__init__(url)
        keys = RoomKeys(name)
        self.queue_id = keys.name
        """The room's id in Redis: its name in braces."""
        self.name = name_of(self.queue_id)
        self._bits = bits or random.SystemRandom()
        self.store = RoomStore(keys, self._client, clock=clock, bits=self._bits)
        """Internal: the way to Redis, for the parts of a room."""
        self._joining = Batcher(self._join)
        self._looking = Batcher(self._status)
        self._beating = Batcher(self._heartbeat)
        self._joined = 0

    async def open(
        self,
        options: RoomOptions | None = None,
        *,
        version: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> int:
        """Create the room or replace its options; return its version.

        With `version` only if the room is still at that version, else WrongState; 0 for one that
        is not there yet. `settings` are fields that other parts keep in the `meta` hash.
        """
        fields = {**(options or RoomOptions()).to_fields(), **(settings or {})}
        event = "paused" if fields["status"] == "paused" else "resumed"
        # On the list first: a room that nobody finds could never be deleted. And once more after,
        # because somebody who deletes the one before may have taken it off meanwhile.
        await self._enlist()
        written = await self.store.write(fields, event=event, version=version, creates=True)
        await self._enlist()
        return written

    async def _enlist(self) -> None:
        await self.store.ask("SADD", RoomsKeys().every, self.queue_id)

    async def delete(self) -> None:
        """Delete the room with all that is kept of it; WrongState while anybody is in it."""
        keys = self.store.keys.whole(self.store.now_ms())
        if people := await scripts.delete(await self._client(), keys):
            raise WrongState(f"{people:,} people are in the room; close it and let it empty first")
        self.store.forget_state()
        await self.store.ask("SREM", RoomsKeys().every, self.queue_id)
        # Somebody may have made it again between the two.
        if await self.store.ask("EXISTS", keys.meta):
            await self._enlist()

    async def state(self, *, max_age: Duration = 0.0) -> RoomState:
        """The options and numbers of the room, at most that old; NotFound when it is not open."""
        return await self.store.state(seconds(max_age, "max_age"))

    async def counts(self) -> dict[str, int]:
        """The number of visitors by status."""
        seen = await self.state()
        return {
            "prequeued": seen.early,
            "waiting": sum(seen.lanes),
            "returned": seen.returned,
            "called": seen.called,
            "late": seen.late,
            "inside": seen.inside,
        }

    async def join(self, request: JoinRequest) -> Entry:
        """Ask for a place; a visitor who has one is given it again."""
        seen = self.store.recent_state() or await self.store.state(STATE_S)
        identity = identify(request, seen.pepper)
        place = Place(self.store.keys.node + new_id(self._bits), identity.owner)
        return await self._joining.ask(_Asking(request, place, identity, seen))

    async def _join(self, asking: Sequence["_Asking"]) -> Sequence[Entry]:
        seen = asking[-1].seen
        client = await self._client()
        keys, now = self.store.call()
        paces = [f"{estimate.lane_pace(seen, lane):.6g}" for lane in Lane]
        places, newcomers = list[Place](), list[str | int]()
        owners = list[tuple[str, str, Sequence[str]]]()
        for request, place, identity, _ in asking:
            places.append(place)
            owners.append((place.id, place.owner, identity.networks))
            newcomers += (
                place.id,
                int(request.lane),
                identity.proof,
                place.owner,
                identity.agent,
                identity.network,
                request.metadata,
                paces[request.lane],
                SOLVED_TIMES if request.solved else 1,
                len(identity.networks),
            )
        answers = await scripts.join(
            client,
            keys.of_newcomers(owners),
            now=now,
            model=seen.model.version,
            newcomers=newcomers,
        )
        entries = replies.read_entries(places, answers)
        await self._promise(seen, entries)
        return entries

    async def _promise(self, seen: RoomState, entries: Sequence[Entry]) -> None:
        """Remember the estimates of some who have just joined, to see how they turn out."""
        promises = list[str]()
        for entry in entries:
            self._joined += 1
            if self._joined % PROMISE_EVERY or not isinstance(entry, Joined):
                continue
            promised = estimate.promise(seen, entry.status)
            if promised is not None:
                promises += (entry.place.id, promised)
        if promises:
            await scripts.promise(await self._client(), self.store.keys, estimates=promises)

    async def crowd(self, address: str) -> float:
        """How many came from the networks of an address of late, by how many may; 1 for full."""
        seen = self.store.recent_state() or await self.store.state(STATE_S)
        if not seen.options.newcomers_per_minute:
            return 0.0
        keys = self.store.keys.limits_of(network_digests(address, seen.pepper))
        counts = await asyncio.gather(*(self.store.ask("ZCARD", key) for key in keys))
        most = seen.options.newcomers_per_minute
        return max(many / (most * 4**nth) for nth, many in enumerate(counts))

    async def enter(self, request: JoinRequest) -> Passed | None:
        """Begin a session at once if nobody waits and there is room; None for those who wait."""
        seen = self.store.recent_state() or await self.store.state(STATE_S)
        identity = identify(request, seen.pepper)
        place = Place(self.store.keys.node + new_id(self._bits), identity.owner)
        keys = self.store.keys_now().of(place.id, visitor=place.owner)
        keys = keys.with_theirs(keys.limits_of(identity.networks))
        entered = await scripts.enter(
            await self._client(),
            keys,
            id=place.id,
            visitor=place.owner,
            proof=identity.proof,
            agent=identity.agent,
            network=identity.network,
            now=self.store.now(),
        )
        return None if entered is None else Passed(place, entered)

    async def status(self, place: Place) -> VisitorStatus:
        """The status of a visitor; changes nothing."""
        return await self._looking.ask(place.id)

    async def _status(self, ids: Sequence[str]) -> Sequence[VisitorStatus]:
        return await scripts.status(
            await self._client(), self.store.keys, now=self.store.now(), ids=ids
        )

    async def heartbeat(
        self, place: Place, *, leaving: Duration | None = None, secret: str | None = None
    ) -> Forbidden | VisitorStatus:
        """Keep a visitor's place; with `leaving`, only for that long.

        With a secret only if it is the one of this place, else Forbidden.
        """
        wait_s = "" if leaving is None else round(seconds(leaving, "leaving"))
        return await self._beating.ask((place, wait_s, "" if secret is None else proof_of(secret)))

    async def _heartbeat(
        self, people: Sequence[tuple[Place, str | int, str]]
    ) -> Sequence[Forbidden | VisitorStatus]:
        own = [self._keys(place) for place, *_ in people]
        return await scripts.heartbeat(
            await self._client(),
            self.store.keys.with_theirs(
                [key for each in own for key in (each.position, each.owner)]
            ),
            now=self.store.now(),
            people=[said for place, *more in people for said in (place.id, *more)],
        )

    async def claim(
        self, place: Place, secret: str, *, user: str = ""
    ) -> Begun | Forbidden | VisitorStatus:
        """Begin the session of a visitor whose turn it is.

        Anything but Begun says why not; asking again gives the same session.
        """
        reply = await self._step(scripts.claim, place, proof=proof_of(secret), user=user)
        match reply:
            case ["begun" | "inside", until]:
                return Begun(place.id, int(until))
            case ["forbidden"]:
                return Forbidden()
            case _:
                return replies.parse_status(reply)

    async def recover(self, place: Place, secret: str) -> Forbidden | VisitorStatus:
        """Take a missed turn back."""
        reply = await self._step(scripts.recover, place, proof=proof_of(secret))
        return Forbidden() if reply == ["forbidden"] else replies.parse_status(reply)

    async def leave(self, place: Place, secret: str) -> Forbidden | bool:
        """Give the place up; False when there was none."""
        reply = await self._step(scripts.leave, place, proof=proof_of(secret), reason="")
        return Forbidden() if reply == "forbidden" else reply == "left"

    async def rejoin(self, place: Place, secret: str) -> Forbidden | VisitorStatus:
        """Take having left back: the old place again, within `RoomOptions.rejoin` of leaving."""
        reply = await self._step(scripts.rejoin, place, proof=proof_of(secret))
        return Forbidden() if reply == ["forbidden"] else replies.parse_status(reply)

    async def rejoinable_until(self, place: Place) -> datetime | None:
        """Until when somebody who left can take that back; None when they cannot."""
        left_us = await self.store.ask("HGET", self._keys(place).position, "left_us")
        if left_us is None:
            return None
        seen = await self.state(max_age=STATE_S)
        until_ms = int(left_us) // 1000 + milliseconds(seen.options.rejoin)
        return instant(until_ms) if until_ms > seen.now_ms else None

    async def is_done(self, place: Place) -> bool:
        """Whether the visitor's session was completed, not long ago."""
        return await self.store.ask("HGET", self._keys(place).position, "status") == b"completed"

    async def remove(self, place: Place, reason: str) -> bool:
        """Remove a visitor from the line, as an operator; False when there was none."""
        if not reason:
            raise InvalidInput("removing a visitor needs a reason, got none")
        return await self._step(scripts.leave, place, proof="", reason=reason) == "left"

    async def notify(self, place: Place, secret: str, handle: str) -> Forbidden | bool:
        """Remember how the site reaches a visitor when it is their turn; False without a place."""
        reply = await scripts.notify(
            await self._client(), self._keys(place), proof=proof_of(secret), handle=handle
        )
        return Forbidden() if reply == "forbidden" else reply == "noted"

    async def rebind(self, place: Place, secret: str) -> bool:
        """Let whoever knows this secret have the place, and nobody else; False without a place."""
        return await scripts.rebind(
            await self._client(), self._keys(place), visitor=place.owner, proof=proof_of(secret)
        )

    async def hand_over(self, place: Place, host: str) -> str:
        """A token with which the site on this host takes the session over, within a minute."""
        token = self._bits.getrandbits(160).to_bytes(20).hex()
        kept = "\n".join((host, place.id, place.owner))
        keys = self.store.keys.handed_over(digest(token))
        await self.store.ask("SET", keys.handover, kept, "EX", HANDOVER_S)
        return token

    async def take_over(self, token: str, host: str) -> Passed | None:
        """The session that was handed over with this token; None when it is not valid here."""
        return await scripts.take_over(
            await self._client(),
            self.store.keys.handed_over(digest(token)),
            host=host,
            now=self.store.now(),
        )

    async def renew(self, place: Place, *, views: int = 1) -> Renewal:
        """Note activity inside, which keeps the session alive; NotFound when it has ended."""
        renewed = await scripts.renew(
            await self._client(), self._keys(place), id=place.id, views=views, now=self.store.now()
        )
        if renewed is None:
            raise NotFound(f"the session {place.id} has ended")
        return renewed

    async def complete(self, place: Place, *, reason: str = "") -> bool:
        """End a session because its visitor is done; False when it had ended."""
        return await self._step(scripts.complete, place, status="completed", reason=reason)

    async def terminate(self, place: Place, reason: str) -> bool:
        """End a session as an operator; False when it had ended."""
        return await self._step(scripts.complete, place, status="terminated", reason=reason)

    async def get_session(self, id: str) -> Session:
        """The session of this id; NotFound when there is none."""
        found = await self.store.hash(self._keys(Place(id, "")).session)
        # An id of another room would be found as well.
        if found.get("queue_id") != self.queue_id:
            raise NotFound(f"there is no session {id}")
        return msgspec.convert({"id": id, **found}, Session, strict=False)

    async def get_place(self, id: str) -> Place:
        """The place of this id; NotFound when there is none.

        Not None, as a queue's `get_job`: whoever asks for a place has been given its id.
        """
        found = await self.store.hash(self._keys(Place(id, "")).position)
        # An id of another room would be found as well.
        if "ip_hash" not in found or found.get("queue_id") != self.queue_id:
            raise NotFound(f"there is no place {id}")
        return Place(id, found["ip_hash"])

    async def revoke(self, token_id: str, reason: str, *, ttl: Duration) -> None:
        """Revoke a token for as long as it would be valid."""
        ttl_s = round(seconds(ttl, "ttl"))
        if ttl_s < 1:
            raise InvalidInput(f"ttl must be at least 1 second, got {ttl}")
        await self.store.ask("SET", self.store.keys.revocation_of(token_id), reason, "EX", ttl_s)

    async def revoked(self, token_id: str) -> str | None:
        """The reason a token was revoked; None when it was not."""
        found = await self.store.ask("GET", self.store.keys.revocation_of(token_id))
        return found.decode() if found is not None else None

    async def curve(self, points: int = CURVE_POINTS) -> list[list[tuple[int, int]]]:
        """For each lane, points of (seq, people ahead) between which everybody finds their own."""
        raw = await scripts.curve(await self._client(), self.store.keys, points=points)
        return [
            [(int(lane[at]), int(lane[at + 1])) for at in range(0, len(lane), 2)] for lane in raw
        ]

    async def statistics(self, hour: datetime | None = None) -> dict[str, int]:
        """The counters of the hour that holds this instant; of the current hour by default."""
        keys = self.store.keys.at(
            self.store.now_ms() if hour is None else int(hour.timestamp() * 1000)
        )
        return {name: int(value) for name, value in (await self.store.hash(keys.stats)).items()}

    async def events(self, after: str | None = None) -> AsyncIterator[Event]:
        """Follow what happens to visitors, from the entry after this id on; now by default.

        It goes on after an outage of the store, and ends when the room is closed.
        """
        async with aclosing(self._follow(self.store.keys.events, after)) as pages:
            async for page in pages:
                for id, fields in page:
                    yield from_entry(id, fields)

    async def _step(self, step: Callable[..., Awaitable[T]], place: Place, **given: str) -> T:
        """Take a step of one visitor."""
        client, now = await self._client(), self.store.now()
        return await step(client, self._keys(place), id=place.id, now=now, **given)

    def _keys(self, place: Place) -> RoomKeys:
        return self.store.keys_now().of(place.id, visitor=place.owner)

    async def _client(self) -> Client:
        store = self._store or await self._connected()
        return store.hot


class _Asking(NamedTuple):
    request: JoinRequest
    place: Place
    identity: Identity
    seen: RoomState
