import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from waystation.core.breaker import Breaker, BreakerOptions, Permit, State
from waystation.core.clock import HandClock
from waystation.core.errors import CircuitOpen, InvalidOption

OPTIONS = BreakerOptions(failure_threshold=0.5, min_samples=4, window_s=20, cooldown_s=10)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def breaker(clock: HandClock) -> Breaker:
    return Breaker(OPTIONS, clock)


def turn(clock: HandClock, seconds: float) -> None:
    asyncio.run(clock.advance(seconds))


def fail(breaker: Breaker, times: int = 1) -> None:
    for _ in range(times):
        breaker.enter().failed()


def succeed(breaker: Breaker, times: int = 1) -> None:
    for _ in range(times):
        breaker.enter().succeeded()


def half_open(breaker: Breaker, clock: HandClock) -> Permit:
    fail(breaker, 4)
    turn(clock, 10)
    return breaker.enter()


def test_it_opens_when_the_failure_rate_reaches_the_threshold(breaker: Breaker) -> None:
    succeed(breaker, 2)
    fail(breaker)
    assert breaker.state is State.CLOSED
    fail(breaker)
    assert breaker.state is State.OPEN


def test_the_threshold_is_met_by_exactly_that_rate(clock: HandClock) -> None:
    options = BreakerOptions(failure_threshold=0.07, min_samples=100)
    breaker = Breaker(options, clock)
    fail(breaker, 7)
    succeed(breaker, 92)
    assert breaker.state is State.CLOSED
    succeed(breaker)
    assert breaker.state is State.OPEN


def test_too_few_results_say_nothing(breaker: Breaker) -> None:
    fail(breaker, 3)
    assert breaker.state is State.CLOSED


def test_results_older_than_the_window_do_not_count(breaker: Breaker, clock: HandClock) -> None:
    fail(breaker, 3)
    turn(clock, 20)
    fail(breaker, 3)
    assert breaker.state is State.CLOSED


def test_results_slide_out_one_after_the_other(breaker: Breaker, clock: HandClock) -> None:
    fail(breaker, 2)
    turn(clock, 15)
    fail(breaker)
    turn(clock, 5)
    fail(breaker, 2)
    assert breaker.state is State.CLOSED
    fail(breaker)
    assert breaker.state is State.OPEN


def test_while_open_nobody_enters_and_the_pause_is_told(breaker: Breaker, clock: HandClock) -> None:
    fail(breaker, 4)
    turn(clock, 4)
    with pytest.raises(CircuitOpen, match=r"next try in 6\.0 s"):
        breaker.enter()
    assert breaker.cooldown_left_s == pytest.approx(6)


def test_after_the_pause_one_probe_is_let_through(breaker: Breaker, clock: HandClock) -> None:
    probe = half_open(breaker, clock)
    assert breaker.state is State.HALF_OPEN
    with pytest.raises(CircuitOpen, match="a try is under way"):
        breaker.enter()
    probe.succeeded()
    assert breaker.state is State.CLOSED


def test_as_many_probes_as_asked_for_are_out_at_a_time(clock: HandClock) -> None:
    breaker = Breaker(BreakerOptions(min_samples=1, probes=2, cooldown_s=10), clock)
    fail(breaker)
    turn(clock, 10)
    probes = [breaker.enter(), breaker.enter()]
    with pytest.raises(CircuitOpen):
        breaker.enter()
    for probe in probes:
        probe.release()
    assert breaker.enter()


def test_a_failed_probe_opens_it_again_for_a_whole_pause(
    breaker: Breaker, clock: HandClock
) -> None:
    half_open(breaker, clock).failed()
    assert breaker.state is State.OPEN
    assert breaker.cooldown_left_s == pytest.approx(10)


def test_a_probe_that_found_no_work_lets_the_next_one_try(
    breaker: Breaker, clock: HandClock
) -> None:
    half_open(breaker, clock).release()
    assert breaker.state is State.HALF_OPEN
    breaker.enter().succeeded()
    assert breaker.state is State.CLOSED


def test_a_forgotten_probe_is_released(breaker: Breaker, clock: HandClock) -> None:
    probe = half_open(breaker, clock)
    del probe
    gc.collect()
    assert breaker.enter()


def test_a_probe_that_ends_in_an_unclassified_error_is_released(
    breaker: Breaker, clock: HandClock
) -> None:
    probe = half_open(breaker, clock)
    with pytest.raises(ValueError, match="bad file"), probe:
        raise ValueError("bad file")
    assert breaker.state is State.HALF_OPEN
    assert breaker.enter()


def test_failures_of_before_do_not_open_a_breaker_that_has_closed(
    breaker: Breaker, clock: HandClock
) -> None:
    half_open(breaker, clock).succeeded()
    fail(breaker, 3)
    assert breaker.state is State.CLOSED


def test_a_late_result_of_an_earlier_state_does_not_count(
    breaker: Breaker, clock: HandClock
) -> None:
    late = [breaker.enter() for _ in range(5)]
    probe = half_open(breaker, clock)
    late[0].succeeded()
    assert breaker.state is State.HALF_OPEN
    late[1].release()
    with pytest.raises(CircuitOpen):
        breaker.enter()
    probe.succeeded()
    for permit in late[2:]:
        permit.failed()
    fail(breaker)
    assert breaker.state is State.CLOSED


