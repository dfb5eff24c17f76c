"""`waystation doctor`: checks of the server and of this machine."""

import asyncio
import sys

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from waystation.cli.checks.examination import Examination, examine
from waystation.cli.checks.finding import Finding, Verdict
from waystation.core.app.commands import AsJson
from waystation.core.app.failures import FAILED
from waystation.core.app.loading import loaded

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_COLOURS = {Verdict.OK: "green", Verdict.WARN: "yellow", Verdict.FAIL: "bold red"}


@app.command()
def doctor(
    context: typer.Context,
    as_json: AsJson = False,
) -> None:
    """Check the server and this machine, and say what to do.

    Ends with 0 when all is well or only worth a warning, with 1 when something failed, with 2 when
    the store must not be used, and with 69 when it is away.
    """
    examination = asyncio.run(examine(loaded(context)))
    if as_json:
        typer.echo(_json(examination))
    elif sys.stdout.isatty():
        Console().print(_table(examination.findings))
    else:
        typer.echo("\n".join(map(_line, examination.findings)))
    if examination.trouble:
        raise examination.trouble
    if examination.verdict is Verdict.FAIL:
        raise typer.Exit(FAILED)


def _json(examination: Examination) -> str:
    page = {"verdict": examination.verdict, "findings": examination.findings}
    return msgspec.json.format(msgspec.json.encode(page)).decode()


def _line(finding: Finding) -> str:
    return f"{finding.verdict:<4}  {finding.about:<12}  {finding.sentence}"


def _table(findings: list[Finding]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column()
    table.add_column(overflow="fold")
    for finding in findings:
        verdict = Text(finding.verdict, style=_COLOURS[finding.verdict])
        # As plain text, because a sentence may hold `[spark]`, which is markup to rich.
        table.add_row(verdict, Text(finding.about), Text(finding.sentence))
    return table
