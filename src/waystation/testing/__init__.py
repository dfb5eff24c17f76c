"""Tools for tests of your own handlers and producers.

- `run_jobs` runs handlers over jobs in memory, without a store.
- `embedded_server` starts an empty server for one test, for producers and whole workers.
- `run_until_empty` lets a worker finish everything that is in a queue.
- `HandClock` is a clock that stands still until the test advances it.
"""

from waystation.core.clock import HandClock
from waystation.testing.jobs import MemoryJob, run_jobs
from waystation.testing.servers import Counted, Runs, embedded_server, run_until_empty

__all__ = [
    "Counted",
    "HandClock",
    "MemoryJob",
    "Runs",
    "embedded_server",
    "run_jobs",
    "run_until_empty",
]
