"""Worker daemon: the process that Spark's Python workers are forked from, with imports done once.

Spark plans, reads and commits in many short-lived processes, and each would spend a second or more
on imports.
"""

import gc
from importlib import import_module

from pyspark import daemon

# Only what starts no thread may be there before a fork; delta-rs starts one.
NEEDED = (
    "waystation.pipeline.bronze.archive",
    "waystation.pipeline.sources.events",
    "waystation.pipeline.sources.jobs",
)

if __name__ == "__main__":
    for name in NEEDED:
        import_module(name)
    # Memory that is never collected is not written to, so all workers share it.
    gc.freeze()
    daemon.manager()
