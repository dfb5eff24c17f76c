"""Three crowds that hold a room to the waits it shows: `python -m benchmarks.room.crowds`.

The clock is turned, so an hour takes well under a minute; the scripts and the store are the real
ones. Nothing is known beforehand. Numbers are seeds (1, 2 and 3 by default); `--picture FILE` draws
what was shown and what came of it.
"""

import asyncio
import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from benchmarks.room.simulator import Crowd, Simulation
from benchmarks.room.simulator.people import Person
from waystation.core.store import embedded
from waystation.core.store.connection import StoreOptions, connect
from waystation.waitingroom.estimates.estimate import Wait

_HOUR = Crowd(
    visitors=6000, hours=1.0, no_show=0.15, late=0.3, patience_s=3000, look_s=15, lanes=(1, 0, 0, 0)
)


def crowds(seed: int = 1) -> Mapping[str, Crowd]:
    """One hour each, in which seats, the rate, or now one and now the other are the limit."""
    return {
        "seats are the limit": replace(_HOUR, seed=seed, seats=0.75),
        "the rate is the limit": replace(_HOUR, seed=seed),
        "both change at half-time": replace(_HOUR, seed=seed, seats=0.95, midway=(0.75, 1.2)),
    }


class Judged(NamedTuple):
    """How true the waits were that one crowd was shown."""

    people: int
    error: float
    """How far off the middle of the first range was, by the wait that was left; the mean."""
    inside: float
    """The share that was called within the first range it was shown."""
    standing: float
    """The same, where a range that was shown before an operator's change gives way to the next."""
    width: float
    """From p10 to p90, by the middle; the mean."""
    unknown: float
    """The share that was shown nothing on joining."""
    broken: int
    """People whose latest time the page has moved back, which it does by more than a minute."""
    broken_twice: int


def judged(called: Sequence[Person], changed_s: float = math.inf) -> Judged:
    """Hold what people were shown against when they were called."""
    shown = [each for each in called if each.estimates and _left_s(each) > 30]
    errors, widths, broken = list[float](), list[float](), list[int]()
    inside = standing = 0
    for each in shown:
        left_s, wait = _left_s(each), each.estimates[0][1]
        errors.append(abs(wait.p50 - left_s) / left_s)
        widths.append((wait.p90 - wait.p10) / wait.p50)
        inside += _holds(each, each.estimates[0])
        later = (wait for wait in each.estimates if wait[0] >= changed_s > each.estimates[0][0])
        standing += _holds(each, next(later, each.estimates[0]))
        broken.append(_broken(each))
    many = max(1, len(shown))
    return Judged(
        len(shown),
        sum(errors) / many,
        inside / many,
        standing / many,
        sum(widths) / many,
        sum(each.p50 < 0 for each in called) / max(1, len(called)),
        sum(each > 0 for each in broken),
        sum(each > 1 for each in broken),
    )


def _left_s(person: Person) -> float:
    """How long it was to the call when they were first shown a wait."""
    return person.called_s - person.estimates[0][0]


def _holds(person: Person, shown: tuple[float, Wait]) -> bool:
    at, wait = shown
    # A second either way is how exact the calls themselves are.
    return wait.p10 - 1 <= person.called_s - at <= wait.p90 + 1


def _broken(person: Person) -> int:
    """How often the latest time that the page shows was moved back."""
    promise = None
    for at, wait in person.estimates:
        promise = kept_promise(promise, wait.p90, at)
    return promise.moved if promise else 0


class Promise(NamedTuple):
    """The latest time that somebody was promised."""

    latest: float
    moved: int = 0
    """How often it was moved back."""


def kept_promise(promise: Promise | None, p90: float, now: float) -> Promise:
    """What the page shows next, as its estimate.js has it."""
    latest = now + p90
    if promise is None:
        return Promise(latest)
    # A page shows minutes, so one of them is no change; and what is moved once has time to spare.
    if latest > promise.latest + 60:
        return Promise(now + 1.25 * p90, promise.moved + 1)
    return promise if promise.moved else Promise(min(latest, promise.latest))


async def run(crowd: Crowd) -> Sequence[Person]:
    """Let one crowd come; everybody who was called."""
    with embedded.ephemeral() as server:
        async with await connect(server.socket_url, StoreOptions(call_timeout=300)) as store:
            simulation = Simulation(store, crowd, learn_after=1)
            await simulation.run()
            if simulation.broken_promises:
                raise AssertionError(f"{simulation.broken_promises} people were wronged")
            return simulation.called


