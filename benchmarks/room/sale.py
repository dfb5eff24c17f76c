"""A sale over HTTP, with two server processes: `python -m benchmarks.room.sale`.

People arrive at a steady pace, some of those called stay away, some of these come late and take
their turn back, and seats are the limit until the operator adds some. The event stream of the store
is read along from the first entry to the last, so that every call is judged, not only those that
the crowd saw. `--visitors` and `--hours` say how many come and how long, `--picture FILE` draws it.
"""

import argparse
import asyncio
import os
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.report import machine
from benchmarks.room.crowds import Judged, judged
from benchmarks.room.loadtest import Visits
from benchmarks.room.simulator import Crowd
from benchmarks.room.simulator.measures import Verdict, inversions
from waystation.core.store import embedded
from waystation.core.store.connection import Store, StoreOptions, connect
from waystation.waitingroom import Room, RoomOptions
from waystation.waitingroom.options import WaitingPage
from waystation.waitingroom.redis.keys import RoomKeys

ROOM = "sale"
MORE_SEATS = 1.75
"""What the operator multiplies the seats by."""
CHANGED_AT = 0.6
"""When that happens, by the time in which people arrive."""
EVERY_S = 5.0


class Sample(NamedTuple):
    """The room at one instant."""

    at_s: float
    waiting: int
    inside: int
    called: int
    seats: int


class Followed:
    """What the event stream of the room says, read along."""

    def __init__(self) -> None:
        self.events = Counter[str]()
        self.called: dict[str, float] = {}
        """When each visitor was called first, in seconds since 1970."""
        self.again: list[str] = []
        """Visitors who were called once more without having taken a missed turn back."""
        self.order: list[int] = []
        self.calls = Counter[str]()
        self.returned = 0
        self.inside = Counter[str]()
        self._may_return = Counter[str]()

    def take(self, fields: dict[str, str]) -> None:
        """Count one event."""
        who, event = fields.get("subject", ""), fields["event"]
        match event:
            case "admitted":
                self._call(who, fields)
            case "recovered":
                self.returned += 1
                self._may_return[who] += 1
            case "claimed":
                self.inside[who] += 1
            case _:
                pass
        self.events[event] += 1

    def _call(self, who: str, fields: dict[str, str]) -> None:
        self.calls[who] += 1
        if who not in self.called:
            self.called[who] = int(fields["at"]) / 1000
            self.order.append(int(fields["seq"]))
        elif self._may_return[who] > 0:
            self._may_return[who] -= 1
        else:
            self.again.append(who)


class Sale(NamedTuple):
    """What came of it."""

    verdicts: list[Verdict]
    samples: list[Sample]
    waits: list[tuple[float, float, float, float]]
    """Minute by minute of joining: the range that was shown first, and the wait."""


async def run(crowd: Crowd, *, seats: int, rate: float, window_s: int) -> Sale:
    """Let the crowd come to a room of its own."""
    options = RoomOptions(
        max_active=seats, admission_rate=rate, max_queue_size=0, claim_window=window_s,
        waiting_page=WaitingPage.ALWAYS, events_cap=200_000,
    )  # fmt: skip
    with embedded.ephemeral() as server, tempfile.TemporaryDirectory() as folder:
        async with (
            await connect(server.url, StoreOptions(call_timeout=300)) as store,
            Room(ROOM, store) as room,
        ):
            await room.open(options)
            async with _serving(server.url, Path(folder)) as port:
                return await _sale(crowd, room, store, port, options)


async def _sale(crowd: Crowd, room: Room, store: Store, port: int, options: RoomOptions) -> Sale:
    followed, samples = Followed(), list[Sample]()
    visits = Visits(
        f"http://127.0.0.1:{port}/api/v1/queues/{ROOM}", crowd, progress=_progress(crowd)
    )
    began, epoch_s = asyncio.get_running_loop().time(), time.time()
    changed_s = began + CHANGED_AT * crowd.hours * 3600
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as beside:
        beside.create_task(_follow(store, followed, stop))
        beside.create_task(_look(room, samples, began, stop))
        more = beside.create_task(_add_seats(room, options, changed_s))
        verdicts = await visits.run()
        more.cancel()
        stop.set()
    for each in visits.called:
        # The room knows better than its visitors when they were called.
        each.called_s = followed.called[each.place.id] - epoch_s + began
    seen = judged(visits.called, changed_s)
    return Sale([*verdicts, *_verdicts(followed, samples, seen)], samples, _waits(visits, began))


async def _add_seats(room: Room, options: RoomOptions, at_s: float) -> None:
    await asyncio.sleep(max(0.0, at_s - asyncio.get_running_loop().time()))
    await room.open(options.changed(max_active=round(options.max_active * MORE_SEATS)))


async def _follow(store: Store, followed: Followed, stop: asyncio.Event) -> None:
    key, last, over = RoomKeys(ROOM).events, "0-0", False
    while True:
        page: Any = await store.redis.xrange(key, min=f"({last}", count=5000)
        for id, fields in page:
            last = id.decode()
            followed.take({name.decode(): value.decode() for name, value in fields.items()})
        if not page:
            if over:
                return
            # What was written before the end is read in one more round.
            over = stop.is_set()
            await asyncio.sleep(0.0 if over else 0.5)


