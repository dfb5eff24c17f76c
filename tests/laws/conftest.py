"""Every law is tested over every line."""

from collections.abc import AsyncGenerator

import pytest

from tests.laws.bullmq_line import bullmq_line
from tests.laws.files_line import files_line
from tests.laws.line import Line, OpenLine
from tests.laws.memory_line import memory_line
from tests.laws.routing_line import routing_line

LINES: dict[str, OpenLine] = {
    "memory": memory_line,
    "bullmq": bullmq_line,
    "files": files_line,
    "routing": routing_line,
}


@pytest.fixture(params=LINES)
async def line(request: pytest.FixtureRequest, redis_url: str) -> AsyncGenerator[Line]:
    async with LINES[request.param](redis_url) as opened:
        yield opened
