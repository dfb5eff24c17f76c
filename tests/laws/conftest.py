"""Every law is tested over every line."""

from collections.abc import AsyncGenerator

import pytest

from .line import Line, OpenLine
from .memory_line import memory_line

LINES: dict[str, OpenLine] = {"memory": memory_line}


@pytest.fixture(params=LINES)
async def line(request: pytest.FixtureRequest) -> AsyncGenerator[Line]:
    async with LINES[request.param]() as opened:
        yield opened
