"""The rows of tables counted from raw entries one at a time, in plain Python, without the pipeline.

Each function says in loops what a table should hold; only fingerprints are those of the core.
"""

import datetime as dt
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tests.pipeline.mixed_entries import Entry, Round, in_queues
from tests.pipeline.recount_events import (
    ENDED,
    OUTCOMES,
    READY,
    STATES,
    Event,
    Row,
    day,
    event_of,
    hour,
    instant,
    whose,
)
from tests.pipeline.recount_products import (
    account,
    is_known,
    places,
    routed_jobs,
    sessions,
    visits,
)
from waystation.core.fingerprints import error_class, fingerprint, signature


class Attempt(NamedTuple):
    """One claim, and what came of it."""

    step: Event
    life: int
    number: int
    ready_ms: int | None
    ended_ms: int | None
    outcome: str
    reason: str | None
    odd: str | None

    @property
    def wait(self) -> int | None:
        wait = None if self.ready_ms is None else self.step.at_ms - self.ready_ms
        return None if wait is None or wait < 0 else wait

    @property
    def run(self) -> int | None:
        run = None if self.ended_ms is None else self.ended_ms - self.step.at_ms
        return None if run is None or run < 0 else run

    @property
    def row(self) -> Row:
        one, why = self.step, self.reason
        if self.odd is None and self.ready_ms is not None and self.wait is None:
            odd = "it was started before it was ready"
        elif self.odd is None and self.ended_ms is not None and self.run is None:
            odd = "it ended before it was started"
        else:
            odd = self.odd
        kinds = (None, None) if why is None else (error_class(why), fingerprint(why))
        spans = instant(self.ready_ms), instant(one.at_ms), instant(self.ended_ms)
        counted = self.wait, self.run, self.outcome, *kinds, why, odd, day(one.at_ms)
        return *whose(one), self.number, one.worker or None, *spans, *counted


class Item(NamedTuple):
    """One life of a job or file."""

    row: dict[str, Any]
    steps: list[Event]
    attempts: list[Attempt]

    @property
    def state(self) -> str:
        return self.row["state"]

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @property
    def arrival(self) -> dt.datetime:
        """The hour in which it was added, or the start of its day."""
        added = self.row["added_at"]
        return hour(added) if added else dt.datetime.combine(self.row["date"], dt.time(), dt.UTC)


