"""The server process that wrk asks: the doors with some people in line, and an empty handler."""

import asyncio
import random
import sys
from pathlib import Path

from waystation.core.store import embedded
from waystation.core.store.connection import connect
from waystation.interfaces.api.app import App
from waystation.interfaces.api.desk import Desk, DeskOptions
from waystation.interfaces.api.exchange import Receive, Scope, Send
from waystation.interfaces.api.rooms import Rooms
from waystation.interfaces.api.server import run, serving
from waystation.queues.waitingroom import Joined, Lane, Newcomer, RoomOptions
from waystation.queues.waitingroom.tokens import Keyring

PEOPLE = 2000


async def serve(port: int, folder: Path) -> None:
    """Serve until somebody ends the process; the tickets of those in line lie in the folder."""
    with embedded.ephemeral() as server:
        async with await connect(server.url) as store:
            rooms = Rooms(store)
            keyring = Keyring.generate(random.SystemRandom())
            # Everybody here asks as often as the machine can, which visitors may not.
            desk = Desk(rooms, keyring, DeskOptions(poll_floor_ms=0))
            _write(folder / "tickets", await _fill(desk))
            app = App(desk)

            async def site(scope: Scope, receive: Receive, send: Send) -> None:
                if scope["type"] == "http" and scope["path"] == "/empty":
                    head = [(b"content-length", b"2")]
                    await send({"type": "http.response.start", "status": 200, "headers": head})
                    await send({"type": "http.response.body", "body": b"{}"})
                    return
                await app(scope, receive, send)

            async with serving(site, host="127.0.0.1", port=port):
                (folder / "ready").touch()
                await asyncio.Event().wait()


def _write(file: Path, tickets: list[str]) -> None:
    file.write_text("\n".join(tickets))


async def _fill(desk: Desk) -> list[str]:
    room = desk.rooms.of("{shop}")
    await room.open(RoomOptions(admission_rate=1, newcomers_per_minute=0, max_queue_size=0))
    pulse = await room.pulse()
    tickets: list[str] = []
    for number in range(PEOPLE):
        entry = await room.join(Newcomer(key=f"{number}", secret="s"))
        assert isinstance(entry, Joined)
        tickets.append(desk.ticket(room, entry.place, Lane.NORMAL, pulse))
    return tickets


if __name__ == "__main__":
    run(serve(int(sys.argv[1]), Path(sys.argv[2])))
