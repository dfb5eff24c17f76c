"""The way to the store for code that runs in Spark's processes, where nothing is asynchronous."""

import os
from functools import cached_property
from typing import Any, cast

from pyspark.sql import SparkSession
from redis import Redis, RedisCluster
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.retry import Retry
from redis.sentinel import Sentinel

from waystation.core.errors import InvalidOption
from waystation.core.store.connection.address import Kind, parse

URL_VARIABLE = "WAYSTATION_STORE__URL"
"""The environment variable that holds the store's URL: one name for commands and data sources."""
PATIENCE_S = 30.0


def url_of(url: str, url_env: str) -> str:
    """The store's URL: as given, or from the environment variable that holds it."""
    found = url or os.environ.get(url_env, "")
    if not found:
        raise InvalidOption(
            f"wanted the option url, or the store's URL in the variable {url_env}; got neither"
        )
    return found


def url_options(spark: SparkSession, url: str, url_env: str = URL_VARIABLE) -> dict[str, str]:
    """How our data sources are given a URL: as an option only where nobody has lent it to them."""
    if not url:
        return {"urlEnv": url_env}
    return {} if spark.sparkContext.environment.get(URL_VARIABLE) == url else {"url": url}


class Store:
    """A store reached by its URL; opened when first asked for, and again after a journey."""

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
            "socket_timeout": PATIENCE_S,
            "socket_connect_timeout": PATIENCE_S,
            "client_name": "waystation-pipeline",
            "protocol": 2,
            # Whether a call is tried again is decided by whoever makes it.
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

    def __getstate__(self) -> dict[str, str]:
        # What travels to another process is the address, never a connection.
        return {"url": self.url}
