"""The names of all queues of a store, and of those who work on them."""

import base64
import binascii
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import msgspec

from waystation.bullmq.redis.keys import PREFIX, QueueKeys
from waystation.bullmq.redis.prefixes import Prefixes
from waystation.bullmq.redis.scanning import queue_names
from waystation.core.codec import as_text
from waystation.core.errors import StoreUnsuitable, WaystationError
from waystation.core.events import Product
from waystation.core.store import faults, keyspace
from waystation.core.store.connection import Store
from waystation.files import Layout
from waystation.files import Queue as FileQueue
from waystation.routing import Queue as RoutingQueue
from waystation.routing.redis.keys import NAMESPACE
from waystation.waitingroom.redis.keys import RoomsKeys, name_of
from waystation.waitingroom.rooms import may_be_room


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """The prefixes and key names that the products use."""

    bullmq: Prefixes = Prefixes()
    routing: str = NAMESPACE
    files: Layout = Layout()


class QueueName(msgspec.Struct, frozen=True):
    """One queue of one product: a queue of BullMQ, a type of job, a priority, or a room."""

    product: Product
    name: str

    def __str__(self) -> str:
        return f"{self.product}/{self.name}"


class Known(NamedTuple):
    """The queues of a store, as far as this user of it may read."""

    queues: list[QueueName]
    forbidden: list[tuple[Product, str]]
    """Products whose keys this user may not read."""


async def find_queues(store: Store, places: Places | None = None) -> Known:
    """Every queue of every product in a store; looks at all its keys once."""
    places = places or Places()
    known = Known([], [])
    for product, keys, names in (
        *(
            (Product.BULLMQ, f"{prefix}:*", partial(shown_names, store, places.bullmq, prefix))
            for prefix in places.bullmq.every
        ),
        (Product.ROUTING, f"{places.routing}:*", partial(job_types, store, places.routing)),
        (Product.FILES, f"{places.files.prefix}:*", partial(priorities, store, places.files)),
        (Product.WAITINGROOM, RoomsKeys().every, partial(rooms, store)),
    ):
        try:
            known.queues.extend(QueueName(product, name) for name in await names())
        except StoreUnsuitable:
            known.forbidden.append((product, keys))
    return known


async def readable_names(store: Store, prefix: str) -> list[str]:
    """The queues under a prefix of BullMQ; StoreUnsuitable where this user may not read them."""
    names = await queue_names(store, prefix)
    if names:
        # A scan shows the names of all keys, whoever asks.
        await store.ask("EXISTS", QueueKeys(names[0], prefix=prefix).meta)
    return names


async def shown_names(store: Store, prefixes: Prefixes, prefix: str) -> list[str]:
    """The queues under a prefix of BullMQ, by what they are called."""
    names = await readable_names(store, prefix)
    return [prefixes.shown(QueueKeys(name, prefix=prefix)) for name in names]


async def bullmq_workers(store: Store, prefix: str = PREFIX) -> dict[str, list[str]] | None:
    """The names of the workers of each queue; None where the server does not list connections."""
    redis: Any = store.redis
    try:
        with faults.translated():
            clients: list[dict[str, str]] = await redis.client_list()
    except WaystationError:
        return None  # an ACL may forbid it, and then nobody can say
    found: dict[str, set[str]] = {}
    for client in clients:
        start, _, rest = client["name"].removeprefix(f"{prefix}:").partition(":w:")
        if not client["name"].startswith(f"{prefix}:") or start.endswith(":qe"):
            continue
        try:
            queue = base64.b64decode(start, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            continue
        if not keyspace.is_name(queue):
            continue  # another program's, whose queue none of ours can be
        found.setdefault(queue, set()).add(rest or client["addr"])
    return {queue: sorted(names) for queue, names in found.items()}


async def workers_by_queue(store: Store, prefixes: Prefixes) -> dict[str, list[str]] | None:
    """The workers of all queues of BullMQ, by what the queues are called; None as above."""
    found: dict[str, list[str]] = {}
    for prefix in prefixes.every:
        known = await bullmq_workers(store, prefix)
        if known is None:
            return None
        for name, workers in known.items():
            found[prefixes.shown(QueueKeys(name, prefix=prefix))] = workers
    return found


async def job_types(store: Store, namespace: str = NAMESPACE) -> list[str]:
    """The types of job that routing knows: those that wait, are limited, paused or handled."""
    queue = RoutingQueue(store, prefix=namespace)
    types = {each.type for each in await queue.coverage()}
    types |= {type for worker in await queue.workers() if worker.alive for type in worker.types}
    types |= set(await queue.paused_types())
    return sorted(types)


async def has_files(store: Store, layout: Layout) -> bool:
    """Whether anything was ever put into a queue of files."""
    keys = FileQueue(store, layout=layout).keys
    return bool(await store.ask("EXISTS", *keys.lanes, keys.workers, keys.events))


async def priorities(store: Store, layout: Layout) -> list[str]:
    """The priorities of a queue of files that was ever used."""
    return list(layout.priorities) if await has_files(store, layout) else []


async def rooms(store: Store) -> list[str]:
    """The names of all waiting rooms."""
    ids: Iterable[bytes] = await store.ask("SMEMBERS", RoomsKeys().every)
    return sorted(name_of(id) for each in ids if may_be_room(id := as_text(each)))
