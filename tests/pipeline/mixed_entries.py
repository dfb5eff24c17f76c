"""Raw entries about jobs, files and visitors over some days, cut into rounds; always the same.

They are written into a store together with what the queues would hold by then: most open jobs are
in their queues, some are lost, and some were removed without an event.
"""

import base64
import datetime as dt
import json
import random
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from redis import Redis

from tests.pipeline import routing_stories, stories
from tests.pipeline.events_of_all import REASONS, events_of_files
from waystation.core.settings.section import Secret
from waystation.pipeline.payloads.rules import Action, PayloadSettings, Rule
from waystation.waitingroom.redis.keys import RoomKeys

START_MS = routing_stories.START_MS
HOUR, DAY = 3_600_000, 86_400_000
SPAN = 90 * HOUR
"""Nothing happens later than so long after the start."""
QUEUES = ("mail", "it's", 'Größe "x"', "back\\slash", "naïve, or not", "{tagged}")
ROOMS = ("{sale}", "{Jägerhof's}")
FILE_QUEUES = {"high": "jobqueue:high_priority", "low": "jobqueue:low_priority"}
STREAMS = {"files": "jobqueue:events", "routing": "bridge:events:stream"}
NOT_LISTED = {"bullmq": (0, 1), "routing": (0,), "files": (0,), "waitingroom": (0,)}
NO_DATA = (0, 2)
"""Of 53 jobs, those that no queue lists, and those whose data is gone."""
TRIMMED, LOST = (f"bull:{QUEUES[4]}:events", STREAMS["files"]), 7
"""Streams that lose entries before they are read, and how many each."""
ENDS = {"completed", "failed", "dead", "removed", "cancelled", "left", "expired"}
NO_JOB = {"joined", "lost", "paused", "resumed", "skipped", "progress", "refused", "kept"}
SEAL = Secret("new=" + base64.b64encode(bytes(range(32))).decode())
PAYLOADS = PayloadSettings(
    retain=36_500,
    limit=1024,
    fields={"tenant": "$.tenant", "amount": "$.amount"},
    keys=SEAL,
    rules=[
        Rule(action=Action.ENCRYPT, path="$.email", queue="it's"),
        Rule(action=Action.HASH, path="$.email", queue="mail"),
        Rule(action=Action.DROP, path="$.card.number", queue="mail"),
        Rule(action=Action.DROP, pattern=r"\b[0-9]{16}\b", queue="Größe*"),
    ],
)


SESSION = {"reason": "session"}


class Entry(NamedTuple):
    """One entry of a stream, and what it is about."""

    stream: str
    at_ms: int
    """When it was written."""
    line: str
    queue: str
    subject: str | None
    event: str
    fields: Mapping[str, str]
    """All fields of the entry, as they are in the stream."""
    id: str = ""
    is_lost: bool = False
    """Whether it is trimmed before anybody reads it."""

    @property
    def whose(self) -> tuple[str, str, str]:
        return self.line, self.queue, self.subject or ""


class Round(NamedTuple):
    """Entries that are in the streams when a round begins, and the store's clock at that time."""

    entries: list[Entry]
    clock_ms: int


def rounds(many: int, parts: int, seed: int = 20260301) -> list[Round]:
    """About so many entries, cut into rounds; in the last one nothing is new."""
    dice = random.Random(seed)
    streams: dict[str, list[Entry]] = {}
    for each in sorted(_entries(dice, many), key=lambda each: (each.at_ms, each.stream)):
        if each.at_ms < START_MS + SPAN:
            streams.setdefault(each.stream, []).append(each)
    numbered = {stream: _numbered(entries) for stream, entries in streams.items()}
    clocks = _clocks([each for entries in numbered.values() for each in entries], parts - 1)
    # Streams of other products are cut at places of their own, as if clocks differed.
    cuts = {
        stream: [0, *sorted(dice.choices(range(len(entries) + 1), k=parts - 2)), len(entries)]
        if entries[0].line != "bullmq"
        else [0, *(sum(each.at_ms < clock for each in entries) for clock in clocks), len(entries)]
        for stream, entries in numbered.items()
    }
    made: list[Round] = []
    for part, clock_ms in enumerate(clocks):
        mine = [
            each
            for stream, entries in numbered.items()
            for each in entries[cuts[stream][part] : cuts[stream][part + 1]]
        ]
        made.append(Round(_trimmed(mine) if part else mine, clock_ms))
    return [*made, Round([], clocks[-1] + 1_000)]


