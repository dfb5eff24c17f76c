"""Visitors and routed jobs counted from events one at a time, in plain Python."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tests.pipeline.recount_events import Event, Row, day, instant, whose


def account(place: dict[str, Any]) -> str:
    last = place["last_event"]
    if last in ("left", "expired", "completed", "cancelled"):
        return "completed"
    return "removed" if last == "removed" else "waiting" if last else "completed"


def is_known(place: dict[str, Any], clock_ms: int) -> bool:
    return place["last_recorded_at"] < instant(clock_ms)


def _number(kind: Callable[[str], Any], text: str | None) -> Any:
    try:
        return None if text is None else kind(text)
    except ValueError:
        return None


def places(events: Iterable[Event]) -> list[dict[str, Any]]:
    """One row for each place in a waiting room."""
    mine: dict[Row, list[Event]] = defaultdict(list)
    for each in events:
        if each.line == "waitingroom" and each.subject is not None:
            mine[whose(each)].append(each)
    return [_place(of_place) for of_place in mine.values()]


def _place(events: list[Event]) -> dict[str, Any]:
    events = sorted(events, key=lambda each: (each.recorded_ms, each.seq))

    def of(*names: str, reason: str | None = None) -> list[Event]:
        return [
            each
            for each in events
            if each.event in names and (reason is None or each.fields.get("reason") == reason)
        ]

    def said(some: list[Event], name: str, kind: Callable[[str], Any]) -> Any:
        found = (_number(kind, each.fields.get(name)) for each in some)
        return max((each for each in found if each is not None), default=None)

    def first(some: list[Event]) -> Any:
        return instant(min((each.at_ms for each in some), default=None))

    def latest(some: list[Event]) -> Any:
        return instant(max((each.at_ms for each in some), default=None))

    joins, calls = of("waiting", "delayed"), of("admitted")
    ends = [*of("completed", "cancelled"), *of("expired", reason="session")]
    back = of("recovered", reason="left")
    stays = [each for each in events if each.event != "refused"]
    last = stays[-1] if stays else None
    call = min(calls, key=lambda each: each.at_ms, default=None)
    born = first(joins)
    return {
        "product": events[0].line,
        "queue": events[0].queue,
        "job_id": events[0].subject,
        "lane": said(joins, "lane", int),
        "network": said(events, "network", str),
        "joined_at": born,
        "seq_joined": said(joins, "seq", int),
        "ahead": said(joins, "ahead", int),
        "rate": said(joins, "rate", float),
        "model": said(joins, "model", str),
        "called_at": first(calls),
        "seq_called": None if call is None else _number(int, call.fields.get("seq")),
        "claimed_at": first(of("claimed")),
        "left_at": latest(of("left")),
        "removed_at": latest(of("removed")),
        "silent_at": first(of("expired", reason="silent")),
        "ended_at": first(ends),
        "recovered": len(of("recovered")) - len(back),
        "times_left": len(of("left")) - len(back),
        "times_missed": len(of("missed")),
        "session_lane": said(of("claimed"), "lane", int),
        "views": said(events, "views", int),
        "ending": max((each.event for each in ends), default=None),
        "last_event": last and last.event,
        "last_recorded_at": last and instant(last.recorded_ms),
        "last_seq": last and last.seq,
        "first_at": first(events),
        "date": (born or first(events)).date(),
    }


def visits(places: Iterable[dict[str, Any]]) -> Iterator[Row]:
    """One row for each place that was joined."""
    for of in places:
        if of["joined_at"] is None:
            continue
        left = of["left_at"] if of["times_left"] > 0 else of["silent_at"]
        gone = of["removed_at"] or left
        until = of["called_at"] or gone
        waited = None if until is None else (until - of["joined_at"]).total_seconds()
        ways = (
            ("completed", of["ended_at"]),
            ("inside", of["claimed_at"]),
            ("removed", of["removed_at"]),
            ("left", of["times_left"] > 0),
            ("expired", gone),
            ("missed", of["times_missed"] > 0),
            ("called", of["called_at"]),
        )
        outcome = next((name for name, is_so in ways if is_so), "waiting")
        seq = of["seq_joined"] if of["seq_called"] is None else of["seq_called"]
        order = of["called_at"] and round(of["called_at"].timestamp() * 1_000_000)
        joined = of["lane"], of["network"], of["joined_at"], seq
        guess = of["ahead"], of["rate"], of["model"]
        ends = of["claimed_at"], gone, of["ended_at"], of["recovered"]
        called = of["called_at"], order
        yield (
            of["queue"],
            of["job_id"],
            *joined,
            *guess,
            *called,
            *ends,
            waited,
            outcome,
            of["date"],
        )


def sessions(places: Iterable[dict[str, Any]]) -> Iterator[Row]:
    """One row for each place that was entered."""
    for of in places:
        begun, ended = of["claimed_at"], of["ended_at"]
        if begun is not None:
            held = None if ended is None else (ended - begun).total_seconds()
            said = of["queue"], of["job_id"], of["session_lane"], begun, ended, held
            yield *said, of["views"], of["ending"], of["date"]


def routed_jobs(events: Iterable[Event]) -> Iterator[Row]:
    """One row for each time that a job or a schedule of routing was added."""
    others = ("joined", "left", "lost", "paused", "resumed", "skipped")
    subjects: dict[Row, list[Event]] = defaultdict(list)
    for each in events:
        if each.line == "routing" and each.subject is not None and each.event not in others:
            subjects[each.stream, each.subject].append(each)
    for mine in subjects.values():
        lives: list[list[Event]] = []
        for each in sorted(mine, key=lambda each: (each.recorded_ms, each.seq)):
            if each.event in ("added", "fired") or not lives:
                lives.append([])
            lives[-1].append(each)
        yield from map(_routed, lives)


def _routed(events: list[Event]) -> Row:
    def at(*names: str) -> list[int]:
        return [each.at_ms for each in events if each.event in names]

    def most(found: Iterable[str | None]) -> str | None:
        return max((each for each in found if each is not None), default=None)

    origin = most(each.event if each.event in ("added", "fired") else None for each in events)
    target = most(each.fields.get("target") for each in events if each.event == "added")
    crons = [
        each for each in events if each.event == "delayed" and each.fields.get("kind") == "cron"
    ]
    workers = sorted({each.worker for each in events if each.event == "active" and each.worker})
    ends = at("completed", "dead", "cancelled", "removed")
    due = min((int(each.fields["due"]) for each in crons), default=None)
    return (
        events[0].line,
        events[0].stream,
        max(each.queue for each in events),
        events[0].subject,
        origin,
        target,
        instant(min(at("waiting"), default=None)),
        instant(min(at("active"), default=None)),
        instant(max(ends, default=None)),
        workers,
        most(each.fields.get("cron") for each in crons),
        most(each.fields.get("timezone") for each in crons),
        instant(due),
        instant(events[0].recorded_ms),
        events[0].seq,
        instant(events[-1].recorded_ms),
        day(events[0].recorded_ms),
    )
