"""The commands, each loaded only when it is called, so that help comes at once."""

from typing import Any

import msgspec
from typer.core import TyperCommand
from typer.main import get_command

from waystation.core.app import extras


class Mount(msgspec.Struct, frozen=True):
    """One command or group of commands, and what it needs."""

    name: str
    module: str
    """The module whose `app` it is."""
    help: str
    panel: str
    """The heading that it stands under; those with the same one follow each other."""
    extra: str | None = None
    """The extra to install when something it imports is missing."""


MOUNTS = (
    Mount("doctor", "waystation.cli.doctor", "Look whether all is well.", "Setting up"),
    Mount("config", "waystation.cli.config", "See the settings.", "Setting up"),
    Mount(
        "bullmq",
        "waystation.bullmq.commands.app",
        "Share queues with Node's BullMQ.",
        "Lines",
    ),
    Mount(
        "routing",
        "waystation.routing.commands.app",
        "Send jobs to the workers that can do them.",
        "Lines",
    ),
    Mount("files", "waystation.files.commands.app", "Turn a directory into work.", "Lines"),
    Mount(
        "room",
        "waystation.waitingroom.commands.app",
        "Let people wait in a fair line.",
        "Lines",
        extra="api",
    ),
    Mount(
        "exporter",
        "waystation.cli.exporter",
        "Tell Prometheus how full queues are.",
        "Watching",
    ),
    Mount(
        "forecast",
        "waystation.cli.forecast",
        "Hear what history says about a queue.",
        "History",
    ),
    Mount(
        "pipeline",
        "waystation.pipeline.commands.app",
        "Keep everything that happened, and ask about it.",
        "History",
        extra="spark",
    ),
)


class Mounted(TyperCommand):
    """Stands in for a command until it is called."""

    def __init__(self, mount: Mount) -> None:
        super().__init__(mount.name, help=mount.help)
        self._mount = mount

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Hand over to the command itself."""
        return load(self._mount).make_context(info_name, args, parent, **extra)


def load(mount: Mount) -> Any:
    """Import a command, or say what has to be installed for it."""
    module = extras.load(mount.module, extra=mount.extra, purpose=f"waystation {mount.name}")
    command = get_command(module.app)
    command.name = mount.name
    return command
