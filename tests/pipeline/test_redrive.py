"""Jobs of the history are added to their queues again: once each, and not while they fail."""

import datetime as dt
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias, cast

import msgspec
import pytest
from redis import Redis

from tests.pipeline.ask import lakes
from tests.support.patience import LIMIT_S
from waystation.cli import root as cli
from waystation.core.errors import InvalidInput, InvalidOption
from waystation.pipeline.ask.engine import Engine
from waystation.pipeline.ask.selection import Selection
from waystation.pipeline.payloads.rules import Sealer
from waystation.pipeline.redrive import Plan, Redrive, RedriveOptions, name_of, plan
from waystation.pipeline.sources.store import Store

JOBS = 60
FAILED = Selection(queue="mail", failure="f1")
FAST = RedriveOptions(canary=5, cap=10, poll=0.01, patience=LIMIT_S)


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A history of failed jobs whose queue was cleaned."""
    lakes.keep(str(tmp_path / "history"), [failed(number) for number in range(JOBS)], batches=2)
    return str(tmp_path / "history")


def failed(number: int, **more: Any) -> dict[str, Any]:
    job = lakes.job(random.Random(number), number)
    fixed = {"queue": "mail", "job_id": str(number), "state": "failed", "gone": False}
    why = {"reason": "ValueError: bad order", "fingerprint": "f1", "result": None}
    return {**job, **fixed, **why, "data": {"n": number, "order": {"id": number}}, **more}


def planned(place: str, selection: Selection = FAILED, name: str = "test") -> Plan:
    with Engine(place, threads=1) as engine:
        return plan(engine, selection, name=name, sealer=Sealer(None))


Fails: TypeAlias = Callable[[int], bool]


def never(number: int) -> bool:
    return False


class Worker(threading.Thread):
    """Ends every job that waits, as a script of a worker would; some of them badly."""

    def __init__(self, store: Redis, fails: Fails = never, prefix: str = "bull") -> None:
        super().__init__(daemon=True)
        self._store = store
        self._fails = fails
        self._base = f"{prefix}:mail:"
        self._ended = threading.Event()
        self.ran: Counter[int] = Counter()
        self.most_waiting = 0

    def run(self) -> None:
        while not self._ended.is_set():
            waiting = self._store.llen(f"{self._base}wait")
            self.most_waiting = max(self.most_waiting, waiting)
            if not waiting:
                self._ended.wait(0.005)
                continue
            id = cast(bytes, self._store.rpop(f"{self._base}wait")).decode()
            fields = cast(dict[bytes, bytes], self._store.hgetall(f"{self._base}{id}"))
            number = msgspec.json.decode(fields[b"data"])["n"]
            self.ran[number] += 1
            state = "failed" if self._fails(number) else "completed"
            if state == "failed":
                self._store.hset(f"{self._base}{id}", "failedReason", "ValueError: again")
                self._store.zadd(f"{self._base}{state}", {id: 1})
            else:
                # As BullMQ does: the option of the job counts before that of the worker.
                assert msgspec.json.decode(fields[b"opts"])["removeOnFail"] is False
                assert msgspec.json.decode(fields[b"opts"])["removeOnComplete"] is not True
                self._store.zadd(f"{self._base}{state}", {id: 1})

    def end(self) -> None:
        self._ended.set()
        self.join(LIMIT_S)


@contextmanager
def working(store: Redis, fails: Fails = never, prefix: str = "bull") -> Generator[Worker]:
    worker = Worker(store, fails, prefix)
    worker.start()
    try:
        yield worker
    finally:
        worker.end()


def test_all_failed_jobs_run_again_with_their_data_and_options(
    store: Redis, redis_url: str, place: str
) -> None:
    found = planned(place)
    assert (len(found.jobs), found.impossible) == (JOBS, {})
    with working(store) as worker:
        outcome = Redrive(Store(redis_url), found, FAST).run()
    assert outcome == (JOBS, JOBS, 0, 0, 0, 0, "", ())
    assert worker.ran == Counter(range(JOBS))
    assert worker.most_waiting <= FAST.cap
    # Started again it adds nothing.
    assert Redrive(Store(redis_url), found, FAST).run() == outcome
    assert worker.ran == Counter(range(JOBS))


def test_any_starts_of_one_name_add_the_union_of_their_jobs_each_once(
    store: Redis, redis_url: str, place: str
) -> None:
    dice, whole = random.Random(7), planned(place)
    fails_once = {3, 17, 40}
    wanted: set[str] = set()

    def fails(number: int) -> bool:
        return number in fails_once and worker.ran[number] == 1

    with working(store, fails) as worker:
        for _ in range(8):
            # Another selection, another `--most`, and a driver that gives up in the middle.
            some = [each for each in whole.jobs if dice.random() < 0.4][: dice.randrange(1, 30)]
            part = msgspec.structs.replace(whole, jobs=some)
            outcome = Redrive(Store(redis_url), part, FAST).run()
            for _ in fails_once:
                if outcome.stopped:
                    outcome = Redrive(Store(redis_url), part, FAST).run()
            assert not outcome.stopped
            wanted |= {each.id for each in some}
            # A job counts as added when it is there.
            there = [each for each in some if store.exists(f"bull:mail:{each.id}")]
            assert len(there) == outcome.added == outcome.completed == len(some)
    keys = cast(list[bytes], store.keys("bull:mail:redrive-*"))
    assert {key.decode().removeprefix("bull:mail:") for key in keys} == wanted
    numbers = {msgspec.json.decode(e.data)["n"] for e in whole.jobs if e.id in wanted}
    assert worker.ran == Counter({n: 2 if n in fails_once else 1 for n in numbers})


def test_a_job_that_somebody_removes_is_not_counted_as_completed(
    store: Redis, redis_url: str, place: str
) -> None:
    found = planned(place)

    def clean() -> None:
        while store.llen("bull:mail:wait") < 5:
            threading.Event().wait(0.005)
        store.delete("bull:mail:wait", *cast(list[bytes], store.keys("bull:mail:redrive-*")))

    cleaning = threading.Thread(target=clean)
    cleaning.start()
    outcome = Redrive(Store(redis_url), found, FAST).run()
    cleaning.join(LIMIT_S)
    assert (outcome.completed, outcome.gone, outcome.left) == (0, 5, JOBS - 5)
    assert "5 of the canary were removed" in outcome.stopped
    # Started again it goes on with the others, after a canary of its own.
    with working(store) as worker:
        outcome = Redrive(Store(redis_url), found, FAST).run()
    assert (outcome.completed, outcome.gone, outcome.stopped) == (JOBS - 5, 5, "")
    assert sum(worker.ran.values()) == JOBS - 5


def test_it_goes_on_when_what_it_had_completed_was_removed_for_its_age(
    store: Redis, redis_url: str, place: str
) -> None:
    found = planned(place)
    first = msgspec.structs.replace(found, jobs=found.jobs[:7])
    with working(store) as worker:
        assert Redrive(Store(redis_url), first, FAST).run().completed == 7
        store.delete("bull:mail:completed", *cast(list[bytes], store.keys("bull:mail:redrive-*")))
        outcome = Redrive(Store(redis_url), found, FAST).run()
    assert (outcome.completed, outcome.gone, outcome.stopped) == (JOBS - 7, 7, "")
    assert worker.ran == Counter(range(JOBS))


def test_started_again_it_goes_on_where_it_was_and_adds_nothing_twice(
    store: Redis, redis_url: str, place: str
) -> None:
    found = planned(place)

    class KilledError(Exception):
        pass

    lines: list[str] = []

    def die_soon(text: str) -> None:
        lines.append(text)
        if len(lines) % 3 == 0:
            raise KilledError

    with working(store) as worker:
        for _ in range(1000):
            try:
                outcome = Redrive(Store(redis_url), found, FAST, tell=die_soon).run()
                break
            except KilledError:
                continue
        else:
            pytest.fail("it never came to an end")
    assert len(lines) > 3
    assert (outcome.completed, outcome.left) == (JOBS, 0)
    assert worker.ran == Counter(range(JOBS))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_driver_that_is_killed_again_and_again_adds_every_job_once(
    store: Redis, redis_url: str, place: str
) -> None:
    command = [sys.executable, "-m", "waystation", "redrive", "--failure", "f1", "--go"]
    command += ["--canary", "3", "--cap", "20", "--since", "3650d"]
    environment = {
        **os.environ,
        "WAYSTATION_STORE__URL": redis_url,
        "WAYSTATION_PIPELINE__HISTORY": place,
    }
    with working(store) as worker:
        for goal in (1, 15):
            with subprocess.Popen(
                command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            ) as driver:
                # Killed once so many jobs have run.
                while driver.poll() is None and sum(worker.ran.values()) < goal:
                    threading.Event().wait(0.005)
                driver.send_signal(signal.SIGKILL)
        last = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert last.returncode == 0, last.stderr
    assert worker.ran == Counter(range(JOBS))


def test_a_canary_that_fails_again_stops_it(store: Redis, redis_url: str, place: str) -> None:
    with working(store, fails=lambda number: number % 2 == 0) as worker:
        outcome = Redrive(Store(redis_url), planned(place), FAST).run()
    # Judged when all of it had ended, and nothing else was added.
    assert (outcome.added, outcome.open, outcome.left) == (5, 0, JOBS - 5)
    assert outcome.failed > 0
    assert outcome.failed + outcome.completed == 5
    assert "of the canary failed again" in outcome.stopped
    assert outcome.reasons == ("ValueError: again",)
    assert sum(worker.ran.values()) == 5
    # Started again when the cause is fixed, it goes on: with those that had failed, too.
    with working(store) as mended:
        assert Redrive(Store(redis_url), planned(place), FAST).run().completed == JOBS
    assert sum(mended.ran.values()) == JOBS - 5 + outcome.failed


def test_a_relapse_after_the_canary_stops_it(store: Redis, redis_url: str, place: str) -> None:
    found = planned(place)
    good = {msgspec.json.decode(each.data)["n"] for each in found.jobs[:5]}
    options = msgspec.structs.replace(FAST, tolerate=2)
    with working(store, fails=lambda number: number not in good) as worker:
        outcome = Redrive(Store(redis_url), found, options).run()
    assert "jobs failed again" in outcome.stopped
    assert outcome.left > 0
    # No more than what was under way when the third failed.
    assert sum(worker.ran.values()) <= 5 + 2 * FAST.cap + 2
    # Started again while the cause is there, no more than a canary meets it.
    assert outcome.failed + outcome.open > 5
    with working(store, fails=lambda number: number not in good) as later:
        again = Redrive(Store(redis_url), found, msgspec.structs.replace(FAST, canary=2)).run()
    assert "of the canary failed again" in again.stopped
    assert again.added == outcome.added
    assert sum(later.ran.values()) - outcome.open <= 2


def test_a_canary_that_nobody_runs_ends_the_wait_and_adds_no_more(
    store: Redis, redis_url: str, place: str
) -> None:
    options = msgspec.structs.replace(FAST, patience=0.05)
    outcome = Redrive(Store(redis_url), planned(place), options).run()
    assert (outcome.added, outcome.open) == (5, 5)
    assert "start again to go on" in outcome.stopped
    with working(store) as worker:
        assert Redrive(Store(redis_url), planned(place), FAST).run().completed == JOBS
    assert worker.ran == Counter(range(JOBS))


def test_jobs_whose_data_is_not_whole_are_counted_and_left(tmp_path: Path) -> None:
    place = str(tmp_path / "history")
    jobs = [failed(0), failed(1, gone=True)]
    jobs.append(failed(2, data={"n": 2, "order": {"id": 2}}, form="changed"))
    sealed = Sealer("k1=AAAAAAAAAAAAAAAAAAAAAA==").encrypted("x")
    data = {"n": 3, "note": sealed, "order": {"id": 3}}
    jobs.append(failed(3, data=data, form="encrypted", name=f"to {sealed} enc::1e2"))
    # No text in the data means anything.
    texts = {"n": 4, "hashed": "hash:00ff", "sealed": sealed, "order": {"id": 4}}
    jobs.append(failed(4, data=texts))
    # What is missing besides the data is no reason.
    jobs += [failed(5, cleaned=True), failed(6, left_out="result has 70000 bytes")]
    lakes.keep(place, jobs, batches=1)
    found = planned(place)
    assert sorted(each.job_id for each in found.jobs) == ["0", "4", "5", "6"]
    (plain,) = [each for each in found.jobs if each.job_id == "4"]
    assert msgspec.json.decode(plain.data) == texts
    assert sorted(found.impossible) == [
        "a rule has changed its data, name or options",
        "a value was encrypted with the key 'k1', which is not in keys",
        "no data: it was removed before it could be read",
    ]
    with Engine(place) as engine:
        sealer = Sealer("k1=AAAAAAAAAAAAAAAAAAAAAA==")
        opened = plan(engine, FAILED, name="test", sealer=sealer)
    (one,) = [each for each in opened.jobs if each.job_id == "3"]
    assert msgspec.json.decode(one.data)["note"] == "x"
    assert one.name == "to x enc:1e2"


def test_a_job_that_cannot_be_opened_is_counted_and_the_others_go(tmp_path: Path) -> None:
    place = str(tmp_path / "history")
    deep: Any = "x"
    for _ in range(800):
        deep = [deep]
    jobs = [failed(0), failed(1, data={"n": 1, "order": {"id": deep}}, form="encrypted")]
    lakes.keep(place, jobs, batches=1)
    found = planned(place)
    assert [each.job_id for each in found.jobs] == ["0"]
    assert found.impossible == {"its data has too many levels": 1}


def test_a_redrive_leaves_out_its_own_jobs_and_no_others(tmp_path: Path) -> None:
    place, digest = str(tmp_path / "history"), "0123456789abcdef"
    names = (f"redrive-a-{digest}", f"redrive-a-b-{digest}", "redrive-a-", "redrive-a-mail")
    lakes.keep(place, [failed(n, job_id=name) for n, name in enumerate(names)], batches=1)
    assert sorted(each.job_id for each in planned(place, name="a").jobs) == sorted(names[1:])


def test_a_redrive_has_one_name_and_a_name_one_form(place: str) -> None:
    assert name_of(FAILED) == name_of(Selection(queue="mail", failure="f1"))
    assert name_of(FAILED) != name_of(FAILED, "other")
    # "24h ago" is another instant when a driver that was killed is started again.
    ago = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    assert name_of(msgspec.structs.replace(FAILED, since=ago)) == name_of(FAILED)
    for name in ("", "a:b", "a" * 41):
        with pytest.raises(InvalidOption, match="name must be"):
            planned(place, name=name)
    with pytest.raises(InvalidInput, match="chooses jobs"):
        planned(place, Selection())


def test_by_default_it_only_says_what_it_would_do(
    store: Redis,
    redis_url: str,
    place: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WAYSTATION_STORE__URL", redis_url)
    monkeypatch.setenv("WAYSTATION_PIPELINE__HISTORY", place)
    with pytest.raises(SystemExit) as ended:
        cli.run(["redrive", "--queue", "mail", "--where", "(data->>'$.n')::int < 7"])
    assert not ended.value.code
    said = capsys.readouterr().out
    assert ": 7 jobs" in said
    assert "nothing was added" in said
    assert store.dbsize() == 0


def test_a_sandbox_tries_some_jobs_once_and_leaves_the_queues_alone(
    store: Redis,
    redis_url: str,
    place: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WAYSTATION_STORE__URL", redis_url)
    monkeypatch.setenv("WAYSTATION_PIPELINE__HISTORY", place)

    def tried(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            cli.run(["redrive", "--failure", "f1", "--sandbox", "trial", *words])
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out + err

    assert "nothing was added" in tried()[1]
    assert store.dbsize() == 0
    subjects = [each.job_id for each in planned(place).jobs[:10]]
    with working(store, fails=lambda number: number == int(subjects[3]), prefix="trial") as worker:
        code, said = tried("--go")
        assert code == 1
        assert "10 added, 9 completed, 1 failed again, 0 open, 0 not added" in said
        assert "ValueError: again" in said
        assert "stopped: 1 failed again in the sandbox" in said
        assert worker.ran == Counter(map(int, subjects))
        # Every start is another trial, and a failure may be expected.
        code, said = tried("--go", "--most", "4", "--tolerate", "1")
        assert code == 0, said
        assert "4 added, 3 completed, 1 failed again" in said
    keys = cast(list[bytes], store.keys("*"))
    assert keys
    assert all(key.startswith(b"trial:") for key in keys)
    (one,) = [key for key in keys if key.startswith(b"trial:mail:redrive-")][:1]
    assert b'"attempts":1' in cast(bytes, store.hget(one.decode(), "opts"))


def test_jobs_are_added_under_the_prefix_of_the_settings(
    store: Redis,
    redis_url: str,
    place: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WAYSTATION_STORE__URL", redis_url)
    monkeypatch.setenv("WAYSTATION_BULLMQ__PREFIX", "shop")
    monkeypatch.setenv("WAYSTATION_PIPELINE__HISTORY", place)

    def ended_with(*words: str) -> int:
        with pytest.raises(SystemExit) as ended:
            cli.run(["redrive", "--failure", "f1", "--most", "7", "--go", *words])
        return int(ended.value.code or 0)

    with working(store, prefix="shop") as worker:
        assert ended_with() == 0, capsys.readouterr()
    assert worker.ran.total() == 7
    keys = cast(list[bytes], store.keys("*"))
    assert all(key.startswith(b"shop:") for key in keys)
    assert ended_with("--sandbox", "shop") == 2
    assert "other than shop" in capsys.readouterr().err


@pytest.mark.parametrize("prefix", ["bull", "a:b", "-"])
def test_a_sandbox_is_a_place_of_its_own(
    place: str, prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.run(["redrive", "--failure", "f1", "--sandbox", prefix, "--history", place])
    assert ended.value.code == 2
    assert "the sandbox must be a prefix" in capsys.readouterr().err
