"""How somebody gets in line, and everything they can do from there."""

import random
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from waystation.core.clock import Clock, SystemClock
from waystation.core.errors import InvalidInput, NotFound
from waystation.core.identity import Bits
from waystation.core.line.server_time import SERVER_TIME
from waystation.core.store import faults
from waystation.core.store.client import StoreClient
from waystation.core.store.connection import Store
from waystation.core.store.connection.batcher import Batcher
from waystation.core.store.script import Client
from waystation.waitingroom import state as pulse
from waystation.waitingroom.estimates import estimate
from waystation.waitingroom.options import RoomOptions
from waystation.waitingroom.redis import scripts
from waystation.waitingroom.redis.keys import RoomKeys, RoomsKeys
from waystation.waitingroom.state import Pulse
from waystation.waitingroom.visitor import (
    Inside,
    Lane,
    Newcomer,
    Place,
    Standing,
    agent_digest,
    digest,
    network_digest,
    new_id,
    proof_of,
)

PULSE_S = 1.0
"""How old what is known about the room may be where a little doubt does no harm."""
CURVE_POINTS = 64
"""Enough to find one's place to within a hundredth; everybody who looks is sent all of them."""
HOUR_MS = 3_600_000


class Joined(msgspec.Struct, frozen=True):
    """They have a place now."""

    place: Place
    standing: Standing


class Kept(msgspec.Struct, frozen=True):
    """They had a place already, and this is it."""

    place: Place
    standing: Standing


class Passed(msgspec.Struct, frozen=True):
    """Nobody has to wait: they are inside."""

    place: Place
    standing: Inside


class Refused(msgspec.Struct, frozen=True):
    """They cannot have a place."""

    reason: str
    """full, crowded, rejected, draining, maintenance or closed."""
    retry_after_ms: int = 0


class Begun(msgspec.Struct, frozen=True):
    """They are inside."""

    session_id: str
    until_ms: int


