"""`waystation pipeline iceberg`: the tables of the history in a catalog of Iceberg."""

import typer

from waystation.core.app import extras
from waystation.pipeline.commands.options import HISTORY
from waystation.pipeline.commands.place import root_of
from waystation.pipeline.products import product_tables

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def iceberg(context: typer.Context, history: HISTORY = None) -> None:
    """Write Iceberg metadata for each table.

    It goes to the folder iceberg of the history, and names the files that the tables have now;
    write it again after a run.
    """
    root = root_of(context, history)
    module = extras.load(
        "waystation.pipeline.ask.iceberg", extra="iceberg", purpose="waystation pipeline iceberg"
    )
    names = module.write_catalog(root, list(product_tables()))
    typer.echo(f"{len(names)} tables in {root}/{module.FOLDER}/{module.CATALOG}")
    for name in names:
        typer.echo(name)
