"""`waystation simulate`: recorded work again, with other workers, limits and orders."""

import datetime as dt
import math
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from waystation.core.durations import parse_duration
from waystation.core.errors import InvalidInput, InvalidOption
from waystation.core.events import Product
from waystation.pipeline.ask import Answer
from waystation.pipeline.commands.selecting import asking, instant
from waystation.pipeline.commands.shared import (
    AS_JSON,
    HISTORY,
    json_line,
    print_answer,
    require_writable,
)
from waystation.pipeline.reports.parts import duration, part
from waystation.pipeline.reports.what_if import what_if_page
from waystation.pipeline.simulation.comparison import (
    Comparison,
    Scenario,
    compare,
    recorded_attempts,
)
from waystation.pipeline.simulation.replay import Order, Rate, Setup, Work, from_csv

EXAMPLES = """\b
Examples:
  waystation simulate mail
  waystation simulate mail --since 24h --workers 4,8,16 --target 5000
  waystation simulate mail --order priority --rate 100/60s --to what-if.html
  waystation simulate --from trace.csv --workers 8
"""
FROM_HISTORY = "history"
LINES = [product.value for product in Product if product is not Product.WAITINGROOM]

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog=EXAMPLES)
def simulate(
    context: typer.Context,
    queue: Annotated[
        str, typer.Argument(help="The queue; for routing, the type of job.", show_default=False)
    ] = "",
    source: Annotated[
        str,
        typer.Option(
            "--from", help="`history`, or a CSV file: ready, run and perhaps wait, in seconds."
        ),
    ] = FROM_HISTORY,
    product: Annotated[str, typer.Option(help="bullmq, routing or files.")] = Product.BULLMQ.value,
    since: Annotated[str, typer.Option(help="Ready since: 2026-03-01, or 24h ago.")] = "7d",
    until: Annotated[str, typer.Option(help="Ready before, in the same forms.")] = "",
    workers: Annotated[
        str, typer.Option(help="Jobs that run at a time: 4, or 4,8,16 to compare.")
    ] = "",
    order: Annotated[Order, typer.Option(help="Which of the waiting jobs is next.")] = Order.FIFO,
    rate: Annotated[
        str, typer.Option(metavar="MANY/DURATION", help="Most jobs that start, as in 100/60s.")
    ] = "",
    target: Annotated[int, typer.Option(help="Target wait in ms.", min=1)] = 1_000,
    to: Annotated[
        Path | None, typer.Option(help="File for an HTML page.", show_default=False)
    ] = None,
    as_json: AS_JSON = False,
    history: HISTORY = None,
) -> None:
    """Simulate recorded work with other workers, limits and orders.

    Prints the waits that were, and those that would have been; and the fewest workers that keep
    95 % of the waits below a target.
    """
    require_writable(to)
    setup = Setup(workers=1, order=order, rate=_rate(rate))
    counts = _counts(workers)
    if source == FROM_HISTORY:
        work = _recorded(context, queue, product, since, until, order, history)
    elif queue:
        raise InvalidInput(f"wanted a queue or a file, got both: {queue} and {source}")
    else:
        work = _read(Path(source))
    name = f"{product}/{queue}" if queue else source
    found = compare(work, counts, target_s=target / 1000, setup=setup)
    _print(name, found, as_json=as_json)
    if to is not None:
        to.write_text(what_if_page(name, found))
        typer.echo(f"written to {to}", err=True)


def _recorded(
    context: typer.Context,
    queue: str,
    product: str,
    since: str,
    until: str,
    order: Order,
    history: str | None,
) -> Work:
    if not queue:
        raise InvalidInput("wanted the name of a queue, or --from with a CSV file, got neither")
    if product not in LINES:
        raise InvalidOption(f"product must be one of {', '.join(LINES)}, got {product!r}")
    now = dt.datetime.now(dt.UTC)
    with asking(context, history) as engine:
        return recorded_attempts(
            engine,
            product,
            queue,
            since=instant(since, now),
            until=instant(until, now),
            with_priorities=order is Order.PRIORITY,
        )


def _read(path: Path) -> Work:
    try:
        with path.open(newline="") as lines:
            work = from_csv(lines)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"wanted `history` or a CSV file, got {path}: {error}") from None
    if not len(work):
        raise InvalidInput(f"there is nothing to simulate in {path}")
    return work


def _counts(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(word.isdecimal() and int(word) for word in words):
        raise InvalidOption(f"workers must be numbers from 1 such as 4,8,16, got {text!r}")
    return [int(word) for word in words]


def _rate(text: str) -> Rate | None:
    if not text:
        return None
    many, slash, per = text.partition("/")
    if not slash or not many.strip().isdecimal() or not int(many):
        raise InvalidOption(f"a rate is a number and a duration such as 100/60s, got {text!r}")
    per = per.strip()
    seconds = parse_duration(per if per[:1].isdigit() else f"1{per}")
    if not seconds > 0:
        raise InvalidOption(f"a rate needs a duration above 0, got {text!r}")
    return Rate(int(many), seconds)


def _print(name: str, found: Comparison, *, as_json: bool) -> None:
    if as_json:
        for each in found.scenarios:
            shared = {"queue": name, "target_ms": found.target_s * 1000}
            typer.echo(json_line({**shared, **_json(each)}))
        return
    start, end = (f"{each:%Y-%m-%d %H:%M:%S}" for each in found.period)
    typer.echo(f"{found.attempts:,} attempts of {name}, {start} to {end} UTC")
    names = ["", "workers", "wait p50", "wait p95", "wait p99", "late", "worker-hours", "busy"]
    print_answer(Answer(names, [_row(each) for each in found.scenarios]), as_json=False)
    for sentence in found.sentences():
        typer.echo(sentence)


def _row(each: Scenario) -> tuple[Any, ...]:
    return (
        each.name,
        each.workers,
        *(duration(_rounded(ms)) for ms in (each.wait_p50_ms, each.wait_p95_ms, each.wait_p99_ms)),
        part(each.late),
        "-" if each.worker_hours is None else f"{each.worker_hours:,.1f}",
        "-" if each.busy is None else part(each.busy),
    )


def _rounded(ms: float) -> float:
    return 0.0 if math.isclose(ms, 0, abs_tol=0.05) else ms


def _json(each: Scenario) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(each).items() if name != "waits"}
