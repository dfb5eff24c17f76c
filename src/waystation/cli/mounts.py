"""The commands, each loaded only when it is called, so that help comes at once."""

from importlib.util import find_spec
from typing import Any

import msgspec
from typer.core import TyperCommand
from typer.main import get_command

from waystation.core.app import imports
from waystation.core.errors import InvalidInput


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
    package: str | None = None
    """The folder of a clone that holds it, where it is a package of its own."""


MOUNTS = (
    Mount("doctor", "waystation.cli.doctor", "Check the server and this machine.", "Setup"),
    Mount("config", "waystation.cli.config", "Show the settings.", "Setup"),
    Mount(
        "completion",
        "waystation.cli.completion",
        "Print a script that completes commands in a shell.",
        "Setup",
    ),
    Mount(
        "bring",
        "waystation_bring.commands",
        "Move what waits in queues of Celery and RQ to ours.",
        "Setup",
        package="packages/bring",
    ),
    Mount(
        "bullmq", "waystation.bullmq.commands.app", "Queues shared with Node's BullMQ.", "Products"
    ),
    Mount(
        "tasks",
        "waystation.tasks.commands.app",
        "Typed tasks: run their workers, export their schema.",
        "Products",
    ),
    Mount(
        "routing",
        "waystation.routing.commands.app",
        "Jobs for workers with matching capabilities.",
        "Products",
    ),
    Mount("files", "waystation.files.commands.app", "Files of a directory as jobs.", "Products"),
    Mount(
        "room",
        "waystation.waitingroom.commands.app",
        "Virtual waiting rooms for websites.",
        "Products",
        extra="api",
    ),
    Mount(
        "demo",
        "waystation.cli.demo.command",
        "Watch a small ticket sale, counted to the last ticket.",
        "Development",
        extra="embedded",
    ),
    Mount("new", "waystation.cli.new", "Write a small project that runs.", "Development"),
    Mount(
        "drill",
        "waystation.testing.commands",
        "Find handlers that are not idempotent.",
        "Development",
        extra="embedded",
    ),
    Mount(
        "console",
        "waystation.console.commands",
        "Look at everything in the browser, and act.",
        "Monitoring",
        extra="console",
    ),
    Mount(
        "queues",
        "waystation.cli.queues",
        "List every queue and room, with what waits and how fast it moves.",
        "Monitoring",
        extra="api",
    ),
    Mount(
        "top",
        "waystation.cli.top",
        "Watch all queues and rooms in the terminal.",
        "Monitoring",
        extra="top",
    ),
    Mount(
        "why",
        "waystation.cli.why",
        "Say why a job, a file, a visitor or a queue does not move.",
        "Monitoring",
    ),
    Mount(
        "mcp",
        "waystation.cli.mcp",
        "Serve queues and history to an assistant, as MCP tools.",
        "Monitoring",
        extra="mcp",
    ),
    Mount(
        "webhooks",
        "waystation.cli.webhooks",
        "Send what happens to jobs to URLs of yours.",
        "Monitoring",
        extra="api",
    ),
    Mount(
        "exporter", "waystation.cli.exporter", "Serve queue metrics for Prometheus.", "Monitoring"
    ),
    Mount("forecast", "waystation.cli.forecast", "Print the forecast of a queue.", "History"),
    Mount(
        "deploy-mark",
        "waystation.pipeline.commands.deploy_mark",
        "Mark a deploy in the history.",
        "History",
        extra="ask",
    ),
    Mount(
        "redrive",
        "waystation.pipeline.commands.redrive",
        "Add failed jobs of the history again.",
        "History",
        extra="ask",
    ),
    Mount(
        "fairness",
        "waystation.pipeline.commands.fairness",
        "Say what each tenant was served of a queue, and whether the turns were kept.",
        "History",
        extra="ask",
    ),
    Mount(
        "simulate",
        "waystation.pipeline.commands.simulate",
        "Simulate recorded work with other workers, limits and orders.",
        "History",
        extra="ask",
    ),
    Mount(
        "pipeline",
        "waystation.pipeline.commands.group",
        "Keep the history of all jobs, and query it.",
        "History",
        extra="spark",
    ),
)


class Mounted(TyperCommand):
    """A command that is imported when it is called."""

    def __init__(self, mount: Mount) -> None:
        super().__init__(mount.name, help=mount.help)
        self._mount = mount

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Hand over to the command itself."""
        return load(self._mount).make_context(info_name, args, parent, **extra)


def load(mount: Mount) -> Any:
    """Import a command, or say what must be installed for it."""
    if mount.package is not None and find_spec(mount.module.partition(".")[0]) is None:
        raise InvalidInput(
            f"waystation {mount.name} is a package of its own, which is not installed: "
            f"run pip install ./{mount.package} in a clone"
        )
    module = imports.load(mount.module, extra=mount.extra, purpose=f"waystation {mount.name}")
    command = get_command(module.app)
    command.name = mount.name
    return command
