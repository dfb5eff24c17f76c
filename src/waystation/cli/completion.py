"""`waystation completion`: the script that lets a shell complete commands and options."""

from typing import Annotated

import typer

from waystation.cli.root import COMPLETION
from waystation.core.errors import InvalidOption

app = typer.Typer(add_completion=False, rich_markup_mode=None)

SHELLS = ("bash", "zsh", "fish")


@app.command()
def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help=f"One of {', '.join(SHELLS)}.")],
) -> None:
    """Print a script that completes commands and options.

    In bash: source <(waystation completion bash)
    """
    if shell not in SHELLS:
        raise InvalidOption(f"a shell is one of {', '.join(SHELLS)}, got {shell!r}")
    from typer.completion import (
        get_completion_script,  # pyright: ignore[reportPrivateImportUsage]
    )

    typer.echo(get_completion_script(prog_name="waystation", complete_var=COMPLETION, shell=shell))
