"""How much a test does: enough to see its behaviour, or in `make long` everything."""

import os
from typing import TypeVar

IS_FULL = bool(os.environ.get("WAYSTATION_FULL"))
Size = TypeVar("Size")


def size(usual: Size, *, full: Size) -> Size:
    """What `make test` plays, or what `make long` does with a test that is marked `full`."""
    return full if IS_FULL else usual