async def _look(room: Room, samples: list[Sample], began: float, stop: asyncio.Event) -> None:
    while not stop.is_set():
        state = await room.state()
        at_s = asyncio.get_running_loop().time() - began
        seats = state.options.max_active
        samples.append(Sample(at_s, state.waiting, state.inside, state.called, seats))
        await asyncio.sleep(EVERY_S)


def _verdicts(followed: Followed, samples: Sequence[Sample], seen: Judged) -> list[Verdict]:
    overtaken = inversions(followed.order)
    twice_in = sum(many > 1 for many in followed.inside.values())
    crowded = sum(each.inside + each.called > each.seats for each in samples)
    longest = max(each.waiting for each in samples)
    return [
        Verdict("events of the room", f"{followed.events.total():,}", "", True),
        Verdict("longest line", f"{longest:,}", "", True),
        Verdict("turns given", f"{followed.calls.total():,}", "", True),
        Verdict("of them not taken", f"{followed.events['missed']:,}", "", True),
        Verdict("of them for a turn that was taken back", f"{followed.returned:,}", "", True),
        Verdict("people called", f"{len(followed.called):,}", "", True),
        Verdict("people who came in", f"{len(followed.inside):,}", "", True),
        Verdict(
            "overtaken, by the event stream",
            f"{overtaken} of {len(followed.order):,}", "0", overtaken == 0,
        ),
        Verdict("called twice", f"{len(followed.again)}", "0", not followed.again),
        Verdict("in twice", f"{twice_in}", "0", twice_in == 0),
        Verdict(
            "looks with more people than seats", f"{crowded} of {len(samples):,}", "0", crowded == 0
        ),
        Verdict("waits that are judged", f"{seen.people:,}", "", True),
        Verdict("error of the first estimate", f"{seen.error:.1%}", "", True),
        Verdict("waits within its range", f"{seen.inside:.1%}", "", True),
        Verdict("or within the first after the change", f"{seen.standing:.1%}", "", True),
        Verdict("promises moved back", f"{seen.broken:,}", "", True),
        Verdict("more than once", f"{seen.broken_twice:,}", "", True),
    ]  # fmt: skip


def _progress(crowd: Crowd) -> Any:
    shown = [0.0]

    def show(came: int, here: int) -> None:
        if time.monotonic() - shown[0] > 30:
            shown[0] = time.monotonic()
            print(f"{came:,} of {crowd.visitors:,} came, {here:,} are here", flush=True)

    return show