class Recount:
    """The events of some rounds, counted after the last of them."""

    def __init__(self, given: Sequence[Round]) -> None:
        self.events: list[Event] = []
        self.fates: dict[Row, str] = {}
        """The jobs that are lost, or found removed, by the last round."""
        self._gaps = Counter[tuple[str, str, dt.datetime]]()
        entries: list[Entry] = []
        for each in given:
            entries += each.entries
            self.events += [event_of(one) for one in each.entries if not one.is_lost]
            self._count_gaps(each.entries)
            self.items = [item for lives in self._lives() for item in lives]
            self.places = places(self.events)
            self._look(entries, each.clock_ms)

    @property
    def attempts(self) -> list[Attempt]:
        return [each for item in self.items for each in item.attempts]

    def rows(self) -> dict[str, list[Row]]:
        """The rows of each table that is counted here."""
        return {
            "attempts": [each.row for each in self.attempts],
            "items": [tuple(item.row.values()) for item in self.items],
            "hourly": list(hourly(_steps(self.events), self.attempts)),
            "failures": list(failures(self.items)),
            "ledger": list(self._ledger()),
            "places": [tuple(place.values()) for place in self.places],
            "visits": list(visits(self.places)),
            "sessions": list(sessions(self.places)),
            "routed_jobs": list(routed_jobs(self.events)),
            "added_files": [(*key, *value) for key, value in self._added_files()],
            "file_days": list(self._file_days()),
        }

    def _lives(self) -> Iterator[list[Item]]:
        subjects: dict[Row, list[Event]] = defaultdict(list)
        for step in _steps(self.events):
            subjects[whose(step)].append(step)
        for steps in subjects.values():
            yield lives_of(sorted(steps, key=lambda step: (step.recorded_ms, step.seq)))

    def _count_gaps(self, entries: Sequence[Entry]) -> None:
        for stream in {each.stream for each in entries if each.is_lost}:
            mine = [each for each in entries if each.stream == stream]
            first = next(each for each in mine if not each.is_lost)
            queue = "*" if first.line == "files" else first.queue
            lost = sum(each.is_lost for each in mine)
            self._gaps[first.line, queue, hour(instant(first.at_ms))] += lost

    def _look(self, entries: Sequence[Entry], clock_ms: int) -> None:
        """Look for everything that is open: what is nowhere was removed, what is torn is lost."""
        listed, kept = in_queues(entries)
        self.fates = {}
        for item in self.items:
            who = whose(item.steps[0])
            if item.has_ended or item.steps[-1].recorded_ms >= clock_ms:
                continue
            if who[0] != "bullmq":
                place = ("routing", "", who[2]) if who[0] == "routing" else who
                if place not in listed:
                    self.fates[who] = "lost"
            elif who not in listed and who not in kept:
                self.fates[who] = "removed"
                looks = Event(*who[:2], "looks", clock_ms, 0, clock_ms, "removed", who[2], *NOTHING)
                self.events.append(looks)
            elif who not in listed or who not in kept:
                self.fates[who] = "lost"
        for place in self.places:
            who = place["product"], place["queue"], place["job_id"]
            if account(place) == "waiting" and who not in listed and is_known(place, clock_ms):
                self.fates[who] = "lost"

    def _ledger(self) -> Iterator[Row]:
        accounts: dict[Row, list[tuple[str, str, int]]] = defaultdict(list)
        for item in self.items:
            line, queue, subject = whose(item.steps[0])
            said = item.state, subject, item.row["duplicates"]
            accounts[line, queue, item.arrival].append(said)
        for place in self.places:
            if place["last_event"] is not None:
                at = place["joined_at"]
                start = dt.datetime.combine(place["date"], dt.time(), dt.UTC)
                of = place["product"], place["queue"], hour(at) if at else start
                accounts[of].append((account(place), place["job_id"], 0))
        for of in accounts.keys() | self._gaps.keys():
            mine = accounts.get(of, [])
            fates = {who: self.fates.get((*of[:2], who)) for _, who, _ in mine}
            is_open = [who for state, who, _ in mine if state not in ENDED]
            lost = sorted(who for who in is_open if fates[who] == "lost")
            found = sum(fates[who] == "removed" for who in is_open)
            terminal = sum(state in ENDED and state != "removed" for state, _, _ in mine)
            removed = sum(state == "removed" for state, _, _ in mine) + found
            doubled, gaps = sum(many > 0 for _, _, many in mine), self._gaps.get(of, 0)
            visible = len(mine) - terminal - removed - len(lost)
            clean = not lost and not doubled and not gaps
            counted = len(mine), terminal, removed, visible, len(lost), doubled, gaps
            yield *of, *counted, lost[:20], clean

    def _added_files(self) -> list[tuple[Row, Row]]:
        found: dict[Row, list[Row]] = defaultdict(list)
        for each in self.events:
            path = each.fields.get("path")
            if each.line == "files" and each.event == "waiting" and path and each.subject:
                ends = re.search(r"[^/](\.[^./\s]+)$", path)
                kind = ends[1].lower() if ends and len(ends[1]) <= 17 else ""
                size = int(each.fields["size"]) if each.fields["size"].isdigit() else 0
                key = *whose(each), day(each.at_ms)
                found[key].append((path.rpartition("/")[0], kind, size))
        return [
            ((*key[:3], *(min(values) for values in zip(*some, strict=True))), (key[3],))
            for key, some in found.items()
        ]

    def _file_days(self) -> Iterator[Row]:
        added = {(*key[:3], *date): key[3:] for key, date in self._added_files()}
        groups: dict[Row, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
        for item in self.items:
            kind = added.get((*whose(item.steps[0]), item.row["date"]))
            if item.has_ended and kind is not None:
                run, date = item.row["run_ms"], item.row["date"]
                least = None if run is None else bucket(run)
                group = item.row["queue"], *kind[:2], _size_class(kind[2]), least, date
                groups[group].append((kind[2], item.row))
        for group, some in groups.items():
            rows = [row for _, row in some]
            ends = [row["ended_at"] for row in rows if row["ended_at"]]
            states = Counter(row["state"] for row in rows)
            counted = states["completed"], states["failed"], len(rows) - len(ends)
            born = min((row["added_at"] for row in rows if row["added_at"]), default=None)
            size = sum(size for size, _ in some)
            yield *group[:-1], len(rows), *counted, size, born, max(ends, default=None), group[-1]


NOTHING = (None, None, {"found": "neither its id nor its data"}, None)


def _steps(events: Iterable[Event]) -> Iterator[Event]:
    return (
        one for one in events if one.line != "waitingroom" and one.event in STATES and one.subject
    )


def lives_of(steps: Sequence[Event]) -> list[Item]:
    """The lives of one subject, from its steps in order."""
    life, ready, lives = 0, None, dict[int, tuple[list[Event], list[Attempt]]]()
    number = 0
    for place, step in enumerate(steps):
        if step.is_birth:
            life, number = life + 1, 0
        mine, tried = lives.setdefault(life, ([], []))
        mine.append(step)
        if step.event == "active":
            number += 1
            tried.append(_attempt(step, life, number, ready, steps[place + 1 :]))
            ready = None
        elif step.event in READY:
            ready = step.at_ms
    newest = max(lives)
    return [_item(*lives[life], is_newest=life == newest) for life in lives]


def _attempt(
    step: Event, life: int, number: int, ready: int | None, later: Sequence[Event]
) -> Attempt:
    ended, outcome, why, odd = None, None, step.reason, step.corrupt
    for each in later:
        if each.event == "active" or each.is_birth:
            break
        ended = each.at_ms if ended is None else ended
        outcome = outcome or OUTCOMES.get(each.event)
        why = each.reason if why is None else why
        odd = each.corrupt if odd is None else odd
    if outcome is None:
        outcome = "open" if ended is None else "returned" if step.worker else "retried"
    reason = (why or "") if outcome in ("failed", "retried") else None
    return Attempt(step, life, number, ready, ended, outcome, reason, odd)


def _item(steps: list[Event], tried: list[Attempt], *, is_newest: bool) -> Item:
    # Of a retry and the wait after it in the same millisecond the wait counts.
    turns = sorted(
        steps,
        key=lambda step: (step.recorded_ms, -1 if step.event in ("retry", "stalled") else step.seq),
    )
    stayed = [step for step in turns if step.event not in ("removed", "cancelled")]
    last = turns[-1]
    if stayed and STATES[stayed[-1].event] in ENDED:
        last = stayed[-1]
    state = STATES[last.event]
    ended = last.at_ms if state in ENDED else None
    born = next((step.at_ms for step in steps if step.is_birth), None)
    waits = [each.wait for each in tried if each.wait is not None]
    runs = [each.run for each in tried if each.run is not None]
    reasons = [each.reason for each in tried if each.reason is not None]
    total = None if ended is None or born is None else ended - born
    named = (step.fields.get("name", step.fields.get("type")) for step in steps)
    events = Counter(step.event for step in steps)
    again = sum(step.is_again for step in steps)
    odd = next((step.corrupt for step in steps if step.corrupt), None)
    if odd is None and total is not None and total < 0:
        odd = "it ended before it was added"
    first = min(step.at_ms for step in steps)
    row: dict[str, Any] = {
        "product": steps[0].line,
        "queue": steps[0].queue,
        "job_id": steps[0].subject,
        "name": next((name for name in named if name is not None), None),
        "added_at": instant(born),
        "started_at": instant(min((each.step.at_ms for each in tried), default=None)),
        "ended_at": instant(ended),
        "state": state if is_newest or state in ENDED else "removed",
        "attempts": len(tried),
        "retries": sum(each.outcome == "retried" for each in tried),
        "stalls": events["stalled"],
        "wait_ms": sum(waits) if waits else None,
        "run_ms": sum(runs) if runs else None,
        "total_ms": total if total is not None and total >= 0 else None,
        "reason": reasons[-1] if reasons else None,
        "fingerprint": fingerprint(reasons[-1]) if reasons else None,
        "duplicates": max(0, events["completed"] - 1 - again),
        "last_recorded_at": instant(max(step.recorded_ms for step in steps)),
        "_corrupt": odd,
        "date": day(first if born is None else born),
    }
    return Item(row, steps, tried)


def bucket(value: int) -> int:
    shift = max(0, value.bit_length() - 7)
    return value >> shift << shift


def _percentile(values: Sequence[int], part: float) -> float | None:
    if not values:
        return None
    least = next(
        bucket(value) for nth, value in enumerate(sorted(values), 1) if nth >= part * len(values)
    )
    return least + (2 ** max(0, least.bit_length() - 7) - 1) / 2


def hourly(steps: Iterable[Event], attempts: Iterable[Attempt]) -> Iterator[Row]:
    """How much each queue did in each hour."""
    done: dict[Row, list[Event]] = defaultdict(list)
    tried: dict[Row, list[Attempt]] = defaultdict(list)
    for step in steps:
        done[step.line, step.queue, hour(instant(step.at_ms))].append(step)
    for each in attempts:
        of = each.step
        tried[of.line, of.queue, hour(instant(of.at_ms))].append(each)
    for of in done.keys() | tried.keys():
        events = Counter(step.event for step in done[of])
        failed = {
            (step.subject, step.recorded_ms)
            for step in done[of]
            if step.event in ("failed", "dead")
        }
        outcomes = Counter(each.outcome for each in tried[of])
        waits = [each.wait for each in tried[of] if each.wait is not None]
        runs = [each.run for each in tried[of] if each.run is not None]
        spans = [_percentile(some, part) for some in (waits, runs) for part in (0.5, 0.95, 0.99)]
        counts = sum(step.is_birth for step in done[of]), events["active"], events["completed"]
        histograms = [
            sorted(Counter(map(bucket, some)).items()) if waits or runs else None
            for some in (waits, runs)
        ]
        ends = (events["completed"] + len(failed)) / 3600
        outs = len(failed), outcomes["retried"], outcomes["stalled"]
        yield *of, *counts, *outs, *spans, ends, *histograms


def failures(items: Iterable[Item]) -> Iterator[Row]:
    """The kinds of failure of each queue."""
    kinds: dict[Row, list[tuple[str, list[Attempt], list[Attempt]]]] = defaultdict(list)
    for item in items:
        for kind in {fingerprint(each.reason) for each in item.attempts if each.reason is not None}:
            mine = [
                each
                for each in item.attempts
                if each.reason is not None and fingerprint(each.reason) == kind
            ]
            line, queue, subject = whose(item.steps[0])
            kinds[line, queue, kind].append((subject, mine, item.attempts))
    for of, seen in kinds.items():
        tried = [each for _, mine, _ in seen for each in mine]
        reason = min(each.reason or "" for each in tried)
        classes = [found for each in tried if (found := error_class(each.reason or ""))]
        starts = [each.step.at_ms for each in tried]
        span = max(1.0, (max(starts) // 1000 - min(starts) // 1000) / 3600)
        again = [_retried(mine, attempts) for _, mine, attempts in seen]
        well = [
            many > 0 and _has_recovered(mine, attempts)
            for many, (_, mine, attempts) in zip(again, seen, strict=True)
        ]
        helps = sum(well) / sum(map(bool, again)) if any(again) else None
        names = sorted({subject for subject, _, _ in seen})[:5]
        said = instant(min(starts)), instant(max(starts)), len(tried), len(seen), len(tried) / span
        kind = signature(reason), min(classes, default=None)
        yield *of, *kind, *said, names, sum(again), sum(well), helps, 1


def _retried(mine: Iterable[Attempt], attempts: Sequence[Attempt]) -> int:
    last = max(each.number for each in attempts)
    return sum(each.outcome == "retried" or each.number < last for each in mine)


def _has_recovered(mine: Iterable[Attempt], attempts: Iterable[Attempt]) -> bool:
    since = min(each.step.at_ms for each in mine)
    return any(each.outcome == "completed" and each.step.at_ms > since for each in attempts)


def _size_class(size: int) -> str:
    if size == 0:
        return "empty"
    for most, name in ((2**10, "up to 1 KB"), (2**20, "up to 1 MB"), (2**30, "up to 1 GB")):
        if size <= most:
            return name
    return "over 1 GB"
