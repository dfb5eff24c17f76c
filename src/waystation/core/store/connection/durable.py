"""Adding what must outlive the server that took it: done when a replica has it, too."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, TypeAlias

from waystation.core.errors import NotReplicated
from waystation.core.store.connection.batcher import Batcher
from waystation.core.store.connection.pipe import Pipe

Command: TypeAlias = tuple[Any, ...]


class Durability(StrEnum):
    """Who must have what a producer adds before it counts as added."""

    PRIMARY = "primary"
    REPLICA = "replica"


class Replicated:
    """A client whose calls are answered when a replica has what they wrote.

    It wants a connection of its own, because whatever is asked on one has to wait as well. What is
    asked while a replica confirms goes together, so that many wait no longer than one.
    """

    def __init__(self, pipe: Pipe, *, timeout: float) -> None:
        self._pipe = pipe
        self._timeout_ms = max(1, round(timeout * 1000))
        self._together: Batcher[Command, tuple[Any, Any]] = Batcher(self._confirmed)

    async def execute_command(self, *args: Any) -> Any:
        """Send one command and give back its answer once a replica has confirmed it."""
        return confirmed(*await self._together.ask(args), self._timeout_ms)

    async def close(self) -> None:
        """Give up the connection."""
        await self._pipe.close()

    async def _confirmed(self, commands: Sequence[Command]) -> list[tuple[Any, Any]]:
        wait = ("WAIT", 1, self._timeout_ms)
        *answers, replicas = await self._pipe.in_a_row(*commands, wait)
        return [(answer, replicas) for answer in answers]


def confirmed(answer: Any, replicas: Any, timeout_ms: int) -> Any:
    """The answer to a command, if a replica has what it wrote; raises what either of them is."""
    for each in (answer, replicas):
        if isinstance(each, BaseException):
            raise each
    if replicas < 1:
        raise NotReplicated(
            f"the store has it, but no replica confirmed it within {timeout_ms} ms; it is lost "
            "only if the store fails before one does. Adding it again waits for a replica once "
            "more, and adds nothing twice where the job has an id of its own",
            stored=answer,
        )
    return answer
