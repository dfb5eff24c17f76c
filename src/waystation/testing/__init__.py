"""Tools for tests of your own handlers and producers.

- `run_jobs` runs handlers over jobs in memory, without a store.
- `sandbox` opens queues and workers on a server of their own, with a clock to turn; for `async def`
  tests with `async with`, for plain ones with `with`.
- `embedded_server` starts an empty server for one test, for producers and whole workers.
- `run_until_empty` lets a worker finish everything that is in a queue.
- `Drill` runs a handler under kills, double deliveries, lost replies and late acknowledgements.
- `HandClock` is a clock that stands still until the test advances it.
"""

from waystation.core.lazy import names_of

__getattr__ = names_of(
    __name__,
    {
        # Handlers over jobs in memory
        "jobs": "run_jobs MemoryJob",
        # Queues and workers on a server of their own
        "sync_sandbox": "sandbox Opening SyncSandbox",
        "sandboxes": "Sandbox",
        "servers": "embedded_server run_until_empty Counted Runs",
        "waystation.core.clock": "HandClock",
        # Handlers under faults
        "drill": "run_drill Drill Finding Verdict",
    },
)
