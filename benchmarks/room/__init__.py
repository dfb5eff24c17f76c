"""The waiting room: what it costs its store, and what its doors let through."""

from benchmarks.report import Report
from benchmarks.room import doors, store


def run() -> list[Report]:
    """Measure the store's side, then the doors."""
    return [*store.run(), *doors.reports()]
