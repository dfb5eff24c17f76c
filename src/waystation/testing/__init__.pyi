"""What `waystation.testing` offers.

Written by `make docs` from the list next to it; do not edit.
"""

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