def write(store: Redis, given: Sequence[Round], nth: int) -> None:
    """Bring the streams and the queues of a store to where they are when a round begins."""
    before = [each for one in given[:nth] for each in one.entries]
    new = given[nth].entries
    line: Any = store.pipeline(transaction=False)
    for each in new:
        line.xadd(each.stream, dict(each.fields), id=each.id)
    for stream in {each.stream for each in new if each.is_lost}:
        kept = next(each.id for each in new if each.stream == stream and not each.is_lost)
        line.xtrim(stream, minid=kept, approximate=False)
    for queue, entries in _by_queue(new):
        _write_hashes(line, queue, entries, before)
    line.delete(*LISTS)
    for whose in sorted(in_queues([*before, *new])[0]):
        _list(line, *whose)
    line.execute()


def _clocks(entries: Sequence[Entry], many: int) -> list[int]:
    """The instants at which rounds begin: no job of BullMQ has an event then; the last is the end.

    Jobs that were removed without an event are found then, after all that is known of them.
    """
    jobs = sorted({each.at_ms for each in entries if each.line == "bullmq"})
    taken, clocks = set(jobs), list[int]()
    for nth in range(1, many):
        clock_ms = jobs[len(jobs) * nth // many]
        while clock_ms in taken:
            clock_ms += 1
        clocks.append(clock_ms)
    return [*clocks, max(each.at_ms for each in entries) + 1]


def _trimmed(entries: Sequence[Entry]) -> list[Entry]:
    """Entries of which the first few of some streams are lost."""
    many = Counter(each.stream for each in entries)
    left = {stream: LOST for stream in TRIMMED if many[stream] > LOST}
    made: list[Entry] = []
    for each in entries:
        is_lost = left.get(each.stream, 0) > 0
        if is_lost:
            left[each.stream] -= 1
        made.append(each._replace(is_lost=is_lost))
    return made


def _numbered(entries: Iterable[Entry]) -> list[Entry]:
    """Entries with their ids, which count up within a millisecond."""
    seqs: dict[int, int] = {}
    made: list[Entry] = []
    for each in entries:
        seq = seqs[each.at_ms] = seqs.get(each.at_ms, -1) + 1
        made.append(each._replace(id=f"{each.at_ms}-{seq}"))
    return made


def _entries(dice: random.Random, many: int) -> Iterator[Entry]:
    yield from _jobs(dice, many * 11 // 100)
    yield from _files(dice, many * 4 // 100)
    yield from _routed(dice, many * 2 // 100)
    for room in ROOMS:
        yield from _visitors(dice, room, many * 2 // 100)


def _jobs(dice: random.Random, jobs: int) -> Iterator[Entry]:
    """BullMQ: hours become days, and ids and names hold what a program might stumble over."""
    for story in stories.random_events(dice, jobs, queues=len(QUEUES)):
        queue = QUEUES[int(story.queue[1:])]
        number = int(story.subject)
        subject = (story.subject, f"jöb '{number}'", f"repeat:daily:{number}")[min(number % 40, 2)]
        subject = story.subject if number % 40 > 2 else subject
        at_ms = START_MS + story.at_ms * 12
        yield _of_job(queue, subject, at_ms, story)
        if story.event == "failed" and number % 3 == 0:
            # What fails for good may be set aside in the same instant.
            yield _bullmq(queue, subject, at_ms, "dead", {"reason": "set aside"})
    for number, queue in enumerate(QUEUES):
        at_ms = START_MS + dice.randrange(2 * DAY)
        yield _bullmq(queue, None, at_ms, "drained", {})
        yield _bullmq(queue, f"odd{number}", at_ms, "active", {"workerId": "", "prev": "waiting"})
        yield _bullmq(queue, f"odd{number}", at_ms + 5, "exploded", {"why": "'"})
        yield _bullmq(queue, f"odd{number}", at_ms + 7, "completed", {"attemptsMade": "many"})
        yield _bullmq(queue, f"gone{number}", at_ms, "added", {"name": "charge"})
        kept = {"name": "charge", "data": '{"tenant":"left"}', "opts": "{}"}
        yield _bullmq(queue, f"gone{number}", at_ms + 9, "kept", kept)
        yield _bullmq(queue, f"gone{number}", at_ms + 9, "removed", {"prev": "waiting"})


def _of_job(queue: str, subject: str, at_ms: int, story: stories.StoryEvent) -> Entry:
    fields = dict(story.fields)
    if "failedReason" in fields and zlib.crc32(subject.encode()) % 3 == 0:
        fields["failedReason"] = REASONS[at_ms % len(REASONS)]
    if story.attempt is not None:
        fields["attemptsMade"] = str(story.attempt)
    if story.worker is not None:
        fields["workerId"] = story.worker
    return _bullmq(queue, subject, at_ms, story.event, fields)


def _bullmq(
    queue: str, subject: str | None, at_ms: int, event: str, fields: Mapping[str, str]
) -> Entry:
    whose = {} if subject is None else {"jobId": subject}
    said = {"event": event, **whose, **fields}
    return Entry(f"bull:{queue}:events", at_ms, "bullmq", queue, subject, event, said)


def _files(dice: random.Random, files: int) -> Iterator[Entry]:
    for row in events_of_files(dice, files):
        row["recorded_at"] = row["at"] = stories.START + (row["recorded_at"] - stories.START) / 4
        queue = FILE_QUEUES[row["queue"]]
        if row["event"] == "dead" and dice.random() < 0.3:
            yield _enveloped(STREAMS["files"], {**row, "queue": queue, "event": "failed"})
        yield _enveloped(STREAMS["files"], {**row, "queue": queue})


def _routed(dice: random.Random, jobs: int) -> Iterator[Entry]:
    queues: dict[str, str] = {}
    for row in routing_stories.some_days(dice, days=3, jobs=jobs):
        row["queue"] = row["queue"] or queues.get(row["job_id"], "render")
        queues[row["job_id"]] = row["queue"]
        row["at"] = max(row["at"], stories.START - dt.timedelta(hours=2))
        if row["event"] == "dead":
            row["fields"] = [("error", dice.choice(REASONS)), ("type", "render")]
        if row["event"] == "removed":
            row |= {"fields": [("by", "purge")], "at": row["recorded_at"]}
        yield _enveloped(STREAMS["routing"], row)


def _visitors(dice: random.Random, room: str, many: int) -> Iterator[Entry]:
    for number in range(many):
        for at_ms, event, fields in _visit(dice, number):
            at = stories.START + dt.timedelta(milliseconds=at_ms)
            skewed = at - dt.timedelta(milliseconds=dice.choice([0, 0, 0, 40]))
            row = {"product": "waitingroom", "queue": room, "job_id": f"v{number}", "event": event}
            row |= {"recorded_at": at, "at": skewed, "fields": list(fields.items())}
            yield _enveloped(f"queue:{room}:events", row)


def _visit(dice: random.Random, number: int) -> Iterator[tuple[int, str, dict[str, str]]]:
    """One visitor from joining to the end, in one of many ways."""
    now = dice.randrange(3 * DAY)
    joined = {"lane": str(dice.randrange(4)), "seq": str(number), "network": f"n{number % 9}"}
    joined |= {"ahead": str(dice.randrange(400)), "rate": dice.choice(["0.5", "2.0", "0", "x"])}
    if dice.random() < 0.3:
        joined["model"] = "m7"
    if dice.random() < 0.03:
        yield now, "refused", {"lane": "0", "reason": "full"}
        return
    yield now, dice.choice(["waiting", "waiting", "delayed"]), joined
    while True:
        now += dice.randrange(1, 900_000)
        fate = dice.random()
        if fate < 0.05:
            return
        if fate < 0.15:
            yield now, "expired", {"reason": "silent"}
            return
        if fate < 0.2:
            yield now, "removed", {"by": "ada"}
            return
        if fate < 0.35:
            yield now, "left", {"reason": ""}
            if dice.random() < 0.6:
                return
            now += dice.randrange(1, 60_000)
            yield now, "recovered", {"reason": "left"}
            continue
        yield now, "admitted", {"seq": str(number)} if dice.random() < 0.5 else {}
        now += dice.randrange(1, 60_000)
        if fate < 0.5:
            yield now, "missed", {}
            if dice.random() < 0.4:
                return
            now += dice.randrange(1, 60_000)
            yield now, "recovered", {"reason": "missed"}
            continue
        yield now, "claimed", {"lane": joined["lane"]}
        now += dice.randrange(1, 2 * HOUR)
        if fate < 0.95:
            event = dice.choice(["completed", "expired", "cancelled"])
            yield now, event, {"completed": {"views": "3"}, "expired": SESSION}.get(event, {})
        return


def _enveloped(stream: str, row: Mapping[str, Any]) -> Entry:
    """An entry of our own envelope, from a row of the events table."""
    at_ms = round(row["recorded_at"].timestamp() * 1000)
    said = {"v": "1", "line": row["product"], "queue": row["queue"], "event": row["event"]}
    said["at"] = str(round(row["at"].timestamp() * 1000))
    for name, column in (("subject", "job_id"), ("attempt", "attempt"), ("worker", "worker")):
        if row.get(column) is not None:
            said[name] = str(row[column])
    said |= dict(row["fields"])
    whose = row["product"], row["queue"], row["job_id"], row["event"]
    return Entry(stream, at_ms, *whose, said)


def in_queues(
    entries: Sequence[Entry],
) -> tuple[set[tuple[str, str, str]], set[tuple[str, str, str]]]:
    """What the queues list after these entries, and the jobs of BullMQ whose data is there."""
    last = {_place(each): each for each in entries if each.subject and each.event not in NO_JOB}
    listed = {
        whose
        for whose, each in last.items()
        if each.event not in ENDS and _chance(*whose[1:]) % 53 not in NOT_LISTED[whose[0]]
    }
    kept = {whose for whose, each in last.items() if each.line == "bullmq" and has_data(each)}
    return listed, kept


def has_data(last: Entry) -> bool:
    """Whether the hash of a job is there after its last event."""
    chance = _chance(last.queue, last.subject or "")
    is_swept = last.event in ENDS and chance % 5 == 0
    return not (chance % 53 in NO_DATA or is_swept or last.event == "removed")


def _place(each: Entry) -> tuple[str, str, str]:
    """Whose it is in the store: routing has one list for all queues."""
    return (each.line, "", each.subject or "") if each.line == "routing" else each.whose


def _by_queue(entries: Sequence[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    for queue in QUEUES:
        if mine := [each for each in entries if each.line == "bullmq" and each.queue == queue]:
            yield queue, mine


def _chance(*words: str) -> int:
    return zlib.crc32("\0".join(words).encode())


def _write_hashes(line: Any, queue: str, entries: list[Entry], before: list[Entry]) -> None:
    """The jobs of a queue as they are after these events; some have been removed since."""
    born = {each.subject: each.at_ms for each in before if _is_birth(each, queue)}
    for each in entries:
        subject = each.subject
        if not subject or each.event in NO_JOB:
            continue
        if _is_birth(each, queue):
            born[subject] = each.at_ms
        key, chance = f"bull:{queue}:{subject}", _chance(queue, subject)
        is_over = each.event in ENDS
        if not has_data(each):
            line.delete(key)
            continue
        line.hset(key, mapping=_hash_of(subject, born.get(subject, each.at_ms), chance))
        if is_over:
            said = {"finishedOn": str(each.at_ms), "attemptsMade": "1"}
            said |= {"returnvalue": '{"card":{"number":"4111"},"done":true}', "progress": "50"}
            if each.event == "failed":
                said |= {"failedReason": each.fields["failedReason"], "stacktrace": '["at x"]'}
            line.hset(key, mapping=said)
            line.delete(f"{key}:logs")
            if chance % 7 == 0:
                line.rpush(f"{key}:logs", "begun 1234567890123456", "done")


def _is_birth(each: Entry, queue: str) -> bool:
    return each.line == "bullmq" and each.queue == queue and each.event == "added"


def _hash_of(subject: str, born_ms: int, chance: int) -> dict[str, str]:
    data = {
        "tenant": f"t{chance % 7}",
        "email": f"{subject}@example.org",
        "card": {"number": "4111111111111111", "name": "Ünï"},
        "amount": chance % 1000,
        "note": "x" * (2000 if chance % 211 == 0 else 3),
    }
    said = {"name": "charge", "data": json.dumps(data, ensure_ascii=False)}
    options = {"attempts": 3, "group": {"id": f"g{chance % 3}"}} if chance % 4 == 0 else {}
    said |= {"opts": json.dumps(options), "timestamp": str(born_ms), "delay": str(chance % 2 * 500)}
    return {**said, "priority": str(chance % 5), "rjk": "daily"} if chance % 6 == 0 else said


LISTS = (
    *(f"bull:{queue}:wait" for queue in QUEUES),
    "bridge:jobs:waiting",
    *FILE_QUEUES.values(),
    *(RoomKeys(room).positions for room in ROOMS),
)


def _list(line: Any, product: str, queue: str, subject: str) -> None:
    """Put something into its queue."""
    if product == "bullmq":
        line.rpush(f"bull:{queue}:wait", subject)
    elif product == "routing":
        line.rpush("bridge:jobs:waiting", subject)
    elif product == "files":
        line.rpush(queue, json.dumps({"id": subject, "filepath": f"/data/{subject}"}))
    else:
        line.zadd(RoomKeys(queue).positions, {subject: 1})
