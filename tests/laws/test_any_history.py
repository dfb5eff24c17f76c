"""Any JSON in any member of any entry and any key that a history reads: stored, and asked about."""

import itertools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from redis import Redis

from tests.bullmq.test_odd_json import odd_jobs
from tests.laws.any_json import TEXTS
from tests.pipeline.rounds import history_at
from waystation.cli.root import run
from waystation.core.line.forecasts import FailureLabels, Slo, key_of
from waystation.core.store.keyspace import is_name
from waystation.pipeline import runner
from waystation.pipeline.payloads.rules import PayloadSettings
from waystation.pipeline.sources.streams import EventOptions

pytestmark = [pytest.mark.slow, pytest.mark.full]

STEP = 1 if os.environ.get("WAYSTATION_FULL") else 5
"""One of so many odd entries is written: each member, and each text, is odd in some of them."""
Entry: TypeAlias = dict[str, str]
STREAMS = {
    "bullmq": "bull:mail:events",
    "routing": "bridge:events:stream",
    "files": "jobqueue:events",
    "waitingroom": "queue:{sale}:events",
}
_OURS = {"v": "1", "attempt": "1", "worker": "w"}
LIVES: dict[str, list[Entry]] = {
    "bullmq": [
        {"event": "added", "name": "send"},
        {"event": "active", "prev": "waiting", "workerId": "w", "attemptsMade": "1"},
        {"event": "failed", "failedReason": "no", "prev": "active"},
    ],
    "routing": [
        {**_OURS, "event": "added", "queue": "render", "targets": "{}"},
        {**_OURS, "event": "active", "queue": "render"},
        {**_OURS, "event": "retry", "queue": "render", "reason": "no", "error": "E", "delay": "5"},
        {**_OURS, "event": "cancelled", "queue": "render", "data": '{"payload":{"tenant":"a"}}'},
    ],
    "files": [
        {**_OURS, "event": "waiting", "queue": "low", "path": "/a/b.txt", "size": "3"},
        {**_OURS, "event": "active", "queue": "low"},
        {**_OURS, "event": "dead", "queue": "low", "reason": "no", "error": "E", "data": "{}"},
    ],
    "waitingroom": [
        {**_OURS, "event": "added", "queue": "{sale}", "lane": "0", "ahead": "1", "seq": "1"},
        {**_OURS, "event": "admitted", "queue": "{sale}", "rate": "2", "waited": "9"},
        {**_OURS, "event": "claimed", "queue": "{sale}", "session": "s"},
    ],
}
"""The events of a job, a file and a visitor."""
NAMES = ["a{b", "}", "{}", ".", "..", "x" * 600, "'\"`;--", "a b", "größe", "\n", "%s", "*", "[x]"]
"""Queues that another client may make; some have names that ours cannot have."""
MEMBERS = ("line", "at", "subject", "jobId", "", "returnvalue", "data", "delay", "name")
"""Members that most entries may have, whatever their event."""


def life_of(line: str, number: int, entries: Iterable[Entry]) -> Iterator[Entry]:
    """A life as the product writes it."""
    for each in entries:
        who = {"jobId": f"{number}"} if line == "bullmq" else {"line": line, "subject": f"{number}"}
        yield {**each, **who}


def odd_lives(line: str) -> Iterator[Entry]:
    """A life for each member and each text in it, in one entry or the other."""
    names = dict.fromkeys((*itertools.chain(*LIVES[line]), *MEMBERS))
    pairs = itertools.product(names, TEXTS)
    for number, (name, text) in enumerate(itertools.islice(pairs, 0, None, STEP), 1):
        life = list(life_of(line, number, LIVES[line]))
        life[number % len(life)][name] = text
        yield from life


def odd_data() -> Iterator[bytes]:
    """Any JSON as a job of routing or files, and as each member of it that is read."""
    for text in TEXTS:
        for whole in (
            "{}",
            '{{"payload":{}}}',
            '{{"createdAt":{},"payload":1}}',
            '{{"tenant":{}}}',
        ):
            yield whole.format(text).encode("utf-8", "surrogatepass")


