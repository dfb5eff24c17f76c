"""Synchronous client of the store, for Spark's driver and tasks."""

import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from redis import Redis, RedisCluster
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.connection import AbstractConnection
from redis.retry import Retry
from redis.sentinel import Sentinel

from waystation.core.errors import InvalidOption
from waystation.core.store.connection.address import Kind, parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

from waystation.core.store import faults
from waystation.pipeline.sources.offsets import Offset

URL_VARIABLE = "WAYSTATION_STORE__URL"
"""Environment variable with the store's URL, the same for commands and data sources."""
_TIMEOUT_S = 30.0
KEYS_A_CALL = 500
"""Keys that one call asks about."""
Command: TypeAlias = Sequence[str | int]
"""A command's name and arguments."""


@contextmanager
def own_connection(client: Redis) -> Generator[AbstractConnection]:
    """A connection for commands whose replies are read later; closed and given back afterwards."""
    pool = client.connection_pool
    connection: AbstractConnection = pool.get_connection()
    try:
        yield connection
    finally:
        # Whoever has used it may have stopped early, with a reply still under way.
        connection.disconnect()
        pool.release(connection)


def url_of(url: str, url_env: str) -> str:
    """The store's URL: as given, or from the environment variable that holds it."""
    found = url or os.environ.get(url_env, "")
    if not found:
        raise InvalidOption(
            f"wanted the option url, or the store's URL in the variable {url_env}; got neither"
        )
    return found


def url_option(spark: "SparkSession", url: str, url_env: str = URL_VARIABLE) -> dict[str, str]:
    """The URL as an option of our data sources; nothing when the session already shares it."""
    if not url:
        return {"urlEnv": url_env}
    # A session of Spark Connect has none: its server has the environment it was started with.
    context = getattr(spark, "sparkContext", None)
    is_shared = context is not None and context.environment.get(URL_VARIABLE) == url
    return {} if is_shared else {"url": url}


class Store:
    """A store by its URL; connects on first use, and again in each process it is sent to."""

    def __init__(self, url: str) -> None:
        self.url = url

    def at(self, key: str) -> Redis:
        """A client of the server that holds this key."""
        client = self.client
        if isinstance(client, RedisCluster):
            node = client.get_node_from_key(key)
            return cast(Redis, cast(Any, node).redis_connection)
        return client

    @cached_property
    def client(self) -> "Redis | RedisCluster":
        """A client of the whole store."""
        address = parse(self.url)
        settings: dict[str, Any] = {
            "username": address.username,
            "password": address.password,
            "socket_timeout": _TIMEOUT_S,
            "socket_connect_timeout": _TIMEOUT_S,
            "client_name": "waystation-pipeline",
            "protocol": 2,
            # The caller decides whether a call is tried again.
            "retry": Retry(NoBackoff(), 0),
        }
        tls: dict[str, Any] = {"ssl": True, **address.tls_options} if address.tls else {}
        match address.kind:
            case Kind.SOCKET:
                return Redis(unix_socket_path=address.path, db=address.db, **settings)
            case Kind.SENTINEL:
                sentinel = Sentinel(list(address.hosts), **tls)
                return sentinel.master_for(address.service, db=address.db, **settings, **tls)
            case Kind.CLUSTER:
                nodes = [ClusterNode(host, port) for host, port in address.hosts]
                return RedisCluster(startup_nodes=nodes, **settings, **tls)
            case Kind.SINGLE:
                host, port = address.hosts[0]
                return Redis(host=host, port=port, db=address.db, **settings, **tls)

    def ask(self, commands: Mapping[str, Command], *, raising: bool = True) -> dict[str, Any]:
        """The replies to one command about each key, some hundred in one call.

        Without `raising`, an error is the reply to its command.
        """
        servers: dict[Redis, list[str]] = {}
        for key in commands:
            servers.setdefault(self.at(key), []).append(key)
        replies: dict[str, Any] = {}
        for client, mine in servers.items():
            for first in range(0, len(mine), KEYS_A_CALL):
                some = mine[first : first + KEYS_A_CALL]
                pipe: Any = client.pipeline(transaction=False)
                for key in some:
                    pipe.execute_command(*commands[key])
                replies |= zip(some, pipe.execute(raise_on_error=raising), strict=True)
        return replies

    def __getstate__(self) -> dict[str, str]:
        # A connection cannot be sent to another process; the URL can.
        return {"url": self.url}


def ends_of(store: Store, streams: Iterable[str]) -> dict[str, Offset]:
    """The ends of those streams that are there."""
    found = store.ask({each: ("XINFO STREAM", each) for each in streams}, raising=False)
    return {stream: _end(info) for stream, info in found.items() if not _is_missing(info)}


def _is_missing(info: Any) -> bool:
    if not isinstance(info, Exception):
        return False
    if "no such key" in str(info).lower():
        return True
    raise faults.to_waystation_error(info) from info


def _end(info: Mapping[str, Any]) -> Offset:
    added, last = info.get("entries-added"), info["last-generated-id"]
    last = last.decode() if isinstance(last, bytes) else last
    return Offset(last, None if added is None else int(added))
