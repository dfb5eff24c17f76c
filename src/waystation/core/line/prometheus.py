"""A product in numbers, as Prometheus reads them: how much is where, and what history advises."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from waystation.core.events import Product
from waystation.core.line.forecasts import Forecast

Sample: TypeAlias = tuple[Mapping[str, str], float]
"""Labels, and the value they have now."""


class Family(NamedTuple):
    """A metric with its samples."""

    name: str
    kind: Literal["gauge", "counter"]
    labels: tuple[str, ...]
    meaning: str

    def lines(self, samples: Iterable[Sample]) -> Iterator[str]:
        """The metric with all of its samples; nothing where there are none."""
        lines = [f"{self.name}{_labels(labels)} {value}" for labels, value in samples]
        if lines:
            yield f"# HELP {self.name} {self.meaning}"
            yield from (f"# TYPE {self.name} {self.kind}", *lines)


JOBS = Family("waystation_jobs", "gauge", ("product", "place"), "Jobs by where they are.")
WANTED = Family(
    "waystation_workers_wanted",
    "gauge",
    ("product", "queue"),
    "Jobs that should be in hand at a time for the wait that is aimed at.",
)
DRAIN = Family(
    "waystation_drain_seconds",
    "gauge",
    ("product", "queue", "bound"),
    "When all that waits will be done: low, likely, high.",
)
FAMILIES = (JOBS, WANTED, DRAIN)


def as_text(
    product: Product, places: Mapping[str, int], each_forecast: Mapping[str, Forecast]
) -> str:
    """How many jobs are at each place of a product, and what history says of its queues."""
    samples = [({"product": product.value, "place": place}, many) for place, many in places.items()]
    return joined([*JOBS.lines(samples), *recommended(product, each_forecast)])


def recommended(product: Product, each_forecast: Mapping[str, Forecast]) -> Iterator[str]:
    """What history advises for some queues, as far as it is fresh: a scaler reads it there."""
    queues = [
        ({"product": product.value, "queue": queue}, each) for queue, each in each_forecast.items()
    ]
    yield from WANTED.lines(
        ((labels, each.workers.workers) for labels, each in queues if each.workers)
    )
    yield from DRAIN.lines(
        (
            ({**labels, "bound": bound}, getattr(each.drain, f"{bound}_s"))
            for labels, each in queues
            if each.drain
            for bound in ("low", "likely", "high")
        ),
    )


def joined(lines: Iterable[str]) -> str:
    """A page of such lines."""
    return "".join(f"{line}\n" for line in lines)


def _labels(labels: Mapping[str, str]) -> str:
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
