"""`waystation pipeline`: commands that are imported when called, without Spark where it can be."""

from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from waystation.core.app import imports
from waystation.core.errors import InvalidInput, SparkNotStarted
from waystation.pipeline.storage.spark_versions import require_installed

QUESTIONS = {
    **dict.fromkeys(("costs", "find", "iceberg", "queues", "sql", "views"), "questions"),
    "status": "status",
}
"""Commands without Spark, and the module of each."""
EXAMPLES = """\b
Examples:
  waystation pipeline run --once
  waystation pipeline report --to report.html
  waystation pipeline sql "select queue, count(*) from items group by 1"
  waystation pipeline find --field tenant=acme --state failed --since 30d
  waystation pipeline costs --by tenant --since 30d
  waystation pipeline queues --as-of 2026-03-01T14:00
  waystation pipeline views history.duckdb
  waystation pipeline iceberg
  waystation pipeline scan /data --exclude '**/*.tmp'
"""


class Pipeline(TyperGroup):
    """The commands; each is imported when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands, or of those that need no Spark where it is not installed."""
        try:
            others = _spark_commands()
        except (InvalidInput, SparkNotStarted):
            others = {}
        return sorted({*QUESTIONS, *others})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command with a name."""
        if cmd_name not in QUESTIONS:
            return _spark_commands().get(cmd_name)
        module = imports.load(
            f"waystation.pipeline.commands.{QUESTIONS[cmd_name]}",
            extra="ask",
            purpose=f"waystation pipeline {cmd_name}",
        )
        return get_group(module.app).commands[cmd_name]


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


def _spark_commands() -> dict[str, Any]:
    require_installed()
    module = imports.load(
        "waystation.pipeline.commands.app", extra="spark", purpose="waystation pipeline"
    )
    return dict(get_group(module.app).commands)
