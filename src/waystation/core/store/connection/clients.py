"""redis-py's clients, built from an address: those for an event loop, and those that block."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import redis
from redis import asyncio as redis_asyncio
from redis import cluster, connection, retry, sentinel
from redis.asyncio import cluster as async_cluster
from redis.asyncio import connection as async_connection
from redis.asyncio import retry as async_retry
from redis.asyncio import sentinel as async_sentinel
from redis.backoff import NoBackoff

from waystation.core.store import faults
from waystation.core.store.connection.address import Address, Kind


class Kit(NamedTuple):
    """The classes that a client is made of."""

    client: Any
    cluster: Any
    node: Any
    sentinel: Any
    pool: Any
    tcp: Any
    tls: Any
    unix: Any
    retry: Any


class _Cancellable:
    """A connection of redis-py whose calls end when their task is cancelled.

    Before Python 3.12 `asyncio.wait_for`, by which redis-py sends, loses a cancellation that comes
    just when it is done; a task that is cancelled once would go on for ever.
    """

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        task = asyncio.current_task()
        before = task.cancelling() if task else 0
        await cast(Any, super()).send_packed_command(command, check_health)
        if task and task.cancelling() > before:
            # Its answer will not be read, so nobody else may use this connection.
            await cast(Any, self).disconnect(nowait=True)
            raise asyncio.CancelledError


class _Tcp(_Cancellable, async_connection.Connection):
    pass


class _Tls(_Cancellable, async_connection.SSLConnection):
    pass


class _Unix(_Cancellable, async_connection.UnixDomainSocketConnection):
    pass


class _Faulty:
    """A client of redis-py that raises nothing but faults of the store."""

    async def execute_command(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return await cast(Any, super()).execute_command(*args, **kwargs)
        except Exception as error:
            fault = faults.of_client(error)
            if fault is error:
                raise
            raise fault from error


class _Redis(_Faulty, redis_asyncio.Redis):
    pass


class _Cluster(_Faulty, redis_asyncio.RedisCluster):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        shared = self.connection_kwargs
        kind = _Tls if shared["connection_class"] is async_connection.SSLConnection else _Tcp
        # There is no argument for it; nodes that are found later are made with what they share.
        shared["connection_class"] = kind
        for node in self.nodes_manager.startup_nodes.values():
            node.connection_class = kind
        # Every node reads its answers by this very table.
        for command, read in self.response_callbacks.items():
            self.response_callbacks[command] = _read_unless_as_sent(read)
        for command, join in self.result_callbacks.items():
            self.result_callbacks[command] = _joined(join)

    async def aclose(self) -> None:
        # After a lost node they are to be asked for anew, and redis-py would close none of them.
        lost_one = self._initialize
        await super().aclose()
        for nodes in ("nodes_cache", "startup_nodes") if lost_one else ():
            await self.nodes_manager.aclose(nodes)


def _read_unless_as_sent(read: Callable[..., Any]) -> Callable[..., Any]:
    """What reads an answer of one command, unless its caller wants it as it was sent."""

    def answer(response: Any, as_sent: bool = False, **options: Any) -> Any:
        return response if as_sent else read(response, **options)

    return answer


def _joined(join: Callable[..., Any]) -> Callable[..., Any]:
    """What joins the answers of several nodes, which does not know how they were wanted."""

    def answer(*given: Any, as_sent: bool = False, **options: Any) -> Any:
        return join(*given, **options)

    return answer


class AsSent:
    """A cluster's client that hands out what a server sends, as the pipe to a single one does."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster

    async def execute_command(self, *args: Any) -> Any:
        """Send one command and give back its answer."""
        return await self._cluster.execute_command(*args, as_sent=True)


LOOP = Kit(
    client=_Redis,
    cluster=_Cluster,
    node=async_cluster.ClusterNode,
    sentinel=async_sentinel.Sentinel,
    pool=redis_asyncio.BlockingConnectionPool,
    tcp=_Tcp,
    tls=_Tls,
    unix=_Unix,
    retry=async_retry.Retry,
)
"""For an event loop."""
BLOCKING = Kit(
    client=redis.Redis,
    cluster=redis.RedisCluster,
    node=cluster.ClusterNode,
    sentinel=sentinel.Sentinel,
    pool=redis.BlockingConnectionPool,
    tcp=connection.Connection,
    tls=connection.SSLConnection,
    unix=connection.UnixDomainSocketConnection,
    retry=retry.Retry,
)
"""For threads; its pools open connections anew after a fork."""


class Clients:
    """Makes the clients of one address."""

    def __init__(
        self, kit: Kit, address: Address, *, client_name: str, connect_timeout: float
    ) -> None:
        self._kit = kit
        self._address = address
        self._client_name = client_name
        self._connect_timeout = connect_timeout
        self._sentinel: Any = None

    @property
    def watchers(self) -> list[Any]:
        """The clients of the sentinels, which are to be closed, too."""
        return self._sentinel.sentinels if self._sentinel else []

    def make(self, patience: float, most: int, name: str | None = None) -> Any:
        """A client whose calls may take so many seconds, with so many connections at most."""
        kit, address = self._kit, self._address
        settings = self._settings(patience, name or self._client_name)
        match address.kind:
            case Kind.CLUSTER:
                nodes = [kit.node(host, port) for host, port in address.hosts]
                return kit.cluster(
                    startup_nodes=nodes, max_connections=most, **settings, **_tls(address)
                )
            case Kind.SENTINEL:
                return self._watched(settings, most)
            case Kind.SINGLE | Kind.SOCKET:
                place = _place(kit, address)
                pool = kit.pool(max_connections=most, timeout=patience, **place, **settings)
                return kit.client.from_pool(pool)

    def _settings(self, patience: float, name: str) -> dict[str, Any]:
        return {
            "username": self._address.username,
            "password": self._address.password,
            "client_name": name,
            "socket_connect_timeout": self._connect_timeout,
            "socket_timeout": patience,
            "decode_responses": False,
            "protocol": 2,
            # A call that may have happened must not happen again behind the caller's back.
            "retry": self._kit.retry(NoBackoff(), 0),
        }

    def _watched(self, settings: dict[str, Any], most: int) -> Any:
        address = self._address
        if self._sentinel is None:
            # Sentinels keep passwords of their own and have no databases.
            plain = {
                name: value
                for name, value in settings.items()
                if name not in ("username", "password")
            }
            self._sentinel = self._kit.sentinel(
                list(address.hosts), sentinel_kwargs={**plain, **_tls(address)}
            )
        return self._sentinel.master_for(
            address.service,
            redis_class=self._kit.client,
            max_connections=most,
            db=address.db,
            **settings,
            **_tls(address),
        )


def _tls(address: Address) -> dict[str, Any]:
    return {"ssl": True, **address.tls_options} if address.tls else {}


def _place(kit: Kit, address: Address) -> dict[str, Any]:
    if address.kind is Kind.SOCKET:
        return {"connection_class": kit.unix, "path": address.path, "db": address.db}
    host, port = address.hosts[0]
    place = {"host": host, "port": port, "db": address.db}
    if address.tls:
        return {"connection_class": kit.tls, **place, **address.tls_options}
    return cast("dict[str, Any]", {"connection_class": kit.tcp, **place})
