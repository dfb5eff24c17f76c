"""The names of all queues of a store, and of those who work on them."""

import base64
import binascii
from collections.abc import Iterable
from typing import Any

from waystation.bullmq.redis.keys import PREFIX, QueueKeys
from waystation.bullmq.redis.prefixes import Prefixes
from waystation.bullmq.redis.scanning import queue_names
from waystation.console.finding.places import Places, QueueName
from waystation.core.errors import WaystationError
from waystation.core.events import Line
from waystation.core.store import faults
from waystation.core.store.connection import Store
from waystation.files import Layout
from waystation.files import Queue as FileQueue
from waystation.routing import Queue as RoutingQueue
from waystation.routing.redis.keys import NAMESPACE
from waystation.waitingroom.redis.keys import RoomsKeys, name_of, room_id


async def find_queues(store: Store, places: Places | None = None) -> list[QueueName]:
    """Every queue of every product in a store; looks at all its keys once."""
    places = places or Places()
    found = [
        QueueName(Line.BULLMQ, places.bullmq.shown(QueueKeys(name, prefix=prefix)))
        for prefix in places.bullmq.every
        for name in await queue_names(store, prefix)
    ]
    found += [QueueName(Line.ROUTING, name) for name in await job_types(store, places.routing)]
    if await has_files(store, places.files):
        found += [QueueName(Line.FILES, name) for name in places.files.priorities]
    found += [QueueName(Line.WAITINGROOM, name) for name in await rooms(store)]
    return found


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
    with faults.translated():
        known = await store.hot.execute_command("EXISTS", *keys.lanes, keys.workers, keys.events)
    return bool(known)


async def rooms(store: Store) -> list[str]:
    """The names of all waiting rooms."""
    with faults.translated():
        ids: Iterable[bytes] = await store.hot.execute_command("SMEMBERS", RoomsKeys().every)
    return sorted(name_of(id) for each in ids if (id := each.decode()) == room_id(id))
