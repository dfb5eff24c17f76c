"""The server process for wrk: the HTTP API with some visitors in line, and empty handlers."""

import asyncio
import random
import sys
from pathlib import Path

from waystation.core.http.endpoints import Table, endpoint, offered
from waystation.core.http.exchange import (
    Answer,
    Receive,
    Request,
    Scope,
    Send,
    answer,
)
from waystation.core.http.server import run, serving
from waystation.core.store import embedded
from waystation.core.store.connection import connect
from waystation.waitingroom import Joined, JoinRequest, Lane, RoomOptions
from waystation.waitingroom.http.app import App
from waystation.waitingroom.http.bodies import Enqueue
from waystation.waitingroom.http.context import ServerContext
from waystation.waitingroom.http.options import ServerOptions
from waystation.waitingroom.rooms import Rooms
from waystation.waitingroom.signing import Keyring

PEOPLE = 2000


class Nothing:
    """Empty handlers: all that the server does for whoever asks, and then no work."""

    @endpoint("GET /api/v1/queues/{id}/nothing")
    async def look(self, request: Request) -> Answer:
        """Say nothing."""
        return answer({})

    @endpoint("POST /api/v1/queues/{id}/nothing", takes=Enqueue)
    async def listen(self, request: Request) -> Answer:
        """Read the body of a join, and answer nothing."""
        await request.read(Enqueue)
        return answer({})


async def bare(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer without a look at what is asked."""
    head = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": b"{}"})


async def serve(port: int, bare_port: int, folder: Path) -> None:
    """Serve until somebody ends the process; the tickets of those in line lie in the folder."""
    with embedded.ephemeral() as server:
        async with await connect(server.url) as store:
            rooms = Rooms(store)
            keyring = Keyring.generate(random.SystemRandom())
            # Everybody here asks as often as the machine can, which visitors may not.
            context = ServerContext.create(rooms, keyring, ServerOptions(poll_floor=0))
            _write(folder / "tickets", await _fill(context))
            app = App(context)
            app.table = Table([*app.table, *offered(Nothing(), group="benchmark")])
            async with (
                serving(app, host="127.0.0.1", port=port),
                serving(bare, host="127.0.0.1", port=bare_port),
            ):
                (folder / "ready").touch()
                await asyncio.Event().wait()


def _write(file: Path, tickets: list[str]) -> None:
    file.write_text("\n".join(tickets))


async def _fill(context: ServerContext) -> list[str]:
    room = context.rooms.of("{shop}")
    await room.open(RoomOptions(admission_rate=1, newcomers_per_minute=0, max_queue_size=0))
    state = await room.state()
    tickets: list[str] = []
    for number in range(PEOPLE):
        entry = await room.join(JoinRequest(key=f"{number}", secret="s"))
        assert isinstance(entry, Joined)
        tickets.append(context.tokens.sign_ticket(room, entry.place, Lane.NORMAL, state))
    return tickets


if __name__ == "__main__":
    run(serve(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])))
