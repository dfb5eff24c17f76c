"""An assistant asks about the queues, with the official client."""

import asyncio
import os
import sys

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

server = StdioServerParameters(
    command=sys.executable, args=["-m", "waystation", "mcp"], env=dict(os.environ)
)


async def main() -> None:
    async with Client(stdio_client(server), read_timeout_seconds=120) as client:
        tools = {each.name for each in (await client.list_tools()).tools}
        answer = await client.call_tool("queues", {})
    assert "why" in tools
    assert not answer.is_error, answer


asyncio.run(main())
