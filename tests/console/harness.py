"""A console over a store, and clients that ask its HTTP API."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from waystation.console.app import App
from waystation.console.options import ConsoleOptions
from waystation.core.operators.roles import Role
from waystation.core.store.connection import Store, connect

ADMIN = ConsoleOptions(local_role=Role.ADMIN, change_floor_s=0)
SIGN_IN = ConsoleOptions(sign_in=True, change_floor_s=0, guess_floor_s=0)


class ConsoleApi:
    """A console under test, asked through its HTTP API."""

    def __init__(self, store: Store, options: ConsoleOptions) -> None:
        self.store = store
        self.app = App(store, options)
        self._clients: list[httpx2.AsyncClient] = []
        self.here = self.person()

    def person(
        self, address: str = "127.0.0.1", host: str = "localhost:8090", **headers: str
    ) -> httpx2.AsyncClient:
        """Return a client with an address, a host and cookies of its own."""
        transport = httpx2.ASGITransport(app=self.app, client=(address, 1234))
        client = httpx2.AsyncClient(transport=transport, base_url=f"http://{host}", headers=headers)
        self._clients.append(client)
        return client

    async def operator(self, role: str, queues: list[str] | None = None) -> httpx2.AsyncClient:
        """Return a client with an operator's key."""
        key = await self.app.console.operators.issue(f"a {role}", Role(role), queues=queues)
        return self.person("10.1.1.1", "console.test", authorization=f"Bearer {key}")

    async def get(self, path: str, **more: Any) -> Any:
        """Send a GET request from this machine and return the JSON answer."""
        answer = await self.here.get(f"/api/v1/{path}", **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post(self, path: str, body: Any = None, *, status: int = 200) -> Any:
        """Send a POST request from this machine and return the JSON answer."""
        answer = await self.here.post(f"/api/v1/{path}", json=body or {})
        assert answer.status_code == status, answer.text
        return answer.json()

    async def act(self, queue: str, action: str, **asked: Any) -> Any:
        """Run an action on a bullmq queue."""
        return await self.post(f"queues/bullmq/{queue}/actions/{action}", asked)

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()
        await self.app.close()


@asynccontextmanager
async def api(url: str, options: ConsoleOptions = ADMIN) -> AsyncGenerator[ConsoleApi]:
    """Open a console over the store at `url`."""
    async with await connect(url) as store:
        opened = ConsoleApi(store, options)
        try:
            yield opened
        finally:
            await opened.close()
