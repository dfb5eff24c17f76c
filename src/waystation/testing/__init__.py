"""Tools for tests of your own handlers and producers.

- `run_jobs` runs handlers over jobs in memory, without a store.
- `sandbox` opens queues and workers on a server of their own, with a clock to turn; for `async def`
  tests with `async with`, for plain ones with `with`.
- `embedded_server` starts an empty server for one test, for producers and whole workers.
- `run_until_empty` lets a worker finish everything that is in a queue.
- `Drill` runs a handler under kills, double deliveries, lost replies and late acknowledgements.
- `HandClock` is a clock that stands still until the test advances it.
"""

from typing import TYPE_CHECKING

from waystation.core.lazy import names_of

if TYPE_CHECKING:
    from waystation.core.clock import HandClock
    from waystation.testing.drill import Drill, Finding, Verdict, run_drill
    from waystation.testing.jobs import MemoryJob, run_jobs
    from waystation.testing.sandboxes import Sandbox
    from waystation.testing.servers import Counted, Runs, embedded_server, run_until_empty
    from waystation.testing.sync_sandbox import Opening, SyncSandbox, sandbox

__all__ = [
    "Counted",
    "Drill",
    "Finding",
    "HandClock",
    "MemoryJob",
    "Opening",
    "Runs",
    "Sandbox",
    "SyncSandbox",
    "Verdict",
    "embedded_server",
    "run_drill",
    "run_jobs",
    "run_until_empty",
    "sandbox",
]

__getattr__ = names_of(
    __name__,
    {
        "waystation.core.clock": "HandClock",
        "drill": "Drill Finding Verdict run_drill",
        "jobs": "MemoryJob run_jobs",
        "sandboxes": "Sandbox",
        "servers": "Counted Runs embedded_server run_until_empty",
        "sync_sandbox": "Opening SyncSandbox sandbox",
    },
)
