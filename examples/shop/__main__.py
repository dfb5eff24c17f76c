"""Run the shop and its waiting room on this machine: `python -m examples.shop`."""

import asyncio
import random
import sys

from granian.constants import Interfaces
from granian.server.embed import Server

from examples.shop.site import site
from waystation.core.operators.roles import Role
from waystation.core.runtime.service import until_asked_to_stop
from waystation.core.settings.section import Secret
from waystation.core.store import embedded
from waystation.core.store.connection import connect
from waystation.waitingroom import RoomOptions
from waystation.waitingroom import serving as room
from waystation.waitingroom.middleware import GateOptions, Rule, WaitingRoomMiddleware
from waystation.waitingroom.settings import RoomSettings
from waystation.waitingroom.signing import Keyring

ROOM, SHOP = 8080, 8000


async def main() -> None:
    """Serve until somebody presses Ctrl-C."""
    keys = Secret(Keyring.generate(random.SystemRandom()).to_json())
    options = GateOptions(
        rules=[Rule(queue="shop", path="/checkout*")],
        room_url=f"http://localhost:{ROOM}",
        site_url=f"http://localhost:{SHOP}",
    )
    shop = WaitingRoomMiddleware(site, room=f"http://127.0.0.1:{ROOM}", options=options)
    server = Server(shop, port=SHOP, interface=Interfaces.ASGI, log_enabled=False)
    with embedded.ephemeral() as store_server:
        async with (
            await connect(store_server.url) as store,
            room.running(RoomSettings(port=ROOM, keys=keys), store) as app,
        ):
            line = app.context.rooms.of("shop")
            await line.open(RoomOptions(name="The little shop", max_active=3, admission_rate=0.2))
            await line.store.write({"return_hosts": f"localhost:{SHOP}"})
            key = await app.operators.issue("you", Role.ADMIN)
            serving = asyncio.create_task(server.serve())
            print(f"shop      http://localhost:{SHOP}/")
            print(f"operator  http://localhost:{ROOM}/operate/shop   key: {key}", flush=True)
            await until_asked_to_stop()
            server.stop()
            await asyncio.wait([serving], timeout=5)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
