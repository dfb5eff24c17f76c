"""Options that all commands of the pipeline share."""

from typing import Annotated

import typer

MASTER = Annotated[
    str | None, typer.Option(help="Spark master; default pipeline.master.", show_default=False)
]
HISTORY = Annotated[
    str | None,
    typer.Option(
        help="Directory or URL of the tables; default pipeline.history.", show_default=False
    ),
]
CONF = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="A Spark setting; may be repeated.",
        show_default=False,
    ),
]
AS_JSON = Annotated[bool, typer.Option("--json", help="Print JSON lines.")]
