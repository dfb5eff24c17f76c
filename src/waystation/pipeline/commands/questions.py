"""Questions to the history that DuckDB answers: find, costs, queues, sql, views and iceberg.

What only one of them needs, and takes long to import, is imported where it is used.
"""

import datetime as dt
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from waystation.core.app import imports
from waystation.core.errors import InvalidInput
from waystation.pipeline.ask import Answer
from waystation.pipeline.ask.active_files import RowFilter, contents
from waystation.pipeline.ask.engine import Engine, literal, quoted, write_database
from waystation.pipeline.ask.selection import Selection, jobs_sql, prepare
from waystation.pipeline.commands.selecting import asking, instant, selecting
from waystation.pipeline.commands.shared import (
    AS_JSON,
    CONF,
    HISTORY,
    MASTER,
    bullmq_prefixes,
    json_line,
    pipeline_settings,
    print_answer,
    root_of,
    say_if_cut,
    store_url,
)
from waystation.pipeline.deploys import deploys, last_before
from waystation.pipeline.tables import EVENTS, FIELD_VALUES, GAPS, ITEMS, PAYLOADS

SHOWN = ("queue", "job_id", "name", "state", "added_at", "attempts", "reason", "data")
WIDEST = 60


app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
@selecting
def find(
    context: typer.Context,
    selection: Selection,
    most: Annotated[int, typer.Option(help="Jobs to show.", min=1)] = 20,
    live: Annotated[bool, typer.Option(help="Whether to ask the queues, too.")] = True,
    as_json: AS_JSON = False,
    history: HISTORY = None,
) -> None:
    """Find jobs of any day.

    By id, field, name, error, state, time or data; with the state that each has in its queue now.
    """
    if selection.is_empty:
        raise InvalidInput("wanted an id or an option that chooses jobs, got neither")
    declared = list(pipeline_settings(context).payloads.fields)
    with asking(context, history) as engine:
        prepare(engine, selection, most)
        found = engine.ask(jobs_sql(selection, declared), most)
        root = engine.root
    jobs = [dict(zip(found.names, row, strict=True)) for row in found.rows]
    _add_deploys(root, jobs)
    if live and jobs:
        _add_present_state(context, jobs)
    _print(jobs, as_json=as_json)
    say_if_cut(found)
    if not jobs:
        has_any = any(contents(table.path(root)) for table in (EVENTS, ITEMS))
        said = "no such job in the history" if has_any else f"no history at {root}"
        for name in (each for each in selection.fields if each not in declared):
            said += f"; {name} is not among pipeline.payloads.fields, so ask `--path '$.{name}=…'`"
        typer.echo(said, err=True)
        raise typer.Exit(1)


def _add_deploys(root: str, jobs: list[dict[str, Any]]) -> None:
    """Add to each job the deploy that was in effect when it was first claimed."""
    marks = deploys(root) if jobs else []
    for job in jobs if marks else ():
        newest = last_before(job["started_at"], marks)
        job["deploy"] = newest and newest.name


def _add_present_state(context: typer.Context, jobs: list[dict[str, Any]]) -> None:
    # The client of the store is imported only when there are jobs to ask about.
    from waystation.pipeline.ask.live import states_of
    from waystation.pipeline.sources.store import Store

    mine = [each for each in jobs if each["product"] == "bullmq"]
    with store_url(context) as url:
        asked = [(each["queue"], each["job_id"]) for each in mine]
        states = states_of(Store(url), asked, bullmq_prefixes(context))
    for job, state in zip(mine, states, strict=True):
        job["now"] = state or "gone"


