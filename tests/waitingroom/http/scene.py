"""A room in which everything can be asked for, the same again before every request."""

import contextlib
import json
import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from tests.waitingroom.http import harness
from tests.waitingroom.http.harness import QUEUE, RoomService
from waystation.core.http.exchange import Message, Receive, Scope, Send
from waystation.core.http.problems import Problem
from waystation.core.operators.roles import Role
from waystation.waitingroom.http.app import App
from waystation.waitingroom.http.bodies import rfc3339
from waystation.waitingroom.http.webhooks import Webhooks
from waystation.waitingroom.operating.codes import Codes
from waystation.waitingroom.operating.control import Control
from waystation.waitingroom.operating.lottery import Lottery, commit
from waystation.waitingroom.signing import KeyFile

OPTIONS = harness.ServerOptions(poll_floor=0, change_floor_ms=0, guess_floor_ms=0)
DAY_MS = 86_400_000
EMPTY, LOTS = "empty", "lots"
SECRET = "cd" * 32
SITE = "shop.example"


class _Enough(Exception):
    """A stream has said its first word."""


class Scene:
    """Somebody waits, somebody is inside, and there is one of all that has an id."""

    def __init__(self, service: RoomService, folder: Path) -> None:
        self.service = service
        self.app = service.app
        self.answers: defaultdict[str, Counter[int]] = defaultdict(Counter)
        """What came back, by operation and status."""
        self.ids: dict[str, str] = {"id": QUEUE}
        """What the parts of paths stand for."""
        self.headers: dict[str, dict[str, str]] = {}
        """What is shown, by group."""
        self._file = folder / "keys.json"
        self._kept: list[tuple[bytes, int, bytes]] = []
        self._written = b""
        self._key = ""
        self._examples: dict[str, dict[str, str]] = {}
        self._real: dict[str, str] = {}
        """What Schemathesis, which leaves braces out of paths, cannot write itself."""

    async def set(self) -> None:
        """Put everything in its place, and remember where that is."""
        service = self.service
        file = KeyFile(self._file)
        service.tokens.adopt(file.read())
        service.keyring = service.tokens.keyring
        self.app = service.app = App(service.context, keys=file)
        admin = await service.operator()
        inside = service.visitor("10.1.1.2")
        begun = await inside.enter()
        person = service.visitor()
        place = await person.join()
        service.rooms.forget()
        now_ms = (await service.room.state()).now_ms
        planned = await admin.post(
            f"/api/v1/admin/queues/{QUEUE}/events",
            {
                "event_start_time": rfc3339(now_ms + DAY_MS),
                "event_end_time": rfc3339(now_ms + 2 * DAY_MS),
            },
        )
        hook = await Webhooks(service.room).add("https://shop.example/", [])
        await Codes(service.room).make("press", 2, bits=random.SystemRandom())
        await self.app.operators.issue("bob", Role.VIEWER)
        await service.rooms.of(EMPTY).open()
        lots = service.rooms.of(LOTS)
        await lots.open()
        await Control(lots).schedule((await lots.state()).now_ms + DAY_MS)
        await Lottery(lots).announce(witness=commit(SECRET))
        await Lottery(lots).draw()
        self._real = {"the-session": begun["session_id"], "the-place": place["position_id"]}
        self.ids |= {
            "sid": "the-session", "pid": "the-place", "event": planned.json()["id"],
            "hook": hook.id, "batch": "press", "name": "bob",
        }  # fmt: skip
        held = await service.room.get_place(begun["session_id"])
        token = f"{QUEUE}.{await service.room.hand_over(held, SITE)}"
        self._examples = {
            "Redeem": {"token": token, "host": SITE},
            "NewEvent": {
                "event_start_time": rfc3339(now_ms + 3 * DAY_MS),
                "event_end_time": rfc3339(now_ms + 4 * DAY_MS),
            },
            "NewRoom": {"id": "concert"},
            "NewWebhook": {"url": "https://shop.example/room"},
        }
        self._key = admin.http.headers["authorization"].partition(" ")[2]
        key = {"Authorization": admin.http.headers["authorization"]}
        session = {"Wr-Session": begun["session_token"]}
        visitor = {
            "Authorization": f"Bearer {place['token']}", "Wr-Visitor": person.cookie("v"),
        }  # fmt: skip
        self.headers = {
            "visitor": visitor, "sessions": session, "connectors": {**key, **session},
            "admin": key, "operations": key,
        }  # fmt: skip
        redis: Any = service.store.redis
        for name in [each async for each in redis.scan_iter()]:
            self._kept.append((name, max(0, await redis.pttl(name)), await redis.dump(name)))
        self._written = self._file.read_bytes()

    async def reset(self) -> None:
        """Put everything back, also what the process remembers."""
        async with self.service.store.redis.pipeline(transaction=False) as batch:
            batch.flushdb()
            for name, ttl_ms, value in self._kept:
                batch.restore(name, ttl_ms, value)
            await batch.execute()
        self.service.room.store.forget_state()
        self.service.rooms.forget()
        if self._file.read_bytes() != self._written:
            self._file.write_bytes(self._written)
            self.service.tokens.adopt(KeyFile(self._file).read())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the room does, and take down what came back."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        await self.reset()

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.answers[self._operation(scope)][message["status"]] += 1
            elif message.get("more_body"):
                await send({**message, "more_body": False})
                raise _Enough
            await send(message)

        path: str = scope["path"]
        parts = [self._real.get(each, each) for each in path.split("/")]
        with contextlib.suppress(_Enough):
            await self.app({**scope, "path": "/".join(parts)}, receive, send_on)

    def _operation(self, scope: Scope) -> str:
        try:
            endpoint, _ = self.app.table.find(scope["method"], scope["path"])
        except Problem:
            return "none"
        return f"{endpoint.method} {endpoint.path}"

    def document(self) -> dict[str, Any]:
        """The document with what there is, so that requests get somewhere."""
        described = json.loads(self.app.described)
        for path in described["paths"].values():
            for operation in path.values():
                for each in operation["parameters"]:
                    if each["name"] in self.ids and each["in"] == "path":
                        each["schema"] = {"enum": [self.ids[each["name"]]]}
        paths, kinds = described["paths"], described["components"]["schemas"]
        paths["/v1/verify"]["get"]["parameters"][0]["schema"] = {"enum": [QUEUE]}
        # Only a room that nobody is in can be taken away.
        paths["/api/v1/admin/queues/{id}"]["delete"]["parameters"][0]["schema"] = {"enum": [EMPTY]}
        kinds["Confirm"]["properties"]["confirm"] = {"enum": [QUEUE]}
        # Only a draw that waits for its witness takes a secret.
        reveal = paths["/api/v1/queues/{id}/fairness/reveal"]["post"]
        reveal["parameters"][0]["schema"] = {"enum": [LOTS]}
        kinds["Reveal"]["properties"]["secret"] = {"enum": [SECRET]}
        # Only where nobody waits does anybody pass at once.
        kinds["Enter"]["properties"]["queue"] = {"enum": [EMPTY]}
        kinds["SignIn"]["properties"]["key"] = {"enum": [self._key]}
        for kind, example in self._examples.items():
            kinds[kind]["example"] = example
        return described
