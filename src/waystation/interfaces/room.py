"""The settings of the waiting room's doors made into running things."""

import os
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from waystation.core.errors import InvalidSetting
from waystation.core.store.connection import Store
from waystation.core.telemetry.metrics import Metrics
from waystation.interfaces.api.app import App
from waystation.interfaces.api.care import Care
from waystation.interfaces.api.desk import Desk, DeskOptions
from waystation.interfaces.api.hooks.courier import courier_of
from waystation.interfaces.api.metrics import RoomMetrics
from waystation.interfaces.api.rooms import Rooms
from waystation.interfaces.api.server import serving
from waystation.interfaces.settings.room import RoomSettings
from waystation.queues.waitingroom.tokens import Keyring


@asynccontextmanager
async def doors(
    settings: RoomSettings, store: Store, *, metrics: Metrics | None = None
) -> AsyncGenerator[App]:
    """Answer requests and look after all rooms for as long as the block runs."""
    numbers = RoomMetrics(metrics)
    rooms = Rooms(store)
    desk = Desk(rooms, keyring(settings), desk_options(settings), metrics=numbers)
    courier = courier_of(desk)
    async with Care(rooms, numbers, courier=courier) as care:
        app = App(desk, care=care, courier=courier)
        try:
            async with serving(app, host=settings.host, port=settings.port):
                yield app
        except OSError as error:
            raise InvalidSetting(f"room.port wants a free port: {error}") from error


def desk_options(settings: RoomSettings) -> DeskOptions:
    """How the doors behave."""
    return DeskOptions(
        issuer=settings.issuer,
        secure_cookies=settings.secure_cookies,
        trusted_proxies=settings.trusted_proxies,
        webhook_networks=settings.webhook_networks,
        poll_floor_ms=round(settings.poll_floor * 1000),
        front=settings.front,
    )


def keyring(settings: RoomSettings) -> Keyring:
    """The signing keys: those of the setting, those of the file, or new ones kept in the file."""
    if settings.keys is not None:
        return Keyring.from_json(settings.keys.get_secret_value())
    path = settings.keys_file
    if not path.exists():
        _write_new(path)
    return Keyring.from_json(path.read_bytes())


def _write_new(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(f".{os.getpid()}")
    made = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(made, "w") as file:
            file.write(Keyring.generate(random.SystemRandom()).to_json())
        # Whoever comes first wins; the others read what is there then.
        os.link(aside, path)
    except FileExistsError:
        pass
    finally:
        aside.unlink()