def _print(jobs: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        for each in jobs:
            typer.echo(json_line({**each, "fields": dict(each["fields"] or ())}))
    elif len(jobs) == 1:
        for name, value in jobs[0].items():
            if value is not None:
                typer.echo(f"{name:<14} {_plain(value)}")
    elif jobs:
        names = [*SHOWN, *(["now"] if "now" in jobs[0] else [])]
        rows = [tuple(_short(each.get(name)) for name in names) for each in jobs]
        print_answer(Answer(names, rows), as_json=False)


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return json_line(value)
    return f"{value:%Y-%m-%d %H:%M:%S.%f}"[:-3] if hasattr(value, "strftime") else str(value)


def _short(value: Any) -> Any:
    text = None if value is None else _plain(value)
    return text if text is None or len(text) <= WIDEST else text[: WIDEST - 1] + "…"


# A value belongs to the life of the job in which it was read; the last one counts.
_COSTS = """
with jobs as (
    select i.product, i.queue, i.job_id, i.added_at, state, retries, run_ms, wait_ms,
           arg_max(v.value, v.read_at) as value
    from items i left join field_values v
         on v.field = {field}
            and i.product = v.product and i.queue = v.queue and i.job_id = v.job_id
            and v.read_at >= coalesce(i.added_at, timestamptz '1970-01-01')
            and v.read_at <= i.last_recorded_at
    where {where}
    group by all
), judged as (
    select jobs.*, value is not null or p.job_id is not null as known
    from jobs
    left join (
        select distinct product, queue, job_id from payloads where bytes is not null
    ) p using (product, queue, job_id)
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


@app.command()
def queues(
    context: typer.Context,
    as_of: Annotated[
        str, typer.Option(help="Instant: 2026-03-01T14:00, or 24h ago; default now.")
    ] = "",
    queue: Annotated[str, typer.Option(help="Queue.")] = "",
    state: Annotated[str, typer.Option(help="State, such as waiting or active.")] = "",
    jobs: Annotated[bool, typer.Option("--jobs", help="List the jobs.")] = False,
    most: Annotated[int, typer.Option(help="Rows to show.", min=1)] = 100,
    as_json: AS_JSON = False,
    history: HISTORY = None,
) -> None:
    """Show what was in the queues at an instant.

    How many jobs were in which state, or with --jobs each of them; rebuilt from stored events.
    """
    now = dt.datetime.now(dt.UTC)
    at = instant(as_of, now) or now
    if at > now:
        raise InvalidInput(f"wanted an instant of the past, got {at:%Y-%m-%d %H:%M:%S} UTC")
    chosen = {"queue": queue, "state": state}
    conditions = [f"{name} = {quoted(value)}" for name, value in chosen.items() if value]
    rows = f"from as_of({literal(at)}) where {' and '.join(conditions) or 'true'}"
    with asking(context, history) as engine:
        wanted = RowFilter({"queue": [queue]} if queue else {}, until=at.date())
        engine.add_table(EVENTS, wanted=wanted)
        engine.add_table(GAPS)
        engine.add_as_of()
        counted = "select product, queue, state, count(*) as jobs"
        query = f"{rows} order by all" if jobs else f"{counted} {rows} group by all order by all"
        answer = engine.ask(query, most)
        missing = _missing(engine, queue, at)
    if answer.rows:
        print_answer(answer, as_json=as_json)
    else:
        typer.echo("no job was in the queues then", err=True)
    if missing:
        typer.echo(
            f"{missing:,} events before then were trimmed before they could be stored, "
            "so some jobs may be missing or in another state",
            err=True,
        )


def _missing(engine: Engine, queue: str, at: dt.datetime) -> int:
    ours = f"queue = {quoted(queue)}" if queue else "true"
    # A server that does not count them has lost one at least.
    found = engine.ask(
        f"select coalesce(sum(coalesce(lost, 1)), 0)::bigint from gaps "
        f"where before_at <= {literal(at)} and {ours}"
    )
    return found.rows[0][0]


class EngineName(StrEnum):
    """What answers a question."""

    DUCKDB = "duckdb"
    SPARK = "spark"


@app.command()
def sql(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="Over events, attempts, items, hourly, jobs, …")],
    live: Annotated[bool, typer.Option(help="Whether the queues can be queried as `jobs`.")] = True,
    most: Annotated[int, typer.Option(help="Rows to show.", min=1)] = 100,
    as_json: AS_JSON = False,
    engine: Annotated[
        EngineName, typer.Option(help="Spark answers questions that are too large for DuckDB.")
    ] = EngineName.DUCKDB,
    master: MASTER = None,
    history: HISTORY = None,
    conf: CONF = None,
) -> None:
    """Run a SQL query.

    Over the tables of the history, and over the jobs that are in the queues now, as `jobs`.
    """
    if engine is EngineName.SPARK:
        from waystation.pipeline.commands.session import ask_spark

        answer = ask_spark(context, query, live=live, most=most, at=(master, history, conf))
    else:
        answer = _answer(context, query, live=live, most=most, history=history)
    print_answer(answer, as_json=as_json)


def _answer(
    context: typer.Context, query: str, *, live: bool, most: int, history: str | None
) -> Answer:
    words = set(re.findall(r"\w+", query.lower()))
    with_jobs = live and "jobs" in words
    # Opening a table takes longer than many an answer.
    named = None if any(map(_is_catalog, words)) else words
    with asking(context, history) as engine:
        engine.add_tables(named=named)
        if with_jobs:
            _add_live_jobs(context, engine)
        try:
            return engine.ask(query, most)
        except InvalidInput as error:
            if "There are" not in str(error):
                raise
    # Perhaps a table that only one product has, and that does not exist yet.
    with asking(context, history) as engine:
        engine.add_tables(_product_tables())
        if with_jobs:
            _add_live_jobs(context, engine)
        return engine.ask(query, most)


def _is_catalog(word: str) -> bool:
    return word.startswith(("information_schema", "duckdb_", "pg_"))


def _add_live_jobs(context: typer.Context, engine: Engine) -> None:
    # The client of the store is imported only for questions about it.
    from waystation.pipeline.ask.live import live_jobs
    from waystation.pipeline.sources.store import Store

    with store_url(context) as url:
        engine.add_rows("jobs", live_jobs(Store(url), bullmq_prefixes(context)))


@app.command()
def views(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The database to write.", show_default=False)],
    history: HISTORY = None,
) -> None:
    """Write a DuckDB database with a view for each table.

    The views name the files that the tables have now; write it again after a run.
    """
    names = write_database(root_of(context, history), file, _product_tables())
    typer.echo(f"{len(names)} views in {file}: {', '.join(names)}")


@app.command()
def iceberg(context: typer.Context, history: HISTORY = None) -> None:
    """Write Iceberg metadata for each table.

    It goes to the folder iceberg of the history, and names the files that the tables have now;
    write it again after a run.
    """
    root = root_of(context, history)
    module = imports.load(
        "waystation.pipeline.ask.iceberg", extra="iceberg", purpose="waystation pipeline iceberg"
    )
    names = module.write_catalog(root, _product_tables())
    typer.echo(f"{len(names)} tables in {root}/{module.FOLDER}/{module.CATALOG}")
    for name in names:
        typer.echo(name)


def _product_tables() -> list[Any]:
    from waystation.pipeline.products import product_tables

    return list(product_tables())
