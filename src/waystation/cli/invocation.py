"""What the options before the command's name say."""

from pathlib import Path
from typing import cast

import msgspec
import typer


class Invocation(msgspec.Struct):
    """One run of the command line; the root fills it in and every command may read it."""

    config: Path | None = None
    debug: bool = False


def of(context: typer.Context) -> Invocation:
    """Find the invocation that a command belongs to."""
    return cast(Invocation, context.obj)
