"""Coverage: waiting jobs by their needs, the workers that fit, and why none runs them."""

from collections.abc import AsyncIterator

import msgspec

from waystation.core import codec
from waystation.core.clock import SERVER_TIME
from waystation.core.store.commands import ask
from waystation.core.store.script import Client
from waystation.routing.reasons import Reason, Why, obstacles
from waystation.routing.redis import scripts
from waystation.routing.redis.keys import RoutingKeys
from waystation.routing.registry import profiles_of, registered

PER_CALL = 500


class Covered(msgspec.Struct, frozen=True, kw_only=True):
    """The waiting jobs with one set of needs, who could do them, and why nobody does."""

    type: str
    """The type of the jobs."""
    signature: str
    """Their type and what they ask of a worker, as JSON."""
    first: str
    """The id of the job that has waited longest."""
    waiting: int
    """How many of them wait."""
    workers: int = 0
    """How many live workers could take them; not looked at for jobs that wait for others."""
    nearest: str = ""
    """The live worker that lacks least; empty when a worker fits."""
    missing: tuple[str, ...] = ()
    """What that worker lacks, each a few words; empty when a worker fits."""
    reasons: tuple[Reason, ...] = ()
    """What keeps them from being handed out now; empty when nothing does."""

    @property
    def served(self) -> bool:
        """Whether a worker could be given one now."""
        return not self.reasons


async def coverage(
    client: Client, keys: RoutingKeys, *, now: str | int = SERVER_TIME
) -> list[Covered]:
    """Hold every set of needs that waits against every live worker, and name what cannot go on."""
    waiting = [row async for row in _waiting(client, keys, now)]
    return waiting + [row async for row in _held_for_good(client, keys)]


async def _waiting(client: Client, keys: RoutingKeys, now: str | int) -> AsyncIterator[Covered]:
    alive = [worker for worker in await registered(client, keys) if worker.alive]
    first = 0
    while True:
        rows = await scripts.coverage(
            client, keys, now=now, profiles=profiles_of(alive), first=first, count=PER_CALL
        )
        for signature, id, waiting, raw in rows:
            needs = codec.decode(signature)
            found = obstacles(needs, raw, anybody=bool(alive))
            yield Covered(
                type=needs[0],
                signature=codec.as_text(signature),
                first=codec.as_text(id),
                waiting=waiting,
                workers=found.workers,
                nearest=found.nearest,
                missing=found.missing,
                reasons=found.reasons,
            )
        if len(rows) < PER_CALL:
            return
        first += PER_CALL


async def _held_for_good(client: Client, keys: RoutingKeys) -> AsyncIterator[Covered]:
    """Jobs that wait for others which will never complete by themselves."""
    async for ended, state in _parents_that_ended(client, keys):
        held: dict[bytes, list[str]] = {}
        async for id, signature in _descendants(client, keys, ended):
            held.setdefault(signature, []).append(id)
        reason = Reason(why=Why.HELD, text=f"waits for job {ended}, which is {state}")
        for signature, ids in held.items():
            yield Covered(
                type=codec.decode(signature)[0],
                signature=codec.as_text(signature),
                first=min(ids),
                waiting=len(ids),
                reasons=(reason,),
            )


async def _parents_that_ended(client: Client, keys: RoutingKeys) -> AsyncIterator[tuple[str, str]]:
    async for names in _members(client, keys.awaited):
        ids = [codec.as_text(name) for name in names]
        states = await ask(client, "MGET", *(keys.of(id).status for id in ids))
        routes = await ask(client, "HMGET", keys.routes, *ids)
        for id, state, route in zip(ids, states, routes, strict=True):
            if state == b"dead":
                yield id, "dead"
            elif state is None and route is None:
                yield id, "gone"


async def _descendants(
    client: Client, keys: RoutingKeys, parent: str
) -> AsyncIterator[tuple[str, bytes]]:
    """Whatever waits for a job, and what waits for those: ids and signatures."""
    open, seen = [parent], {parent}
    while open:
        async for members in _members(client, keys.of(open.pop()).dependents):
            # The number under which it waits stands before each id.
            names = [member.rpartition(b" ")[2] for member in members]
            held = await ask(client, "HMGET", keys.held, *names)
            routes = await ask(client, "HMGET", keys.routes, *names)
            for name, waits, route in zip(names, held, routes, strict=True):
                id = codec.as_text(name)
                if waits is not None and route is not None and id not in seen:
                    seen.add(id)
                    open.append(id)
                    yield id, route[1:]


async def _members(client: Client, key: str) -> AsyncIterator[list[bytes]]:
    cursor = 0
    while True:
        cursor, names = await ask(client, "SSCAN", key, cursor, "COUNT", PER_CALL)
        if names:
            yield names
        if (cursor := int(cursor)) == 0:
            return


async def knows(client: Client, keys: RoutingKeys, type: str) -> bool:
    """Whether a worker handles jobs of a type, or a job of it has not ended."""
    workers = await registered(client, keys)
    if any(type in worker.types for worker in workers):
        return True
    cursor = 0
    while True:
        cursor, found = await ask(client, "HSCAN", keys.routes, cursor, "COUNT", PER_CALL)
        if any(_type_of(route) == type for route in found[1::2]):
            return True
        if (cursor := int(cursor)) == 0:
            return False


def _type_of(route: bytes) -> str:
    # Behind the lane stands the signature, a list that begins with the type.
    return codec.decode(route[1:])[0]
