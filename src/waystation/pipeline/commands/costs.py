"""`waystation pipeline costs`: what the jobs of each tenant have cost, or of any declared field."""

import datetime as dt
from typing import Annotated

import typer

from waystation.core.errors import InvalidInput
from waystation.pipeline.ask.engine import Engine, literal, quoted
from waystation.pipeline.commands.asking import asking
from waystation.pipeline.commands.options import AS_JSON, HISTORY
from waystation.pipeline.commands.printing import print_answer
from waystation.pipeline.commands.selecting import instant
from waystation.pipeline.tables import FIELD_VALUES, ITEMS, PAYLOADS

app = typer.Typer(add_completion=False, rich_markup_mode=None)

# A value belongs to the life of the job in which it was read; the last one counts.
_COSTS = """
with jobs as (
    select i.line, i.queue, i.subject, i.added_at, state, retries, run_ms, wait_ms,
           arg_max(v.value, v.read_at) as value
    from items i left join field_values v
         on v.field = {field} and i.line = v.line and i.queue = v.queue and i.subject = v.subject
            and v.read_at >= coalesce(i.added_at, timestamptz '1970-01-01')
            and v.read_at <= i.last_told_at
    where {where}
    group by all
), judged as (
    select jobs.*, value is not null or p.subject is not null as known
    from jobs
    left join (
        select distinct line, queue, subject from payloads where bytes is not null
    ) p using (line, queue, subject)
)
select value as {name}, known, count(*) as jobs, count_if(state = 'failed')::bigint as failed,
       sum(retries)::bigint as retries, round(sum(run_ms) / 1000, 1) as run_s,
       round(100 * sum(run_ms) / sum(sum(run_ms)) over (), 1) as percent,
       round(sum(wait_ms) / 1000, 1) as wait_s,
       round(quantile_cont(wait_ms, 0.95) / 1000, 2) as wait_p95_s
from judged
group by value, known
order by run_s desc nulls last, jobs desc, value
"""


@app.command()
def costs(
    context: typer.Context,
    by: Annotated[str, typer.Option(metavar="FIELD", help="Declared field, such as tenant.")],
    queue: Annotated[str, typer.Option(help="Queue.")] = "",
    since: Annotated[
        str, typer.Option(help="Added since: 2026-03-01, 2026-03-01T14:00, or 24h ago.")
    ] = "30d",
    until: Annotated[str, typer.Option(help="Added before, in the same forms.")] = "",
    most: Annotated[int, typer.Option(help="Rows to show.", min=1)] = 50,
    as_json: AS_JSON = False,
    history: HISTORY = None,
) -> None:
    """Show what the jobs of each tenant have cost.

    Jobs, failures, retries, seconds of run time and of waiting, for each value of a declared field;
    jobs without it, and those of which no data was read (`known` is false), are rows of their own.
    """
    now = dt.datetime.now(dt.UTC)
    conditions = [f"i.queue = {quoted(queue)}"] if queue else []
    if first := instant(since, now):
        day = (first - dt.timedelta(days=1)).date()
        conditions += [f"i.date >= date '{day}'", f"i.added_at >= {literal(first)}"]
    if last := instant(until, now):
        conditions.append(f"i.added_at < {literal(last)}")
    with asking(context, history) as engine:
        engine.add_tables(named={ITEMS.name, FIELD_VALUES.name, PAYLOADS.name})
        _check(engine, by)
        name = '"' + by.replace('"', '""') + '"'
        where = " and ".join(conditions) or "true"
        answer = engine.ask(_COSTS.format(field=quoted(by), name=name, where=where), most)
    if not answer.rows:
        typer.echo("no job was added then", err=True)
        raise typer.Exit(1)
    print_answer(answer, as_json=as_json)


def _check(engine: Engine, field: str) -> None:
    found = engine.select("select distinct field from field_values order by field limit 20").rows
    known = [name for (name,) in found]
    if field not in known:
        there = f"there are {', '.join(known)}" if known else "none is declared"
        raise InvalidInput(f"no job has the declared field {field}: {there}")
