"""Trees of jobs: a parent runs when its children are done, whatever queues they are in."""

import asyncio
import secrets
import time
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, Unpack, cast

import msgspec
from msgspec import UNSET

from waystation.bullmq.job import Job, QueueRef
from waystation.bullmq.keywords import JobKeywords
from waystation.bullmq.options import JobOptions, Parent, options_as_stored
from waystation.bullmq.payloads.envelope import refuse_imitation
from waystation.bullmq.payloads.options import PayloadOptions
from waystation.bullmq.payloads.sealing import Sealing
from waystation.bullmq.redis import children as family
from waystation.bullmq.redis import scripts
from waystation.bullmq.redis.commands import hash_at
from waystation.bullmq.redis.keys import PREFIX, QueueKeys
from waystation.bullmq.redis.packing import (
    AddOptions,
    add_options,
    current_trace,
    merged,
    wire_name,
)
from waystation.bullmq.redis.replies import Existing
from waystation.core import codec
from waystation.core.errors import (
    GroupFull,
    InvalidInput,
    InvalidOption,
    NotFound,
    WaystationError,
    WrongState,
)
from waystation.core.options import checked
from waystation.core.store.client import StoreClient
from waystation.core.store.connection import Store
from waystation.core.store.connection.address import Kind
from waystation.core.store.script import Client

MOST_JOBS = 50_000
"""A tree is added in one step, during which the store does nothing else: a second or two."""


@dataclass(frozen=True, init=False)
class FlowNode:
    """A job to be added, with those it waits for; its options are keywords, as those of `add`."""

    name: str
    """The name of the job."""
    queue: str
    """The queue it is added to."""
    data: Any
    """What its handler gets; an empty object when none is given."""
    options: JobOptions
    """The job's own options."""
    children: Sequence["FlowNode"]
    """The jobs that must be completed before it runs."""
    prefix: str | None
    """Where its queue is, when not where the flow producer's are."""

    def __init__(
        self,
        *,
        name: str,
        queue: str,
        data: Any = UNSET,
        options: JobOptions | None = None,
        children: Sequence["FlowNode"] = (),
        prefix: str | None = None,
        **given: Unpack[JobKeywords],
    ) -> None:
        """Make a node; keywords count before `options`."""
        own = ("name", "queue", "data", "options", "children", "prefix")
        chosen = merged(options, given, JobOptions(), of="a node of a flow", others=own)
        held: Any = {} if data is UNSET else data
        values = (name, queue, held, chosen, children, prefix)
        for field, value in zip(own, values, strict=True):
            # The way past `frozen`, as the dataclass itself would go.
            object.__setattr__(self, field, value)


class FlowJob(msgspec.Struct, frozen=True):
    """A job of a flow, with those it waits for."""

    job: Job
    """The job as it was added or read."""
    children: list["FlowJob"]
    """The jobs that it waits for."""


@checked
class FlowProducer(StoreClient):
    """Adds trees of jobs over any queues of one store, and reads them back.

    `payloads` encrypts their data, or keeps large data outside the store.
    """

    _blocks: ClassVar[bool] = False
    """Whether its client blocks."""

    def __init__(
        self,
        url: str | Store | None = None,
        *,
        prefix: str = PREFIX,
        payloads: PayloadOptions | None = None,
    ) -> None:
        super().__init__(url)
        self.prefix = prefix
        self._sealing = Sealing(payloads, here=self._blocks) if payloads else None

    async def add(self, tree: FlowNode) -> FlowJob:
        """Add a tree of jobs, all or nothing."""
        return (await self.add_many([tree]))[0]

    async def add_many(self, trees: Sequence[FlowNode]) -> list[FlowJob]:
        """Add several trees of jobs, all or nothing."""
        planned = list(_planned(trees, self.prefix))
        _check(planned)
        sealings = [_sealing_for(each.node, self._sealing) for each in planned]
        if any(sealings):
            step = partial(_all_sealed, planned, sealings)
            slow = any(each is not None and each.blobs is not None for each in sealings)
            # What is large is written to a directory or an object store.
            planned = await asyncio.to_thread(step) if slow and not self._blocks else step()
        _check_sizes(planned)
        if not planned:
            return []
        store = await self._connected()
        if store.address.kind is Kind.CLUSTER:
            _check_slot(planned)
        jobs = [part for each in planned for part in each.arguments()]
        reply = await scripts.add_flow(store.durable, planned[0].keys, jobs=jobs)
        if isinstance(reply[0], int):
            raise _refusal(reply[0], planned[int(reply[1]) - 1])
        return _as_added(store.hot, planned, cast(list[str], reply), self._sealing)

    async def get_flow(
        self,
        queue: str,
        job_id: str,
        *,
        depth: int = 10,
        max_children: int = 20,
        prefix: str | None = None,
    ) -> FlowJob | None:
        """Read a job and its children, down to this depth; about so many of each kind a job."""
        for what, value in (("depth", depth), ("max_children", max_children)):
            if value < 1:
                raise InvalidOption(f"{what} must be at least 1, got {value}")
        store = await self._connected()
        place = family.JobPlace(QueueKeys(queue, prefix=prefix or self.prefix), job_id)
        return await _read(store.hot, place, depth, max_children, self._sealing)


