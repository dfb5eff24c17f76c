"""A line in numbers, as Prometheus reads them: how much is where, and what history advises."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

from waystation.core.events import Line
from waystation.core.line.forecasts import Forecast

Sample: TypeAlias = tuple[Mapping[str, str], float]
"""Labels, and the value they have now."""


def as_text(line: Line, places: Mapping[str, int], each_forecast: Mapping[str, Forecast]) -> str:
    """How many jobs are at each place of a line, and what history says of its queues."""
    samples = [({"line": line.value, "place": place}, many) for place, many in places.items()]
    jobs = family("waystation_jobs", "gauge", "Jobs by where they are", samples)
    return joined([*jobs, *recommended(line, each_forecast)])


def recommended(line: Line, each_forecast: Mapping[str, Forecast]) -> Iterator[str]:
    """What history advises for some queues, as far as it is fresh: a scaler reads it there."""
    queues = [({"line": line.value, "queue": queue}, each) for queue, each in each_forecast.items()]
    yield from family(
        "waystation_workers_wanted",
        "gauge",
        "Jobs that should be in hand at a time for the wait that is aimed at",
        ((labels, each.workers.workers) for labels, each in queues if each.workers),
    )
    yield from family(
        "waystation_drain_seconds",
        "gauge",
        "When all that waits will be done",
        (
            ({**labels, "bound": bound}, getattr(each.drain, f"{bound}_s"))
            for labels, each in queues
            if each.drain
            for bound in ("low", "likely", "high")
        ),
    )


def family(
    name: str, kind: Literal["gauge", "counter"], meaning: str, samples: Iterable[Sample]
) -> Iterator[str]:
    """One metric with all of its samples; nothing where there are none."""
    lines = [f"{name}{{{_labels(labels)}}} {value}" for labels, value in samples]
    if lines:
        yield from (f"# HELP {name} {meaning}", f"# TYPE {name} {kind}", *lines)


def joined(lines: Iterable[str]) -> str:
    """A page of such lines."""
    return "".join(f"{line}\n" for line in lines)


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
