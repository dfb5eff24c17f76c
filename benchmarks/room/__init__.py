"""The waiting room: its cost for Redis, and the throughput of its HTTP API."""

from benchmarks.report import Report
from benchmarks.room import server, store


def run() -> list[Report]:
    """Measure the store's side, then the HTTP API."""
    return [*store.run(), *server.reports()]