class _Planned(NamedTuple):
    """A job on its way into the store."""

    node: FlowNode
    name: bytes
    keys: QueueKeys
    id: str
    data: bytes
    opts: bytes
    wanted: AddOptions
    parent: int | None
    """The place of its parent among the planned."""

    def arguments(self) -> tuple[str | bytes, ...]:
        return self.keys.base, self.name, self.data, self.opts, codec.encode(self.wanted)


def _planned(trees: Sequence[FlowNode], prefix: str) -> Iterator[_Planned]:
    """The jobs of the trees, parents before their children."""
    ahead: deque[tuple[FlowNode, Parent | None, int | None]] = deque(
        (tree, tree.options.parent, None) for tree in map(_node, trees)
    )
    trace, place, now = current_trace(), 0, time.time_ns() // 1_000_000
    while ahead:
        node, parent, above = ahead.popleft()
        keys = QueueKeys(node.queue, prefix=node.prefix or prefix)
        id = node.options.job_id or _id_in_order(now, place)
        yield _plan(node, keys, id, parent=parent, above=above, trace=trace)
        for child in map(_node, node.children):
            if child.options.parent is not None:
                raise InvalidOption(f"the parent of {child.name!r} is the job above it")
            ahead.append((child, Parent(id, keys.qualified), place))
        place += 1


def _id_in_order(now_ms: int, place: int) -> str:
    """A UUID of version 7: children can be read in the order in which they were given."""
    high, low = divmod(place, 256)
    chance = secrets.randbits(54)
    return str(uuid.UUID(int=now_ms << 80 | (0x7000 | high) << 64 | 2 << 62 | low << 54 | chance))


def _node(given: Any) -> FlowNode:
    if not isinstance(given, FlowNode):
        raise InvalidInput(f"a flow is made of FlowNode, got {given!r}")
    return given


def _plan(
    node: FlowNode,
    keys: QueueKeys,
    id: str,
    *,
    parent: Parent | None,
    above: int | None,
    trace: str | None,
) -> _Planned:
    options = node.options
    stored = options_as_stored(options)
    if parent is not None:
        stored["parent"] = parent
    if trace is not None:
        stored["tm"] = trace
    data, opts = codec.encode_data(node.data), codec.encode(stored)
    wanted = add_options(options, parent=parent, id=id, has_children=bool(node.children))
    return _Planned(node, wire_name(node.name), keys, id, data, opts, wanted, above)


def _sealing_for(node: FlowNode, otherwise: Sealing | None) -> Sealing | None:
    """What seals a job: that of its task, if it is the call of one."""
    own: Sealing | None = getattr(node, "_sealing", None)
    return own or otherwise


def _all_sealed(planned: Sequence[_Planned], sealings: Sequence[Sealing | None]) -> list[_Planned]:
    return [_sealed(each, sealing) for each, sealing in zip(planned, sealings, strict=True)]


def _sealed(job: _Planned, sealing: Sealing | None) -> _Planned:
    if sealing is None:
        return job
    stored = sealing.sealed(job.keys.name, job.node.data)
    return job if stored is job.node.data else job._replace(data=codec.encode_as_node(stored))


