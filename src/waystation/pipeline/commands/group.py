"""`waystation pipeline`: questions, loaded at once, and Spark's commands, loaded when called."""

from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from waystation.core.app import extras
from waystation.pipeline.commands.find import find
from waystation.pipeline.commands.questions import sql, status

EXAMPLES = """\b
Examples:
  waystation pipeline run --once
  waystation pipeline report --to report.html
  waystation pipeline sql "select queue, count(*) from items group by 1"
  waystation pipeline find --field tenant=acme --state failed --since 30d
  waystation pipeline scan /data --exclude '**/*.tmp'
"""


class Pipeline(TyperGroup):
    """The commands; those that need Spark are imported when one of them is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands."""
        return sorted({*super().list_commands(ctx), *_spark_commands()})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command with a name."""
        return super().get_command(ctx, cmd_name) or _spark_commands().get(cmd_name)


app = typer.Typer(
    cls=Pipeline,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    epilog=EXAMPLES,
)


@app.callback()
def pipeline() -> None:
    """Keep the history of all queues, and ask about it."""


app.command()(find)
app.command()(sql)
app.command()(status)


def _spark_commands() -> dict[str, Any]:
    module = extras.load(
        "waystation.pipeline.commands.app", extra="spark", purpose="waystation pipeline"
    )
    return dict(get_group(module.app).commands)
