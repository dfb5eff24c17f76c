import subprocess
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families

from tests.support.programs import require_program
from tests.support.project import ROOT
from waystation.core.breaker import State
from waystation.core.errors import InvalidInput, LeaseLost, TimedOut
from waystation.core.telemetry.metrics import (
    BREAKER_STATE,
    MOST_VALUES,
    OTHER,
    Instrument,
    Metrics,
    declared,
    reason_of,
)
from waystation.waitingroom.metrics import RoomMetrics

FILES_SPEC = {
    "jobs_produced_total": ("queue",),
    "jobs_consumed_total": ("queue",),
    "jobs_completed_total": ("queue",),
    "jobs_failed_total": ("queue", "reason"),
    "jobs_retried_total": ("queue",),
    "jobs_dead_letter_total": ("queue",),
    "job_processing_duration_seconds": ("queue",),
    "queue_length": ("queue",),
    "circuit_breaker_state": ("queue",),
    "reaper_jobs_moved_total": (),
    "log_rejected_keys_total": (),
}


def samples(metrics: Metrics) -> dict[tuple[str, tuple[str, ...]], float]:
    families = text_string_to_metric_families(metrics.expose().decode())
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


def touch_everything(metrics: Metrics) -> None:
    for instrument in declared():
        child = getattr(metrics, find_attribute(instrument.name)).of(
            *(f"some {label}" for label in instrument.labels)
        )
        use: Callable[[float], None] = getattr(child, "observe", None) or child.inc
        use(1)


def find_attribute(name: str) -> str:
    return next(a for a, i in vars(Metrics).items() if getattr(i, "name", None) == name)


def test_the_table_has_the_agreed_names_and_labels() -> None:
    table = {instrument.name: instrument.labels for instrument in declared()}
    assert {name: table[name] for name in FILES_SPEC} == FILES_SPEC


def test_every_instrument_says_what_it_means() -> None:
    for instrument in declared():
        assert instrument.meaning.endswith("."), instrument.name


@pytest.mark.parametrize("table", [Metrics, RoomMetrics])
def test_every_instrument_measures_something(table: type) -> None:
    sources = [path.read_text() for path in (ROOT / "src").rglob("*.py")]
    names = [name for name, value in vars(table).items() if isinstance(value, Instrument)]
    assert names
    for name in names:
        assert any(f"metrics.{name}.of(" in text for text in sources), name


def test_what_is_counted_is_exposed() -> None:
    metrics = Metrics()
    metrics.jobs_completed.of("mail").inc(3)
    metrics.jobs_failed.of("mail", "TIMED_OUT").inc()
    metrics.job_processing.of("mail").observe(0.2)
    metrics.circuit_breaker_state.of("mail").set(BREAKER_STATE[State.OPEN])
    metrics.reaper_jobs_moved.of().inc(2)
    values = samples(metrics)
    assert values["jobs_completed_total", ("mail",)] == 3
    assert values["jobs_failed_total", ("mail", "TIMED_OUT")] == 1
    assert values["job_processing_duration_seconds_count", ("mail",)] == 1
    assert values["circuit_breaker_state", ("mail",)] == 2
    assert values["reaper_jobs_moved_total", ()] == 2


def test_the_page_holds_no_creation_times() -> None:
    metrics = Metrics()
    touch_everything(metrics)
    assert b"_created" not in metrics.expose()


def test_asking_again_gives_the_same_child() -> None:
    metrics = Metrics()
    assert metrics.jobs_completed.of("mail") is metrics.jobs_completed.of("mail")


def test_two_sets_of_instruments_do_not_meet() -> None:
    one, other = Metrics(), Metrics()
    one.jobs_completed.of("mail").inc()
    assert ("jobs_completed_total", ("mail",)) not in samples(other)


def test_instruments_may_live_in_a_registry_of_the_host() -> None:
    registry = CollectorRegistry()
    Counter("tickets", "Sold.", registry=registry).inc()
    assert b"tickets_total 1.0" in Metrics(registry).expose()


@given(st.lists(st.text(), max_size=300), st.lists(st.text(), max_size=300))
def test_no_label_ever_takes_more_than_fifty_values(queues: list[str], reasons: list[str]) -> None:
    metrics = Metrics()
    for queue, reason in zip(queues, reasons, strict=False):
        metrics.jobs_failed.of(queue, reason).inc()
    seen = [labels for name, labels in samples(metrics) if name == "jobs_failed_total"]
    assert len({labels[0] for labels in seen}) <= MOST_VALUES
    assert len({labels[1] for labels in seen}) <= MOST_VALUES


def test_a_thousand_queues_are_fifty_labels_and_nothing_is_uncounted() -> None:
    metrics = Metrics()
    for number in range(1000):
        metrics.jobs_completed.of(f"queue-{number}").inc()
    counts = {k[1][0]: v for k, v in samples(metrics).items() if k[0] == "jobs_completed_total"}
    assert len(counts) == MOST_VALUES
    assert counts[OTHER] == 1000 - (MOST_VALUES - 1)
    assert sum(counts.values()) == 1000


def test_names_that_became_other_are_not_remembered() -> None:
    metrics = Metrics()
    tracemalloc.start()
    for number in range(5000):
        metrics.jobs_completed.of(f"{number:01000}").inc()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1_000_000


def test_only_allowed_queues_are_shown_by_name() -> None:
    metrics = Metrics(allow={"queue": ["high", "low"]})
    for queue in ("high", "low", "made-up"):
        metrics.queue_length.of(queue).set(7)
    shown = {labels for name, labels in samples(metrics) if name == "queue_length"}
    assert shown == {("high",), ("low",), (OTHER,)}


def test_labels_of_the_wrong_number_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"wanted a value for each of \('queue', 'reason'\)"):
        Metrics().jobs_failed.of("mail")


def test_a_failure_is_labelled_with_the_errors_one_name() -> None:
    assert reason_of(TimedOut("too slow")) == "TIMED_OUT"
    assert reason_of(LeaseLost("gone")) == "LEASE_LOST"
    assert reason_of(ValueError("secret")) == "HANDLER_ERROR"


def test_promtool_finds_nothing_to_complain_about() -> None:
    promtool = require_program("promtool", package="prometheus")
    metrics = Metrics()
    touch_everything(metrics)
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=metrics.expose(), capture_output=True, check=False
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")
