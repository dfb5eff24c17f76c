"""How long tests wait for what must happen: generously, and longer on a machine that is slow."""

import os

PATIENCE = float(os.environ.get("WAYSTATION_TEST_PATIENCE", "1"))
"""By how much every limit is stretched."""

LIMIT_S = 60 * PATIENCE
"""For what happens at once on a quiet machine: it ends a test that hangs, and measures nothing."""


def limit(seconds: float) -> float:
    """A limit for what takes longer even on a quiet machine."""
    return seconds * PATIENCE
