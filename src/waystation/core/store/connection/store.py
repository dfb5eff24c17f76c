"""One way to the store, whatever stands behind the URL."""

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any, Self, TypeAlias, cast
from weakref import WeakSet

import msgspec
from redis.asyncio import ConnectionPool, Redis
from redis.crc import key_slot

from waystation.core.durations import Seconds
from waystation.core.errors import InvalidOption, NotReplicated, StoreBusy, StoreUnreachable
from waystation.core.options import check_fields
from waystation.core.store import embedded, faults
from waystation.core.store.connection.address import Address, Kind, parse
from waystation.core.store.connection.batcher import Batcher
from waystation.core.store.connection.clients import LOOP, AsSent, Clients
from waystation.core.store.connection.pipe import Pipe
from waystation.core.store.keyspace import Keyspace
from waystation.core.store.script import Client


class Durability(StrEnum):
    """Who must have what a producer adds before it counts as added."""

    PRIMARY = "primary"
    REPLICA = "replica"


class StoreOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How patient the connections are, and how many there may be."""

    connect_timeout: Seconds = 5.0
    """Seconds until a server that does not take our call counts as away."""
    call_timeout: Seconds = 10.0
    """Seconds until an answer counts as lost; calls that block have their own."""
    max_connections: int = 50
    """Callers beyond it wait for a connection."""
    client_name: str = "waystation"
    """How the server's operator sees us."""
    durability: Durability = Durability.PRIMARY
    """Who must have what is added before it counts as added."""
    replica_timeout: Seconds = 1.0
    """Seconds until a replica that has not confirmed an addition counts as away."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("connect_timeout", "call_timeout", "replica_timeout"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InvalidOption(f"{name} must be above 0 seconds, got {getattr(self, name)}")
        if self.durability not in tuple(Durability):
            wanted = " or ".join(Durability)
            raise InvalidOption(f"durability must be {wanted}, got {self.durability!r}")
        if self.max_connections < 1:
            raise InvalidOption(f"max_connections must be at least 1, got {self.max_connections}")
        if not self.client_name.isascii() or not self.client_name.isprintable():
            raise InvalidOption(f"client_name must be plain letters, got {self.client_name!r}")
        if " " in self.client_name:
            raise InvalidOption(f"client_name must not hold spaces, got {self.client_name!r}")


async def connect(url: str | None = None, options: StoreOptions | None = None) -> "Store":
    """Reach the store at this URL, or this directory's own server when there is none."""
    if url is not None:
        store = Store(parse(url), options or StoreOptions())
    else:
        share = await asyncio.to_thread(embedded.shared)
        store = Store(parse(share.url), options or StoreOptions(), share=share)
    try:
        await store.check()
    except BaseException:
        await store.close()
        raise
    return store


