"""The embedded server: a Redis-compatible server that a program starts and stops by itself."""

from waystation.core.store.embedded.server import (
    HOME,
    LONGEST_SOCKET_PATH,
    Ephemeral,
    Shared,
    cluster_node,
    ephemeral,
    sentinel,
    server_binary,
    shared,
)

__all__ = [
    "HOME",
    "LONGEST_SOCKET_PATH",
    "Ephemeral",
    "Shared",
    "cluster_node",
    "ephemeral",
    "sentinel",
    "server_binary",
    "shared",
]
