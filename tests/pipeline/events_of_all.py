"""Made-up events of routing, files and a waiting room, in every kind of fate."""

import datetime as dt
import random
from collections.abc import Iterator
from typing import Any

from tests.pipeline.stories import START

DAY_MS = 86_400_000
TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 3, in x\n    f()\nKeyError: '
REASONS = (
    "order ord_03d4a0142e8a not found",
    "connect ETIMEDOUT [2001:db8::df0]:443",
    f"{TRACEBACK}'tenant-7'",
    "Error: failed\n    at f (/srv/app/x.js:3:1)\n  [cause]: TypeError: x is 7\n",
    "",
)


def events_of_products(seed: int = 77) -> list[dict[str, Any]]:
    """Rows of the events table about three products."""
    dice = random.Random(seed)
    events = [*_routing(dice), *_files(dice), *_visitors(dice)]
    return [_row(turn, *each) for turn, each in enumerate(events)]


def events_of_files(dice: random.Random, files: int) -> list[dict[str, Any]]:
    """Rows of the events table about files of eight days, in the order of the stream.

    Some are tried again, put back on a later day, removed, or stay open.
    """
    events = [each for number in range(files) for each in _life_of_file(dice, number)]
    events.sort(key=lambda each: each[0])
    return [_row(turn, *each) for turn, each in enumerate(events)]


def _life_of_file(dice: random.Random, number: int) -> Iterator[tuple[Any, ...]]:
    at, attempt = dice.randrange(8 * DAY_MS), 1
    of = ("files", dice.choice(["high", "low"]), f"f{number}")
    path = f"/data/{dice.choice('abc')}/f{number}{dice.choice(['.PDF', '.csv', ''])}"
    yield at, *of, "waiting", {"path": path, "size": str(dice.choice([0, 77, 5_000]))}, None, 1
    while dice.random() < 0.9:
        at += dice.randrange(1, 9_000)
        yield at, *of, "active", {}, "filer", attempt
        at += dice.choice([3, 150, 151, 90_000, DAY_MS])
        end = dice.choice(["completed", "completed", "completed", "dead", "retry", "stalled"])
        yield at, *of, end, {"reason": dice.choice(REASONS)}, "filer", attempt
        if end == "completed":
            return
        if end == "dead":
            if dice.random() < 0.5:
                return
            at, attempt = at + dice.randrange(2 * DAY_MS), 0
            yield at, *of, "redriven", {}, None, 1
        elif end == "retry":
            yield at, *of, "waiting", {}, None, attempt + 1
        attempt += 1
    if dice.random() < 0.5:
        yield at + 5, *of, "removed", {}, None, attempt


def _row(
    turn: int,
    at_ms: int,
    product: str,
    queue: str,
    job_id: str,
    event: str,
    fields: dict[str, str] | None = None,
    worker: str | None = None,
    attempt: int | None = None,
) -> dict[str, Any]:
    at = START + dt.timedelta(milliseconds=at_ms)
    return {
        "product": product,
        "queue": queue,
        "stream": f"{product}:events",
        "entry_id": f"{int(at.timestamp() * 1000)}-{turn}",
        "seq": turn,
        "recorded_at": at,
        "at": at,
        "event": event,
        "job_id": job_id,
        "attempt": attempt,
        "worker": worker,
        "fields": list((fields or {}).items()),
        "version": 1,
        "_corrupt": None,
        "date": at.date(),
    }


def _routing(dice: random.Random) -> Iterator[tuple[Any, ...]]:
    for number in range(40):
        job, at = f"r{number}", dice.randrange(6_000_000)
        target = dice.choice(["gpu", "eu", "none"])
        yield at, "routing", "render", job, "added", {"target": target, "type": "render"}
        yield at + 1, "routing", "render", job, "waiting"
        if target == "none":
            continue
        worker = dice.choice(["w1", "w2"])
        yield at + 50, "routing", "render", job, "active", {}, worker
        end = dice.choice(["completed", "dead", "retry"])
        yield at + 90, "routing", "render", job, end, {"error": dice.choice(REASONS)}, worker
    first = int(START.timestamp() * 1000) // 60_000 * 60_000 + 60_000
    cron = {"kind": "cron", "cron": "* * * * *", "timezone": "UTC", "due": str(first)}
    yield 5, "routing", "nightly", "c1", "delayed", cron
    for minute in (0, 1, 1, 3, 4):
        slot = {"schedule": "c1", "slot": str(first + minute * 60_000)}
        late = dice.choice([10, 9_000])
        at = first + minute * 60_000 - int(START.timestamp() * 1000) + late
        yield at, "routing", "nightly", f"c1:{minute}:{late}", "fired", slot
    skipped = {"schedule": "c1", "slot": str(first + 120_000), "reason": "overlap"}
    yield 300_000, "routing", "nightly", "c1", "skipped", skipped


def _files(dice: random.Random) -> Iterator[tuple[Any, ...]]:
    for number in range(60):
        path = f"/data/{dice.choice('ab')}/f{number}{dice.choice(['.TXT', '.tar.gz', '', '.x y'])}"
        size = dice.choice(["0", "77", "5000", "9000000", "5000000000", "broken"])
        at = dice.randrange(6_000_000)
        fields = {"path": path, "size": size}
        yield at, "files", "high", f"f{number}", "waiting", fields, None, 1
        if dice.random() < 0.1:
            continue
        yield at + 5, "files", "high", f"f{number}", "active", {}, "filer"
        end, ran = dice.choice(["completed", "dead"]), dice.choice([10, 20, 9_000])
        reason = {"reason": dice.choice(REASONS)} if end == "dead" else {}
        yield at + 5 + ran, "files", "high", f"f{number}", end, reason, "filer"


def _visitors(dice: random.Random) -> Iterator[tuple[Any, ...]]:
    for number in range(120):
        at, who = number * 1_000, f"v{number}"
        joined = {"lane": str(dice.randrange(3)), "seq": str(number), "network": "n"}
        joined |= {"ahead": str(dice.randrange(40)), "rate": dice.choice(["0.5", "2.0", "0"])}
        yield at, "waitingroom", "sale", who, "waiting", joined
        fate = dice.random()
        if fate < 0.2:
            event, reason = dice.choice([("left", ""), ("expired", "silent")])
            gone = at + dice.randrange(1, 90_000)
            yield gone, "waitingroom", "sale", who, event, {"reason": reason}
            continue
        called = at + dice.randrange(1, 60_000)
        seq = {"seq": str(dice.randrange(120))} if dice.random() < 0.5 else {}
        yield called, "waitingroom", "sale", who, "admitted", seq
        if fate < 0.3:
            yield called + 9_000, "waitingroom", "sale", who, "missed"
            continue
        yield called + 500, "waitingroom", "sale", who, "claimed", {"lane": "1"}
        if fate < 0.8:
            ending = dice.choice(
                [("completed", {"views": "3"}), ("expired", {"reason": "session"})]
            )
            yield called + dice.randrange(600, 90_000), "waitingroom", "sale", who, *ending
    yield 9, "waitingroom", "sale", "v-refused", "refused", {"lane": "0"}