def fill(client: Redis) -> int:
    """Write such entries, and what they are about; returns how many."""
    written = 0
    pipe = client.pipeline(transaction=False)
    for line, stream in STREAMS.items():
        for entry in (*odd_lives(line), *life_of(line, 999_999, LIVES[line])):
            flat = [
                part.encode("utf-8", "surrogatepass") for pair in entry.items() for part in pair
            ]
            pipe.execute_command("XADD", stream, "*", *flat)
            written += 1
    for at, fields in enumerate(itertools.islice(odd_jobs(), 0, None, STEP)):
        pipe.execute_command("HSET", f"bull:jobs:o{at}", *itertools.chain(*fields.items()))
        for event in ("added", "completed"):
            pipe.xadd("bull:jobs:events", {"event": event, "jobId": f"o{at}"})
            written += 1
    for at, raw in enumerate(itertools.islice(odd_data(), 0, None, STEP)):
        pipe.set(f"bridge:jobs:data:o{at}", raw)
        read: dict[str, Any] = {"v": "1", "line": "routing", "queue": "render", "subject": f"o{at}"}
        last: dict[str, Any] = {**read, "event": "completed", "subject": f"e{at}", "data": raw}
        pipe.xadd(STREAMS["routing"], {**read, "event": "added"})
        pipe.xadd(STREAMS["routing"], {**last})
        pipe.xadd(STREAMS["files"], {**last, "line": "files", "queue": "low"})
        written += 3
    for name, text in zip(NAMES, TEXTS, strict=False):
        for entry in life_of("bullmq", 1, LIVES["bullmq"]):
            pipe.xadd(f"bull:{name}:events", {**entry})
            written += is_name(name)
        pipe.hset(f"bull:{name}:meta", "opts.maxLenEvents", text.encode("utf-8", "surrogatepass"))
        pipe.hset(f"bull:{name}:meta", "history", text.encode("utf-8", "surrogatepass"))
    pipe.execute()
    return written


QUESTIONS = [
    ("status",), ("status", "--json"), ("report",), ("report", "--json"), ("queues",),
    ("queues", "--jobs", "--json"), ("find", "1", "o3"),
    ("find", "--queue", "jobs", "--most", "9999"),
    ("find", "--queue", "jobs", "--path", "$.a=1"), ("find", "--state", "failed", "--json"),
    ("find", "--where", "data->>'$.a' = '1' or result->>'$.a' = '1'"),
    ("find", "--where", "run_ms > 5 or contains(data, 'x')", "--json"),
    ("costs", "--by", "tenant"), ("find", "--field", "tenant=a", "--json"),
    ("sql", "select * from items", "--json"), ("sql", "select * from payloads"),
    ("sql", "select * from jobs"), ("sql", "select * from failures", "--json"),
    ("sql", "select max(recorded_at), min(recorded_at), max(date) from events"),
]  # fmt: skip


@pytest.mark.timeout(900)
def test_whatever_is_in_the_streams_is_stored_and_can_be_asked_about(
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = str(tmp_path / "history")
    with Redis.from_url(redis_url) as client:
        written = fill(client)
        streams = EventOptions(url=redis_url)
        kept = PayloadSettings(fields={"tenant": "$.tenant"})
        ran = runner.run(history_at(root), runner.RunOptions(events=streams, payloads=kept))
        assert ran.events == written
        assert not ran.failed_checks
        # Those of a queue with good events, however odd the others are.
        assert client.exists(key_of(Slo, "mail"), key_of(FailureLabels, "mail")) == 2
    monkeypatch.setenv("WAYSTATION_STORE__URL", redis_url)
    monkeypatch.setenv("WAYSTATION_PIPELINE__HISTORY", root)
    for words in (*(("pipeline", *each) for each in QUESTIONS), ("redrive", "--queue", "jobs")):
        ask(words, capsys)


def ask(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """A question has an answer: rows, or that there are none."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        run([*words])
    out, err = capsys.readouterr()
    assert ended.value.code in (None, 0, 1), (words, err)
    assert out or "no such job" in err, (words, err)
    assert "should not happen" not in err, (words, err)