class Forbidden(msgspec.Struct, frozen=True):
    """They do not know the secret of this place."""


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody inside."""

    id: str
    queue_id: str
    status: str
    started_at: int
    expires_at: int
    last_activity: int
    page_views: int
    user_id: str = ""


Entry: TypeAlias = Joined | Kept | Passed | Refused


class Room(StoreClient):
    """One waiting room; many processes may work on the same one."""

    def __init__(
        self,
        url: str | Store | None,
        queue_id: str,
        *,
        clock: Clock | None = None,
        bits: Bits | None = None,
    ) -> None:
        super().__init__(url)
        self.keys = RoomKeys(queue_id)
        self.queue_id = self.keys.name
        """Its name in braces, whether or not they were given."""
        self._clock = clock
        self._hours: Clock = clock or SystemClock()
        self._bits: Bits = bits or random.SystemRandom()
        self._hour = -1
        self._keys_now = self.keys
        self._pulse: tuple[float, Pulse] | None = None
        self._joining = Batcher(self._join)
        self._looking = Batcher(self._status)
        self._beating = Batcher(self._beat)

    async def open(self, options: RoomOptions | None = None, *, version: int | None = None) -> int:
        """Set the room up, or anew; its version. With `version`, only if it is still at that."""
        fields = (options or RoomOptions()).to_fields()
        changed = await self.write(
            fields, event="paused" if fields["status"] == "paused" else "resumed", version=version
        )
        with faults.translated():
            await (await self._client()).execute_command("SADD", RoomsKeys().every, self.queue_id)
        return changed

    async def write(
        self, fields: dict[str, str], *, event: str = "changed", version: int | None = None
    ) -> int:
        """Change fields of the `meta` hash, an empty text taking one away; the new version."""
        flat = [part for pair in fields.items() for part in pair]
        changed = await scripts.configure(
            await self._client(),
            self.keys,
            queue=self.queue_id,
            event=event,
            version="" if version is None else version,
            pepper=self._bits.getrandbits(128).to_bytes(16).hex(),
            now=self.now(),
            fields=flat,
        )
        self._pulse = None
        return changed

    def recent_pulse(self) -> Pulse | None:
        """How the room did a moment ago, if that can be said without asking the store."""
        kept = self._pulse
        return kept[1] if kept and self._hours.monotonic() - kept[0] <= PULSE_S else None

    async def pulse(self, *, max_age_s: float = 0.0) -> Pulse:
        """How the room does, as it was at most that many seconds ago."""
        now = self._hours.monotonic()
        kept = self._pulse
        if kept is not None and 0 < max_age_s >= now - kept[0]:
            return kept[1]
        if kept is not None and max_age_s > 0:
            # One looks, and the others make do with what is known until the answer is there.
            self._pulse = (now, kept[1])
        raw = await scripts.pulse(await self._client(), self.keys, now=self.now())
        seen = pulse.read(self.queue_id, raw)
        self._pulse = (now, seen)
        return seen

    async def join(self, newcomer: Newcomer) -> Entry:
        """Ask for a place; whoever has one is given it again."""
        seen = self.recent_pulse() or await self.pulse(max_age_s=PULSE_S)
        owner = digest(newcomer.key, pepper=seen.pepper)
        place = Place(self.keys.tagged(new_id(self._bits)), owner)
        network = network_digest(newcomer.address, seen.pepper) if newcomer.address else ""
        return await self._joining.ask(_Asking(newcomer, place, network, seen))

    async def _join(self, asking: Sequence["_Asking"]) -> Sequence[Entry]:
        seen = asking[-1].seen
        keys = self.keys_now()
        paces = [f"{estimate.lane_pace(seen, lane):.6g}" for lane in Lane]
        theirs = list[str]()
        newcomers = list[str | int]()
        for newcomer, place, network, _ in asking:
            theirs += keys.of_newcomer(place.id, place.owner, network)
            newcomers += (
                place.id,
                int(newcomer.lane),
                proof_of(newcomer.secret),
                place.owner,
                agent_digest(newcomer.agent),
                network,
                newcomer.metadata,
                paces[newcomer.lane],
            )
        replies = await scripts.join(
            await self._client(),
            keys.with_theirs(theirs),
            queue=self.queue_id,
            now=self.now(),
            model=seen.model.version,
            newcomers=newcomers,
        )
        return [_entry(each.place, reply) for each, reply in zip(asking, replies, strict=True)]

    async def status(self, place: Place) -> Standing:
        """How things stand for somebody; changes nothing."""
        return await self._looking.ask(place.id)

    async def _status(self, ids: Sequence[str]) -> Sequence[Standing]:
        return await scripts.status(await self._client(), self.keys, now=self.now(), ids=ids)

    async def heartbeat(self, place: Place, *, leaving_s: int | None = None) -> Standing:
        """Say that somebody is still there; with `leaving_s`, for that long at least."""
        return await self._beating.ask((place, "" if leaving_s is None else leaving_s))

    async def _beat(self, people: Sequence[tuple[Place, str | int]]) -> Sequence[Standing]:
        own = [self._keys(place) for place, _ in people]
        return await scripts.beat(
            await self._client(),
            self.keys.with_theirs([key for each in own for key in (each.position, each.owner)]),
            now=self.now(),
            people=[said for place, leaving_s in people for said in (place.id, leaving_s)],
        )

    async def claim(
        self, place: Place, secret: str, *, user: str = ""
    ) -> Begun | Forbidden | Standing:
        """Come in; anything but Begun says why not, and asking again gives the same session."""
        reply = await scripts.claim(
            await self._client(),
            self._keys(place),
            queue=self.queue_id,
            id=place.id,
            proof=proof_of(secret),
            user=user,
            now=self.now(),
        )
        match reply:
            case ["begun" | "inside", until]:
                return Begun(place.id, int(until))
            case ["forbidden"]:
                return Forbidden()
            case _:
                return scripts.standing(reply)

    async def recover(self, place: Place, secret: str) -> Forbidden | Standing:
        """Take a missed turn back."""
        reply = await scripts.recover(
            await self._client(),
            self._keys(place),
            queue=self.queue_id,
            id=place.id,
            proof=proof_of(secret),
            now=self.now(),
        )
        return Forbidden() if reply == ["forbidden"] else scripts.standing(reply)

    async def leave(self, place: Place, secret: str) -> Forbidden | bool:
        """Give the place up; False when there was none."""
        reply = await scripts.leave(
            await self._client(),
            self._keys(place),
            queue=self.queue_id,
            id=place.id,
            proof=proof_of(secret),
            reason="",
            now=self.now(),
        )
        return Forbidden() if reply == "forbidden" else reply == "left"

    async def remove(self, place: Place, reason: str) -> bool:
        """Take somebody out of the line, as an operator."""
        if not reason:
            raise InvalidInput("removing somebody needs a reason, got none")
        reply = await scripts.leave(
            await self._client(),
            self._keys(place),
            queue=self.queue_id,
            id=place.id,
            proof="",
            reason=reason,
            now=self.now(),
        )
        return reply == "left"

    async def renew(self, place: Place, *, views: int = 1) -> scripts.Renewal:
        """Note activity inside, which keeps the session alive; NotFound when it has ended."""
        renewed = await scripts.renew(
            await self._client(), self._keys(place), id=place.id, views=views, now=self.now()
        )
        if renewed is None:
            raise NotFound(f"the session {place.id} has ended")
        return renewed

    async def complete(self, place: Place, *, reason: str = "") -> bool:
        """End a session because its visitor is done; False when it had ended."""
        return await self._end(place, "completed", reason)

    async def terminate(self, place: Place, reason: str) -> bool:
        """End a session because an operator says so; False when it had ended."""
        return await self._end(place, "terminated", reason)

    async def session(self, session_id: str) -> Session:
        """Somebody inside; NotFound when nobody is."""
        found = await self._hash(self._keys(Place(session_id, "")).session)
        if not found:
            raise NotFound(f"there is no session {session_id}")
        return msgspec.convert({"id": session_id, **found}, Session, strict=False)

    async def place(self, position_id: str) -> Place:
        """Find somebody by id alone; NotFound when nothing is known of them."""
        found = await self._hash(self._keys(Place(position_id, "")).position)
        if "ip_hash" not in found:
            raise NotFound(f"there is no place {position_id}")
        return Place(position_id, found["ip_hash"])

    async def revoke(self, token_id: str, reason: str, *, ttl_s: int) -> None:
        """Let a token count no longer, for as long as it would."""
        if ttl_s < 1:
            raise InvalidInput(f"ttl_s must be at least 1, got {ttl_s}")
        await self._ask("SET", self.keys.revocation_of(token_id), reason, "EX", ttl_s)

    async def revoked(self, token_id: str) -> str | None:
        """Why a token no longer counts; None when it does."""
        found = await self._ask("GET", self.keys.revocation_of(token_id))
        return found.decode() if found is not None else None

    async def curve(self, points: int = CURVE_POINTS) -> list[list[tuple[int, int]]]:
        """For each lane, points of (seq, people ahead) between which everybody finds their own."""
        raw = await scripts.curve(await self._client(), self.keys, points=points)
        return [
            [(int(lane[at]), int(lane[at + 1])) for at in range(0, len(lane), 2)] for lane in raw
        ]

    async def statistics(self, hour_ms: int | None = None) -> dict[str, int]:
        """What happened in the hour of that instant, or in this one."""
        keys = self.keys.at(self._hours.now_ms() if hour_ms is None else hour_ms)
        return {name: int(value) for name, value in (await self._hash(keys.stats)).items()}

    def now(self) -> str | int:
        """The instant for a script, in microseconds; empty when the server is to say."""
        return self._clock.now_ms() * 1000 if self._clock else SERVER_TIME

    def keys_now(self) -> RoomKeys:
        """The keys, with those of this hour."""
        now_ms = self._hours.now_ms()
        if now_ms // HOUR_MS != self._hour:
            self._hour, self._keys_now = now_ms // HOUR_MS, self.keys.at(now_ms)
        return self._keys_now

    async def client(self) -> Client:
        """The way to the store, for those who look after the room."""
        return await self._client()

    async def _end(self, place: Place, status: str, reason: str) -> bool:
        return await scripts.complete(
            await self._client(),
            self._keys(place),
            queue=self.queue_id,
            id=place.id,
            status=status,
            reason=reason,
            now=self.now(),
        )

    def _keys(self, place: Place, *, network: str = "") -> RoomKeys:
        return self.keys_now().of(place.id, visitor=place.owner, network=network)

    async def _client(self) -> Client:
        store = self._store or await self._connected()
        return store.hot

    async def _hash(self, key: str) -> dict[str, str]:
        found: Sequence[bytes] = await self._ask("HGETALL", key)
        texts = [each.decode() for each in found]
        return dict(zip(texts[::2], texts[1::2], strict=True))

    async def _ask(self, *command: Any) -> Any:
        with faults.translated():
            return await (await self._client()).execute_command(*command)


class _Asking(NamedTuple):
    newcomer: Newcomer
    place: Place
    network: str
    seen: Pulse


def _entry(place: Place, reply: Sequence[Any]) -> Entry:
    word, said, *rest = reply
    if word == b"joined":
        return Joined(place, scripts.standing_of(rest))
    if word == b"refused":
        return Refused(said.decode(), int(rest[0]))
    theirs = Place(said.decode(), place.owner)
    if word == b"passed":
        return Passed(theirs, Inside(until_ms=int(rest[0])))
    return Kept(theirs, scripts.standing_of(rest))