def _check_sizes(planned: Sequence[_Planned]) -> None:
    for each in planned:
        refuse_imitation(each.data)
        codec.check_size(len(each.data) + len(each.opts))
        if each.node.options.size_limit is not None:
            codec.check_size(len(each.data), each.node.options.size_limit)


def _check(planned: Sequence[_Planned]) -> None:
    if len(planned) > MOST_JOBS:
        raise InvalidInput(
            f"one call adds at most {MOST_JOBS} jobs, got {len(planned)}; "
            "a job that runs can add more children to itself"
        )
    seen: set[str] = set()
    for each in planned:
        key = each.keys.base + each.id
        if key in seen:
            raise InvalidOption(f"job {each.id} of queue {each.keys.name} stands twice in the flow")
        seen.add(key)
        if each.node.options.unique_for:
            raise InvalidOption(f"{each.node.name!r} is part of a flow, so unique_for cannot hold")
        rule = each.node.options.deduplication
        if rule and each.node.children:
            raise InvalidOption(f"{each.node.name!r} has children, so it cannot be deduplicated")
        if rule and each.wanted.parent_key:
            # Its parent would wait for nobody, and run without what another job makes.
            raise InvalidOption(f"{each.node.name!r} has a parent, so it cannot be deduplicated")


def _check_slot(planned: Sequence[_Planned]) -> None:
    tags = {each.keys.tag for each in planned}
    if len(tags) > 1 or None in tags:
        names = ", ".join(sorted({each.keys.qualified for each in planned}))
        raise InvalidInput(
            "on a cluster the queues of a flow must share a hash tag, such as the prefix "
            f"{{bull}}, got {names}"
        )


def _refusal(code: int, job: _Planned) -> WaystationError:
    if code == -5:
        return NotFound(f"there is no job {job.wanted.parent_key} to be the parent of {job.id}")
    if code == -11:
        return GroupFull(f"job {job.id} of queue {job.keys.name} finds no room in its group")
    return WrongState(f"job {job.id} of queue {job.keys.name} has another parent already")


def _as_added(
    client: Client, planned: Sequence[_Planned], ids: Sequence[str], sealing: Sealing | None
) -> list[FlowJob]:
    now = int(time.time() * 1000)
    refs = (QueueRef(client, each.keys, sealing=sealing) for each in planned)
    nodes = [
        FlowJob(Job(str(id), _fields(id, each, now), ref), [])
        for each, id, ref in zip(planned, ids, refs, strict=True)
    ]
    for each, node in zip(planned, nodes, strict=True):
        if each.parent is not None:
            nodes[each.parent].children.append(node)
    return [node for each, node in zip(planned, nodes, strict=True) if each.parent is None]


def _fields(id: str, job: _Planned, now: int) -> dict[bytes, bytes]:
    if isinstance(id, Existing) and id.fields:
        return id.fields
    wanted = job.wanted
    fields = {
        b"name": job.name,
        b"data": job.data,
        b"opts": job.opts,
        b"timestamp": b"%d" % (wanted.timestamp or now),
        b"delay": b"%d" % wanted.delay,
        b"priority": b"%d" % wanted.priority,
    }
    if wanted.parent_key and wanted.parent:
        fields |= {b"parentKey": wanted.parent_key.encode(), b"parent": wanted.parent.encode()}
    if wanted.deduplication:
        fields[b"deid"] = wanted.deduplication["id"].encode()
    return fields


async def _read(
    client: Client, place: family.JobPlace, depth: int, most: int, sealing: Sealing | None
) -> FlowJob | None:
    fields = await hash_at(client, place.queue.of(place.id).job)
    if not fields:
        return None
    job = Job(place.id, fields, QueueRef(client, place.queue, sealing=sealing))
    children: list[FlowJob] = []
    if depth > 1:
        for key in await _child_keys(client, place, most):
            child = family.place_of(key, place.queue)
            if found := await _read(client, child, depth - 1, most, sealing):
                children.append(found)
    return FlowJob(job, children)


async def _child_keys(client: Client, place: family.JobPlace, most: int) -> list[str]:
    keys = place.queue.of(place.id)
    found: list[str] = []
    for kind in ("processed", "unprocessed", "failed", "ignored"):
        page = await family.page(client, keys, kind, count=most)
        found += list(page.children)[:most]
    return found