@pytest.mark.parametrize("again", [Permit.succeeded, Permit.failed, Permit.release])
def test_a_permit_counts_once(
    breaker: Breaker, clock: HandClock, again: Callable[[Permit], None]
) -> None:
    probe = half_open(breaker, clock)
    probe.release()
    again(probe)
    assert breaker.state is State.HALF_OPEN


def test_only_classified_failures_count(breaker: Breaker) -> None:
    for _ in range(100):
        breaker.enter().release()
    fail(breaker, 3)
    assert breaker.state is State.CLOSED


def test_every_change_is_told(clock: HandClock) -> None:
    changes: list[tuple[State, State]] = []
    breaker = Breaker(OPTIONS, clock, on_change=lambda was, now: changes.append((was, now)))
    half_open(breaker, clock).failed()
    turn(clock, 10)
    breaker.enter().succeeded()
    assert changes == [
        (State.CLOSED, State.OPEN),
        (State.OPEN, State.HALF_OPEN),
        (State.HALF_OPEN, State.OPEN),
        (State.OPEN, State.HALF_OPEN),
        (State.HALF_OPEN, State.CLOSED),
    ]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("failure_threshold", 0),
        ("failure_threshold", 1.1),
        ("failure_threshold", float("nan")),
        ("min_samples", 0),
        ("probes", 0),
        ("window_s", 0),
        ("cooldown_s", float("inf")),
    ],
)
def test_an_option_outside_its_range_is_refused(option: str, value: Any) -> None:
    with pytest.raises(InvalidOption, match=rf"{option} must be .*, got {value}"):
        BreakerOptions(**{option: value})


class BreakerLaws(RuleBasedStateMachine):
    """The breaker beside a model that remembers every result."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = HandClock()
        self.changes: list[tuple[State, State]] = []
        self.breaker = Breaker(OPTIONS, self.clock, on_change=self.changed)
        self.results: list[tuple[float, bool]] = []
        self.permits: list[tuple[int, Permit]] = []
        self.opened_at = 0.0

    def changed(self, before: State, after: State) -> None:
        self.changes.append((before, after))
        self.results.clear()
        if after is State.OPEN:
            self.opened_at = self.clock.monotonic()

    @property
    def cooling(self) -> bool:
        waited = self.clock.monotonic() - self.opened_at
        return self.breaker.state is State.OPEN and waited < OPTIONS.cooldown_s

    @property
    def probes_out(self) -> int:
        return sum(era == len(self.changes) for era, _ in self.permits)

    # Whole seconds are the breaker's slices, so that the model's window is exact.
    @rule(seconds=st.integers(min_value=1, max_value=12))
    def time_passes(self, seconds: int) -> None:
        turn(self.clock, seconds)

    @rule()
    def somebody_enters(self) -> None:
        cooling, state, probes = self.cooling, self.breaker.state, self.probes_out
        try:
            permit = self.breaker.enter()
        except CircuitOpen:
            assert cooling or (state is State.HALF_OPEN and probes >= OPTIONS.probes)
        else:
            assert not cooling
            assert state is not State.HALF_OPEN or probes < OPTIONS.probes
            self.permits.append((len(self.changes), permit))

    @precondition(lambda self: self.permits)
    @rule(data=st.data(), failed=st.sampled_from([True, True, False, None]))
    def a_permit_is_settled(self, data: st.DataObject, failed: bool | None) -> None:
        era, permit = self.permits.pop(data.draw(st.integers(0, len(self.permits) - 1)))
        before = self.breaker.state
        current = era == len(self.changes)
        if current and before is State.CLOSED and failed is not None:
            self.results.append((self.clock.monotonic(), failed))
        should_open = before is State.CLOSED and current and failed is not None and self.tripped()
        {True: permit.failed, False: permit.succeeded, None: permit.release}[failed]()
        match before:
            case State.CLOSED:
                assert (self.breaker.state is State.OPEN) == should_open
            case State.HALF_OPEN if current and failed is not None:
                assert self.breaker.state is (State.OPEN if failed else State.CLOSED)
            case _:
                assert self.breaker.state is before

    def tripped(self) -> bool:
        since = self.clock.monotonic() - OPTIONS.window_s
        recent = [failed for at, failed in self.results if at > since]
        rate = sum(recent) / len(recent)
        return len(recent) >= OPTIONS.min_samples and rate >= OPTIONS.failure_threshold

    @invariant()
    def changes_follow_the_circle(self) -> None:
        allowed = {
            (State.CLOSED, State.OPEN),
            (State.OPEN, State.HALF_OPEN),
            (State.HALF_OPEN, State.OPEN),
            (State.HALF_OPEN, State.CLOSED),
        }
        assert set(self.changes) <= allowed
        if self.changes:
            assert self.changes[-1][1] is self.breaker.state

    @invariant()
    def the_pause_is_told_exactly_while_it_lasts(self) -> None:
        assert (self.breaker.cooldown_left_s > 0) == self.cooling


TestBreakerLaws = BreakerLaws.TestCase
