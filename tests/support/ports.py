"""Ports that nobody uses."""

import socket


def free_port() -> int:
    """A port on the loopback that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