def changed_s(crowd: Crowd) -> float:
    """When the operator changes something; never, if that is nothing."""
    return math.inf if crowd.midway == (1.0, 1.0) else crowd.hours * 1800


def main(arguments: Sequence[str]) -> None:
    """Print the figures of the three crowds."""
    table = Table(title="first waits shown of three crowds", title_justify="left")
    for heading in (
        "", "people", "error", "inside", "standing", "width", "unknown", "moved back", "twice",
    ):  # fmt: skip
        table.add_column(heading, justify="right" if heading else "left")
    panels = dict[str, Sequence[Person]]()
    seeds = [int(each) for each in arguments if each.isdigit()] or [1, 2, 3]
    for seed in seeds:
        for name, crowd in crowds(seed).items():
            called = asyncio.run(run(crowd))
            panels.setdefault(name, called)
            seen = judged(called, changed_s(crowd))
            shares = (seen.error, seen.inside, seen.standing, seen.width, seen.unknown)
            table.add_row(
                f"{name}, seed {seed}",
                f"{seen.people:,}",
                *(f"{each:.1%}" for each in shares),
                f"{seen.broken:,}",
                f"{seen.broken_twice:,}",
            )
    Console(width=120).print(table)
    if "--picture" in arguments:
        Path(arguments[arguments.index("--picture") + 1]).write_text(picture(panels))


WIDE, HIGH, LEFT, TOP, BETWEEN = 760, 150, 56, 34, 46


def picture(panels: Mapping[str, Sequence[Person]]) -> str:
    """For each crowd the range that was shown, and the wait, by the minute of joining."""
    height = TOP + len(panels) * (HIGH + BETWEEN)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {height}" '
            'font-family="system-ui, sans-serif" font-size="12" role="img" '
            'aria-label="Waits that were shown and waits as they were, minute by minute">',
            f'<rect width="{WIDE}" height="{height}" fill="#fff"/>',
            f'<rect x="{LEFT}" y="9" width="16" height="10" fill="#bcd7cf"/>'
            f'<text x="{LEFT + 22}" y="18" fill="#222">range shown on joining (p10 to p90)</text>'
            f'<line x1="{LEFT + 250}" x2="{LEFT + 266}" y1="14" y2="14" stroke="#0b5a4a" '
            f'stroke-width="2"/><text x="{LEFT + 272}" y="18" fill="#1b1b1b">wait as it was</text>',
            *(
                part
                for nth, (name, called) in enumerate(panels.items())
                for part in _panel(TOP + 20 + nth * (HIGH + BETWEEN), name, called)
            ),
            "</svg>",
            "",
        ]
    )


def _panel(top: float, name: str, called: Sequence[Person]) -> Iterator[str]:
    minutes = defaultdict[int, list[Person]](list)
    for each in called:
        if each.p50 >= 0:
            minutes[int(each.joined_s // 60)].append(each)
    last = max(minutes)
    rows = [
        tuple(
            sum(values) / len(values) / 60
            for values in (
                [each.p10 for each in people],
                [each.p90 for each in people],
                [each.called_s - each.joined_s for each in people],
            )
        )
        for _, people in sorted(minutes.items())
    ]
    most = max(max(row) for row in rows) * 1.05
    base = top + HIGH

    def at(minute: int, value: float) -> str:
        x = LEFT + (WIDE - LEFT - 16) * minute / max(1, last)
        return f"{x:.1f},{base - HIGH * value / most:.1f}"

    known = sorted(minutes)
    low = [at(minute, row[0]) for minute, row in zip(known, rows, strict=True)]
    high = [at(minute, row[1]) for minute, row in zip(known, rows, strict=True)]
    real = [at(minute, row[2]) for minute, row in zip(known, rows, strict=True)]
    yield f'<text x="{LEFT}" y="{top - 6}" font-weight="600" fill="#1b1b1b">{name}</text>'
    step = 2 if most > 5 else 1
    for value in range(0, int(most) + 1, step):
        y = base - HIGH * value / most
        where = f'x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#444"'
        yield f'<line x1="{LEFT}" x2="{WIDE - 16}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f"<text {where}>{value} min</text>"
    yield f'<polygon fill="#bcd7cf" points="{" ".join([*low, *reversed(high)])}"/>'
    yield f'<polyline fill="none" stroke="#0b5a4a" stroke-width="2" points="{" ".join(real)}"/>'
    for minute in range(0, last + 1, 10):
        x = at(minute, 0).split(",")[0]
        yield f'<text x="{x}" y="{base + 16}" text-anchor="middle" fill="#444">{minute} min</text>'


if __name__ == "__main__":
    main(sys.argv[1:])