class Store:
    """The connections to one store, each opened when it is first needed."""

    def __init__(
        self, address: Address, options: StoreOptions, *, share: embedded.Shared | None = None
    ) -> None:
        """Internal: `open_store` makes it."""
        if address.kind is Kind.CLUSTER and options.durability != Durability.PRIMARY:
            raise InvalidOption(
                f"durability={options.durability} needs one server or sentinels, got a cluster"
            )
        self.address = address
        self.options = options
        self._share = share
        self._clients = Clients(
            LOOP,
            address,
            client_name=options.client_name,
            connect_timeout=options.connect_timeout,
        )
        self.ending = asyncio.Event()
        """Internal: set when it is closed."""
        # Whoever has closed a client and lets go of it leaves nothing behind here.
        self._blocking: WeakSet[Redis] = WeakSet()

    @cached_property
    def redis(self) -> Redis:
        """The client for everything but the hot path."""
        return self._client(self.options.call_timeout, self.options.max_connections)

    @cached_property
    def hot(self) -> Client:
        """Internal: the client for the hot path, one connection, many calls under way.

        Its answers have the form in which servers send them, also those of a cluster.
        """
        if self.address.kind is Kind.CLUSTER:
            return AsSent(self.redis)
        pool: ConnectionPool = self.redis.connection_pool
        return Pipe(pool.make_connection, call_timeout=self.options.call_timeout)

    @cached_property
    def durable(self) -> Client:
        """Internal: the client for additions, which waits for a replica when the options say so."""
        if self.options.durability == Durability.PRIMARY:
            return self.hot
        pool: ConnectionPool = self.redis.connection_pool
        patience = self.options.call_timeout + self.options.replica_timeout
        pipe = Pipe(pool.make_connection, call_timeout=patience)
        return Replicated(pipe, timeout=self.options.replica_timeout)

    def clone(self, **options: Any) -> "Store":
        """Internal: the same server with connections of its own, and these options changed."""
        return Store(self.address, msgspec.structs.replace(self.options, **options))

    def blocking(self, at_most: float, *, client_name: str | None = None) -> Redis:
        """Internal: a client of its own for calls that block up to that many seconds."""
        patience = at_most + self.options.call_timeout
        client = self._client(patience, self.options.max_connections, client_name)
        self._blocking.add(client)
        return client

    async def ask(self, *command: Any) -> Any:
        """Send one command; an error of the client becomes one of `waystation.errors`."""
        with faults.translated():
            return await self.hot.execute_command(*command)

    def require_one_slot(self, keys: Keyspace) -> None:
        """Internal: refuse keys that a cluster would keep on different nodes."""
        if self.address.kind is not Kind.CLUSTER:
            return
        if len({key_slot(key.encode()) for key in keys.known()}) > 1:
            raise InvalidOption(
                "on a cluster all keys of a queue must share a hash tag, such as the prefix "
                f"{{{keys.start}}}, got {keys.start}"
            )

    async def check(self) -> None:
        """Make sure that the store answers."""
        try:
            with faults.translated():
                await self.redis.execute_command("PING")
        except StoreUnreachable as error:
            raise faults.no_answer(self.address, error) from error
        except StoreBusy as error:
            raise StoreBusy(f"the store at {self.address} is not ready: {error}") from error

    async def close(self) -> None:
        """Close every connection, and give up the share in an embedded server."""
        self.ending.set()
        opened = self.__dict__
        for name in ("hot", "durable"):
            if isinstance(client := opened.get(name), Pipe | Replicated):
                await client.close()
        for client in [*self._blocking, *([opened["redis"]] if "redis" in opened else [])]:
            await client.aclose()
        for watcher in self._clients.watchers:
            await watcher.aclose()
        if self._share:
            self._share.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _client(self, patience: float, most: int, name: str | None = None) -> Redis:
        # A cluster has the same commands, though not the same ancestors.
        return cast(Redis, self._clients.make(patience, most, name))


Command: TypeAlias = tuple[Any, ...]


class Replicated:
    """A client whose calls are answered when a replica has what they wrote.

    It wants a connection of its own, because whatever is asked on one has to wait as well. What is
    asked while a replica confirms goes together, so that many wait no longer than one.
    """

    def __init__(self, pipe: Pipe, *, timeout: float) -> None:
        self._pipe = pipe
        self._timeout_ms = max(1, round(timeout * 1000))
        self._together: Batcher[Command, tuple[Any, Any]] = Batcher(self._confirmed)

    async def execute_command(self, *args: Any) -> Any:
        """Send one command and give back its answer once a replica has confirmed it."""
        return confirmed(*await self._together.ask(args), self._timeout_ms)

    async def close(self) -> None:
        """Give up the connection."""
        await self._pipe.close()

    async def _confirmed(self, commands: Sequence[Command]) -> list[tuple[Any, Any]]:
        wait = ("WAIT", 1, self._timeout_ms)
        *answers, replicas = await self._pipe.in_a_row(*commands, wait)
        return [(answer, replicas) for answer in answers]


def confirmed(answer: Any, replicas: Any, timeout_ms: int) -> Any:
    """The answer to a command, if a replica has what it wrote; raises what either of them is."""
    for each in (answer, replicas):
        if isinstance(each, BaseException):
            raise each
    if replicas < 1:
        raise NotReplicated(
            f"the store has it, but no replica confirmed it within {timeout_ms} ms; it is lost "
            "only if the store fails before one does. Adding it again waits for a replica once "
            "more, and adds nothing twice where the job has an id of its own",
            stored=answer,
        )
    return answer
