"""`waystation forecast`: a queue's forecast from its history; needs no Spark."""

from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer

from waystation.bullmq.redis.prefixes import unless_default
from waystation.core.app.commands import AsJson, on_store
from waystation.core.app.invocation import loaded
from waystation.core.errors import InvalidOption
from waystation.core.events import Product
from waystation.core.line import forecasts
from waystation.core.line.forecasts import DesiredWorkers, Forecast
from waystation.pipeline.commands.shared import bullmq_prefixes

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def forecast(
    context: typer.Context,
    queue: Annotated[str, typer.Argument(help="The queue; for routing, the type of job.")],
    product: Annotated[str, typer.Option(help="bullmq, routing or files.")] = Product.BULLMQ.value,
    as_json: AsJson = False,
) -> None:
    """Print a queue's recent waits, when it will be empty, and how many workers it needs."""
    if product not in set(Product):
        raise InvalidOption(f"product must be one of {', '.join(Product)}, got {product!r}")
    name, prefix = _place(context, queue) if product == Product.BULLMQ else (queue, "")
    found = on_store(
        loaded(context),
        lambda store: forecasts.forecast(store.redis, name, product=product, prefix=prefix),
    )
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
        return
    sentences = list(sentences_of(found))
    for sentence in sentences:
        typer.echo(sentence)
    if not sentences:
        typer.echo(
            f"there is no recent history of {product}/{queue}: `waystation pipeline run` makes it"
        )


def _place(context: typer.Context, queue: str) -> tuple[str, str]:
    """Name of a queue of BullMQ, and the prefix of its keys unless that is the default one."""
    keys = bullmq_prefixes(context).required(queue)
    return keys.name, unless_default(keys.prefix)


def sentences_of(forecast: Forecast) -> Iterator[str]:
    """The forecast in sentences; none without recent history."""
    if slo := forecast.slo:
        yield (
            f"in {slo.hours} h: half waited {_ms(slo.wait_p50_ms)}, "
            f"19 of 20 waited {_ms(slo.wait_p95_ms)} and ran {_ms(slo.run_p95_ms)}; "
            f"{slo.failed_part:.1%} failed"
        )
    if drain := forecast.drain:
        yield (
            f"the {drain.waiting:,} that wait will be done in {_ms(drain.low_s * 1000)} to "
            f"{_ms(drain.high_s * 1000)}; {drain.band:.0%} of such forecasts held"
        )
    if workers := forecast.workers:
        yield (
            f"with {workers.workers:,} in hand at a time, 19 of 20 wait less than "
            f"{_ms(workers.target_wait_ms)} when work comes as it did lately{_evidence(workers)}"
        )
    labels = forecast.failures.labels if forecast.failures else ()
    for label in labels[:5]:
        helps = label.retry_helps
        again = "" if helps is None else f"; trying again helped {helps:.0%}"
        yield f"{label.attempts:,} failed with {label.label}{again}"
    if len(labels) > 5:
        yield f"and {len(labels) - 5:,} more kinds of failure"


def _evidence(workers: DesiredWorkers) -> str:
    """The figures behind the number; a pipeline of an older version has written none."""
    if workers.busiest_minute is None or workers.run_mean_ms is None:
        return ""
    came = f": {workers.busiest_minute:,} in one minute, {_ms(workers.run_mean_ms)} each"
    really = (
        "" if workers.wait_p95_ms is None else f"; really they waited {_ms(workers.wait_p95_ms)}"
    )
    return came + really


def _ms(millis: float | None) -> str:
    if millis is None:
        return "?"
    for unit, size in (("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if millis >= size:
            return f"{millis / size:.3g} {unit}"
    return f"{millis:.3g} ms"
