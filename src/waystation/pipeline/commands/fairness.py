"""`waystation fairness`: how the tenants of a queue have shared it."""

import datetime as dt
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from waystation.pipeline.ask import Answer
from waystation.pipeline.ask.engine import Engine, literal, quoted
from waystation.pipeline.commands.selecting import asking, instant
from waystation.pipeline.commands.shared import (
    AS_JSON,
    HISTORY,
    json_line,
    print_answer,
    require_writable,
)
from waystation.pipeline.products.bullmq import TENANTS, TURNS
from waystation.pipeline.reports.parts import duration, moment, part
from waystation.pipeline.reports.receipt import TenantsReport, amount, tenant_reports
from waystation.pipeline.reports.receipt_page import receipt_page
from waystation.pipeline.tables import Table

EXAMPLES = """\b
Examples:
  waystation fairness
  waystation fairness llm --tenant acme
  waystation fairness llm --since 7d --to receipt.html
"""

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog=EXAMPLES)
def fairness(
    context: typer.Context,
    queue: Annotated[
        str, typer.Argument(help="The queue; without one, all in which tenants take turns.")
    ] = "",
    tenant: Annotated[
        str | None,
        typer.Option(help="One tenant; '' are the jobs without a group.", show_default=False),
    ] = None,
    since: Annotated[str, typer.Option(help="Since: 2026-03-01, or 24h ago; whole hours.")] = "24h",
    until: Annotated[str, typer.Option(help="Before, in the same forms.")] = "",
    most: Annotated[int, typer.Option(help="Tenants to show of a queue.", min=1)] = 20,
    to: Annotated[
        Path | None, typer.Option(help="File for an HTML page with charts.", show_default=False)
    ] = None,
    as_json: AS_JSON = False,
    history: HISTORY = None,
) -> None:
    """Say what each tenant was served of a queue, and whether the turns were kept.

    Of jobs that have a group: their cost, their share, how long they waited, and how far any two
    tenants came apart that both had to wait.
    """
    require_writable(to)
    now = dt.datetime.now(dt.UTC)
    first, last = instant(since, now), instant(until, now)
    with asking(context, history) as engine:
        found = _read(engine, queue, first, last)
        is_kept = bool(engine.files)
    if tenant is not None:
        found = [each for each in found if each.said_of(tenant)]
    if not found:
        who = "no tenant" if tenant is None else f"nothing of the tenant {tenant!r}"
        said = f"{who} took turns {f'in {queue} ' if queue else ''}then"
        if not is_kept:
            said = "the history has no tenants: `waystation pipeline run` stores them"
        typer.echo(said, err=True)
        raise typer.Exit(1)
    span = _span(since, first, last)
    for each in found:
        _print(each, span, tenant, most, as_json=as_json)
    if to is not None:
        to.write_text(receipt_page(found, span, tenant))
        typer.echo(f"written to {to}", err=True)


def _read(
    engine: Engine, queue: str, first: dt.datetime | None, last: dt.datetime | None
) -> list[TenantsReport]:
    conditions = [f"queue = {quoted(queue)}"] if queue else []
    if first:
        conditions.append(f"hour >= date_trunc('hour', {literal(first)})")
    if last:
        conditions.append(f"hour < {literal(last)}")
    where = " and ".join(conditions) or "true"
    engine.add_tables((TENANTS, TURNS), named={TENANTS.name, TURNS.name})

    def rows(table: Table) -> list[dict[str, Any]]:
        found = engine.ask(f"select * from {table.name} where {where}")
        return [dict(zip(found.names, row, strict=True)) for row in found.rows]

    return tenant_reports(rows(TENANTS), rows(TURNS))


def _span(since: str, first: dt.datetime | None, last: dt.datetime | None) -> str:
    if last is None and first is not None and since[:1].isdigit() and "-" not in since:
        return f"in the last {since}"
    start = f"from {moment(first)} " if first else ""
    return f"{start}to {moment(last) if last else 'now'}"


def _print(
    found: TenantsReport, span: str, tenant: str | None, most: int, *, as_json: bool
) -> None:
    if as_json:
        shown = [each for each in found.tenants if tenant in (None, each.tenant)]
        said = {"queue": found.queue, "sentence": found.sentence(span, tenant)}
        held = {"held": found.held(True), "broken": found.held(False), "unknown": found.held(None)}
        rows = [msgspec.structs.asdict(each) for each in shown]
        typer.echo(json_line({**said, "hours": held, "tenants": rows, "turns": found.hours}))
        return
    typer.echo(found.sentence(span, tenant))
    names = ["tenant", "share", "", "service", "jobs", "wait mean", "p50", "p95", "p99", "waiting"]
    rows = [
        (
            f"{each.name} *" if each.tenant == tenant else each.name,
            part(each.share),
            "█" * round(20 * (each.share or 0)),
            amount(each.service),
            f"{each.started:,}",
            *map(duration, (each.wait_mean_ms, each.wait_p50_ms, each.wait_p95_ms)),
            duration(each.wait_p99_ms),
            duration(each.waiting_s * 1000),
        )
        for each in found.tenants[:most]
    ]
    print_answer(Answer(names, rows, len(rows) == len(found.tenants)), as_json=False)
    typer.echo()
