"""Checks of this machine: Python, Spark and the embedded server."""

import platform
from importlib.metadata import PackageNotFoundError, version

from waystation.cli.checks.finding import Finding, fail, ok, warn
from waystation.core.errors import StoreUnsuitable
from waystation.core.store.embedded import server_binary


def python() -> Finding:
    """Say which Python this is."""
    return ok("python", f"{platform.python_implementation()} {platform.python_version()}")


def spark() -> Finding:
    """Check for Spark, which only the pipeline needs."""
    try:
        return ok("spark", f"Spark {version('pyspark')}")
    except PackageNotFoundError:
        return warn(
            "spark",
            "Spark is not installed; history and statistics need it: "
            "run pip install 'waystation[spark]'",
        )


def embedded(*, needed: bool) -> Finding:
    """Check for the server that is started when the settings name none."""
    try:
        return ok("embedded", f"a server can be started from {server_binary()}")
    except StoreUnsuitable as missing:
        return (fail if needed else warn)("embedded", str(missing))
