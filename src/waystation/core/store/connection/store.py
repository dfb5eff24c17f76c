"""One way to the store, whatever stands behind the URL."""

import asyncio
from functools import cached_property
from typing import Any, Self, cast

import msgspec
from redis.asyncio import (
    BlockingConnectionPool,
    Connection,
    ConnectionPool,
    Redis,
    RedisCluster,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

from waystation.core.durations import Seconds
from waystation.core.errors import InvalidOption, StoreBusy, StoreUnreachable
from waystation.core.store import embedded, faults
from waystation.core.store.connection.address import Address, Kind, parse
from waystation.core.store.connection.durable import Durability, Replicated
from waystation.core.store.connection.pipe import Pipe
from waystation.core.store.script import Client


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
        if address.kind is Kind.CLUSTER and options.durability != Durability.PRIMARY:
            raise InvalidOption(
                f"durability={options.durability} needs one server or sentinels, got a cluster; "
                "there, min-replicas-to-write makes the nodes themselves wait"
            )
        self.address = address
        self.options = options
        self._share = share
        self._sentinel: Sentinel | None = None
        self._blocking: list[Redis] = []

    @cached_property
    def redis(self) -> Redis:
        """The client for everything but the hot path."""
        return self._client(self.options.call_timeout, self.options.max_connections)

    @cached_property
    def hot(self) -> Client:
        """The client for the hot path: one connection, many calls under way."""
        if self.address.kind is Kind.CLUSTER:
            return self.redis
        pool: ConnectionPool = self.redis.connection_pool
        return Pipe(pool.make_connection, call_timeout=self.options.call_timeout)

    @cached_property
    def durable(self) -> Client:
        """The client for additions, which waits for a replica when the options say so."""
        if self.options.durability == Durability.PRIMARY:
            return self.hot
        pool: ConnectionPool = self.redis.connection_pool
        patience = self.options.call_timeout + self.options.replica_timeout
        pipe = Pipe(pool.make_connection, call_timeout=patience)
        return Replicated(pipe, timeout=self.options.replica_timeout)

    def clone(self, **options: Any) -> "Store":
        """The same server with connections of its own, and these options changed."""
        return Store(self.address, msgspec.structs.replace(self.options, **options))

    def blocking(self, at_most: float) -> Redis:
        """A client of its own for calls that block up to that many seconds."""
        client = self._client(at_most + self.options.call_timeout, self.options.max_connections)
        self._blocking.append(client)
        return client

    async def ask(self, *command: Any) -> Any:
        """Send one command; whatever goes wrong is told in our words."""
        with faults.translated():
            return await self.hot.execute_command(*command)

    async def check(self) -> None:
        """Make sure that the store answers."""
        try:
            with faults.translated():
                await self.redis.execute_command("PING")
        except StoreUnreachable as error:
            raise StoreUnreachable(f"no store answers at {self.address}: {error}") from error
        except StoreBusy as error:
            raise StoreBusy(f"the store at {self.address} is not ready: {error}") from error

    async def close(self) -> None:
        """Close every connection, and give up the share in an embedded server."""
        opened = self.__dict__
        for name in ("hot", "durable"):
            if isinstance(client := opened.get(name), Pipe | Replicated):
                await client.close()
        for client in [*self._blocking, *([opened["redis"]] if "redis" in opened else [])]:
            await client.aclose()
        if self._sentinel:
            for watcher in self._sentinel.sentinels:
                await watcher.aclose()
        if self._share:
            self._share.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _client(self, patience: float, most: int) -> Redis:
        address = self.address
        settings = _settings(address, self.options, patience)
        match address.kind:
            case Kind.CLUSTER:
                nodes = [ClusterNode(host, port) for host, port in address.hosts]
                cluster = RedisCluster(
                    startup_nodes=nodes, max_connections=most, **settings, **_tls(address)
                )
                # It has the same commands, though not the same ancestors.
                return cast(Redis, cluster)
            case Kind.SENTINEL:
                return self._watched(settings, most)
            case Kind.SINGLE | Kind.SOCKET:
                pool = BlockingConnectionPool(
                    max_connections=most, timeout=patience, **_door(address), **settings
                )
                return Redis.from_pool(pool)

    def _watched(self, settings: dict[str, Any], most: int) -> Redis:
        address = self.address
        if self._sentinel is None:
            # Sentinels keep passwords of their own and have no databases.
            plain = {
                name: value
                for name, value in settings.items()
                if name not in ("username", "password")
            }
            self._sentinel = Sentinel(
                list(address.hosts), sentinel_kwargs={**plain, **_tls(address)}
            )
        return self._sentinel.master_for(
            address.service, max_connections=most, db=address.db, **settings, **_tls(address)
        )


def _settings(address: Address, options: StoreOptions, patience: float) -> dict[str, Any]:
    return {
        "username": address.username,
        "password": address.password,
        "client_name": options.client_name,
        "socket_connect_timeout": options.connect_timeout,
        "socket_timeout": patience,
        "decode_responses": False,
        "protocol": 2,
        # A call that may have happened must not happen again behind the caller's back.
        "retry": Retry(NoBackoff(), 0),
    }


def _tls(address: Address) -> dict[str, Any]:
    return {"ssl": True, **address.tls_options} if address.tls else {}


def _door(address: Address) -> dict[str, Any]:
    if address.kind is Kind.SOCKET:
        return {
            "connection_class": UnixDomainSocketConnection,
            "path": address.path,
            "db": address.db,
        }
    host, port = address.hosts[0]
    place = {"host": host, "port": port, "db": address.db}
    if address.tls:
        return {"connection_class": SSLConnection, **place, **address.tls_options}
    return {"connection_class": Connection, **place}