def _waits(visits: Visits, began: float) -> list[tuple[float, float, float, float]]:
    minutes = dict[int, list[tuple[float, float, float]]]()
    for each in visits.called:
        if each.estimates:
            at, wait = each.estimates[0]
            row = wait.p10 / 60, wait.p90 / 60, (each.called_s - at) / 60
            minutes.setdefault(int((each.joined_s - began) // 60), []).append(row)
    means = list[tuple[float, float, float, float]]()
    for minute, rows in sorted(minutes.items()):
        low, high, real = (sum(column) / len(rows) for column in zip(*rows, strict=True))
        means.append((float(minute), low, high, real))
    return means


@asynccontextmanager
async def _serving(redis_url: str, folder: Path) -> AsyncGenerator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    environment = {
        **os.environ,
        "WAYSTATION_STORE__URL": redis_url,
        "WAYSTATION_ROOM__TRUSTED_PROXIES": "127.0.0.1/32",
    }
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "waystation", "room", "serve",
            "--port", str(port), "--room", ROOM, "--workers", "2",
            cwd=folder, env=environment, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        async with asyncio.timeout(120):
            while not await _answers(port):
                if process.returncode is not None:
                    raise AssertionError((folder / "log").read_text())
                await asyncio.sleep(0.2)
        yield port
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()


async def _answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def main(arguments: Sequence[str]) -> None:
    """Hold one sale, print its figures and draw it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.room.sale")
    parser.add_argument("--visitors", type=int, default=50_000)
    parser.add_argument("--hours", type=float, default=0.5)
    parser.add_argument("--seats", type=int, default=600)
    parser.add_argument("--rate", type=float, default=25.0)
    parser.add_argument("--window", type=int, default=120)
    parser.add_argument("--session", type=float, default=10.0)
    parser.add_argument("--patience", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--picture", type=Path)
    chosen = parser.parse_args(arguments)
    crowd = Crowd(
        visitors=chosen.visitors, hours=chosen.hours, no_show=0.15, late=0.3, bots=0.02,
        session_median_s=chosen.session, patience_s=chosen.patience, seed=chosen.seed,
    )  # fmt: skip
    before = machine()
    sale = asyncio.run(run(crowd, seats=chosen.seats, rate=chosen.rate, window_s=chosen.window))
    table = Table(title="a sale over HTTP, two server processes", title_justify="left")
    for heading in ("", "seen", "wanted"):
        table.add_column(heading)
    for each in sale.verdicts:
        table.add_row(each.name, each.seen, each.wanted)
    Console(width=150).print(table, f"before: {before}", f"after: {machine()}", sep="\n")
    if chosen.picture:
        chosen.picture.write_text(picture(sale, CHANGED_AT * chosen.hours * 60))
    if not all(each.holds for each in sale.verdicts):
        raise SystemExit(1)


WIDE, HIGH, LEFT, TOP, BETWEEN = 760, 190, 56, 34, 60


def picture(sale: Sale, changed: float) -> str:
    """The line and those inside, and below it the waits as they were shown and as they were."""
    samples = sale.samples
    last = max(samples[-1].at_s / 60, 1.0)
    lines = [(each.at_s / 60, float(each.waiting)) for each in samples]
    inside = [(each.at_s / 60, float(each.inside + each.called)) for each in samples]
    longest = max((max(each[1:]) for each in sale.waits), default=1.0)
    unit, per_minute = (" s", 60.0) if longest < 3 else (" min", 1.0)
    waits = [(at, *(each * per_minute for each in shown)) for at, *shown in sale.waits]
    top, below = TOP + 16, TOP + 16 + HIGH + BETWEEN
    most = max(max(value for _, value in lines), 1.0)
    upper, lower = _Panel(top, last, most), _Panel(below, last, longest * per_minute)
    band = [lower.at(at + 0.5, low) for at, low, _, _ in waits]
    band += [lower.at(at + 0.5, high) for at, _, high, _ in reversed(waits)]
    height = below + HIGH + 34
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {height}" '
            'font-family="system-ui, sans-serif" font-size="12" role="img" '
            'aria-label="The line and the seats of a sale, and its waits, minute by minute">',
            f'<rect width="{WIDE}" height="{height}" fill="#fff"/>',
            *_legend(18, [("#0b5a4a", "in line"), ("#b4530a", "seats taken")]),
            *upper.grid(""),
            upper.line(lines, "#0b5a4a"),
            upper.line(inside, "#b4530a"),
            upper.mark(changed, "the operator adds seats"),
            *_legend(
                below - 14,
                [("#bcd7cf", "range shown first (p10 to p90)"), ("#0b5a4a", "wait as it was")],
            ),
            *lower.grid(unit),
            f'<polygon fill="#bcd7cf" points="{" ".join(band)}"/>',
            lower.line([(at + 0.5, real) for at, _, _, real in waits], "#0b5a4a"),
            lower.mark(changed, ""),
            f'<text x="{LEFT}" y="{height - 2}" fill="#444">minute of joining</text>',
            "</svg>",
            "",
        ]
    )


def _legend(y: float, entries: Sequence[tuple[str, str]]) -> list[str]:
    return [
        f'<rect x="{LEFT + 220 * nth}" y="{y - 8}" width="14" height="6" fill="{colour}"/>'
        f'<text x="{LEFT + 220 * nth + 20}" y="{y}" fill="#222">{name}</text>'
        for nth, (colour, name) in enumerate(entries)
    ]


class _Panel(NamedTuple):
    top: float
    last: float
    most: float

    def at(self, minute: float, value: float) -> str:
        """A point of it."""
        x = LEFT + (WIDE - LEFT - 16) * minute / self.last
        return f"{x:.1f},{self.top + HIGH * (1 - value / (1.05 * self.most)):.1f}"

    def line(self, points: Sequence[tuple[float, float]], colour: str) -> str:
        """A line through some points."""
        drawn = " ".join(self.at(*each) for each in points)
        return f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{drawn}"/>'

    def mark(self, minute: float, text: str) -> str:
        """A line from top to bottom."""
        x = self.at(minute, 0).split(",")[0]
        return (
            f'<line x1="{x}" x2="{x}" y1="{self.top}" y2="{self.top + HIGH}" stroke="#444" '
            f'stroke-dasharray="3 3"/><text x="{x}" dx="5" y="{self.top + 12}" '
            f'fill="#444">{text}</text>'
        )

    def grid(self, unit: str) -> list[str]:
        """Lines across, and minutes below."""
        step = next(
            each * 10**power
            for power in range(7)
            for each in (1, 2, 5)
            if each * 10**power * 5 >= self.most
        )
        parts = list[str]()
        for value in range(0, int(1.05 * self.most) + 1, step):
            y = self.at(0, value).split(",")[1]
            parts.append(
                f'<line x1="{LEFT}" x2="{WIDE - 16}" y1="{y}" y2="{y}" stroke="#ddd"/>'
                f'<text x="{LEFT - 6}" y="{y}" dy="4" text-anchor="end" '
                f'fill="#444">{value:,}{unit}</text>'
            )
        every = 5 if self.last > 12 else 1
        for minute in range(0, int(self.last) + 1, every):
            x = self.at(minute, 0).split(",")[0]
            parts.append(
                f'<text x="{x}" y="{self.top + HIGH + 16}" text-anchor="middle" '
                f'fill="#444">{minute} min</text>'
            )
        return parts


if __name__ == "__main__":
    main(sys.argv[1:])
