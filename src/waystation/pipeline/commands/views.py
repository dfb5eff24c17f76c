"""`waystation pipeline views`: the tables of the history in a database that DuckDB opens."""

from pathlib import Path
from typing import Annotated

import typer

from waystation.pipeline.ask.database import write_database
from waystation.pipeline.commands.options import HISTORY
from waystation.pipeline.commands.place import root_of
from waystation.pipeline.products import product_tables

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def views(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The database to write.", show_default=False)],
    history: HISTORY = None,
) -> None:
    """Write a DuckDB database with a view for each table.

    The views name the files that the tables have now; write it again after a run.
    """
    names = write_database(root_of(context, history), file, list(product_tables()))
    typer.echo(f"{len(names)} views in {file}: {', '.join(names)}")
