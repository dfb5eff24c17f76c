"""A waiting room behind its HTTP API, and visitors who use it."""

import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import msgspec

from waystation.core.clock import HandClock, SystemClock
from waystation.core.operators.oidc import Provider
from waystation.core.operators.oidc_settings import OidcOptions
from waystation.core.operators.roles import Role
from waystation.core.store.connection import Store, connect
from waystation.waitingroom.http.app import App
from waystation.waitingroom.http.context import ServerContext
from waystation.waitingroom.http.options import ServerOptions
from waystation.waitingroom.operating.control import Control
from waystation.waitingroom.options import RoomOptions
from waystation.waitingroom.room import Room
from waystation.waitingroom.rooms import Rooms
from waystation.waitingroom.running import Admission
from waystation.waitingroom.signing import EnqueueTicket, Keyring
from waystation.waitingroom.visitor import Lane

HOST = "shop.test"
QUEUE = "shop"
ADMIN = f"/api/v1/admin/queues/{QUEUE}"
"""The path of the room's API for operators."""
OPTIONS = ServerOptions(poll_floor=0, change_floor_ms=0)


class RoomService:
    """One room called `shop` behind its HTTP API."""

    def __init__(
        self,
        store: Store,
        options: ServerOptions,
        clock: HandClock | None,
        oidc: OidcOptions | None = None,
    ) -> None:
        self.store = store
        self.oidc = oidc
        self.clock = clock
        self.rooms = Rooms(store, time=clock)
        self.keyring = Keyring.generate(random.SystemRandom())
        self.context = ServerContext.create(
            self.rooms, self.keyring, options, clock=clock or SystemClock()
        )
        self.tokens = self.context.tokens
        self.app = App(self.context, provider=Provider(oidc, self.context.clock) if oidc else None)
        self.room = self.rooms.of(f"{{{QUEUE}}}")
        self.control = Control(self.room)
        self.admission = Admission(self.room)
        self._clients: list[httpx2.AsyncClient] = []

    def visitor(self, address: str = "10.1.1.1", **headers: str) -> "Person":
        """Return a visitor with cookies of their own."""
        transport = httpx2.ASGITransport(app=self.app, client=(address, 1234))
        client = httpx2.AsyncClient(
            transport=transport, base_url=f"https://{HOST}", headers=headers
        )
        self._clients.append(client)
        return Person(self, client)

    async def arrived(self, address: str = "10.1.1.1", **headers: str) -> "Person":
        """Return a visitor who has opened the page."""
        person = self.visitor(address, **headers)
        await person.arrive()
        return person

    async def joined(self, address: str = "10.1.1.1", **headers: str) -> "Person":
        """Return a visitor who has joined the room."""
        person = self.visitor(address, **headers)
        await person.join()
        return person

    async def operator(self, role: str = "admin", queues: list[str] | None = None) -> "Person":
        """Return a client with an operator's key."""
        key = await self.app.operators.issue(f"a {role}", Role(role), queues=queues)
        return self.visitor(authorization=f"Bearer {key}")

    def invitation(self, key: str, lane: Lane = Lane.PREMIUM, **more: Any) -> str:
        """Return a signed invitation."""
        now = int(self.tokens.now_s())
        claims = EnqueueTicket(
            iss=self.tokens.issuer, aud=QUEUE, iat=now, exp=now + 600, jti=key, epoch=1,
            key=key, lane=lane,
        )  # fmt: skip
        return self.keyring.sign(msgspec.structs.replace(claims, **more))

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()


class Person:
    """A client of the room, a browser or an app, with its own cookies."""

    def __init__(self, service: RoomService, client: httpx2.AsyncClient) -> None:
        self.service = service
        self.http = client

    async def get(self, path: str, **more: Any) -> httpx2.Response:
        return await self.http.get(path, **more)

    async def post(self, path: str, json: Any = None, **more: Any) -> httpx2.Response:
        return await self.http.post(path, json=json, **more)

    async def ask(self, method: str, verb: str, json: Any = None, **more: Any) -> httpx2.Response:
        return await self.http.request(method, f"/api/v1/queues/{QUEUE}/{verb}", json=json, **more)

    async def arrive(self) -> None:
        """Open the page, which sets the visitor's cookie when there is none."""
        assert (await self.get(f"/wait/{QUEUE}/facts")).status_code == 200

    async def join(self, **body: Any) -> dict[str, Any]:
        """Join the room as a browser does."""
        await self.arrive()
        answer = await self.ask("POST", "enqueue", body)
        assert answer.status_code in (200, 201, 202), answer.text
        return answer.json()

    async def status(self) -> dict[str, Any]:
        return (await self.ask("GET", "status")).json()

    async def claim(self) -> httpx2.Response:
        return await self.ask("POST", "claim", {})

    async def enter(self) -> dict[str, Any]:
        """Join, be called and enter."""
        await self.join()
        await self.service.admission.admit_now(1)
        answer = await self.claim()
        assert answer.status_code == 200, answer.text
        return answer.json()

    def cookie(self, kind: str) -> str:
        """Return one of the room's cookies."""
        return self.http.cookies.get(f"__Host-wr_{kind}") or ""


@asynccontextmanager
async def service(
    url: str,
    options: ServerOptions = OPTIONS,
    *,
    clock: HandClock | None = None,
    oidc: OidcOptions | None = None,
    **room: Any,
) -> AsyncGenerator[RoomService]:
    """Serve a room that is open; nobody is admitted unless the test does it."""
    async with await connect(url) as store:
        built = RoomService(store, options, clock, oidc)
        await built.room.open(RoomOptions(admission_rate=0.0, name="Shop").changed(**room))
        try:
            yield built
        finally:
            await built.close()


async def drain(room: Room, count: int) -> None:
    """Admit visitors until `count` were called."""
    called = 0
    while called < count:
        called += len((await Admission(room).admit_now(min(1000, count - called))).called)
