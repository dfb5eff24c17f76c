"""Stop trying when too much has failed lately, and find out carefully when it works again."""

import math
from collections import deque
from collections.abc import Callable
from enum import Enum, StrEnum, auto

import msgspec

from waystation.core.clock import Clock
from waystation.core.errors import CircuitOpen, InvalidOption
from waystation.core.options import check_fields


class State(StrEnum):
    """Whether the breaker lets calls through."""

    CLOSED = "closed"
    HALF_OPEN = "half-open"
    OPEN = "open"


class Lesson(Enum):
    """What one call taught about the other side."""

    SUCCESS = auto()
    FAILURE = auto()
    NOTHING = auto()


class BreakerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """When a breaker opens, for how long, and how it tries again."""

    failure_threshold: float = 0.5
    """The part of failures, above 0 and up to 1, that opens the breaker."""
    min_samples: int = 20
    """Results that must be in the window before their failures say anything."""
    window_s: float = 60.0
    """How far back results count."""
    cooldown_s: float = 30.0
    """How long nothing is tried after opening."""
    probes: int = 1
    """Calls let through at a time while it is not known whether it works again."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not 0 < self.failure_threshold <= 1:
            raise InvalidOption(
                f"failure_threshold must be above 0 and at most 1, got {self.failure_threshold}"
            )
        for name in ("min_samples", "probes"):
            if getattr(self, name) < 1:
                raise InvalidOption(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("window_s", "cooldown_s"):
            if not 0 < getattr(self, name) < math.inf:
                raise InvalidOption(f"{name} must be above 0 seconds, got {getattr(self, name)}")


def _ignore(before: State, after: State) -> None:
    pass


class Breaker:
    """A circuit breaker over a sliding window of results.

    Every call needs a permit, and reports how it went. Whatever says nothing about the health of
    the other side (no job came, a bad file, a cancelled call) is a release, not a result.
    """

    def __init__(
        self,
        options: BreakerOptions,
        clock: Clock,
        *,
        on_change: Callable[[State, State], None] = _ignore,
    ) -> None:
        self._options = options
        self._clock = clock
        self._on_change = on_change
        self._state = State.CLOSED
        self._era = 0
        self._reopens_at = 0.0
        self._probes_out = 0
        self._window = _Window(options.window_s)

    @property
    def state(self) -> State:
        """The state after the last call; an open breaker half-opens when somebody next enters."""
        return self._state

    @property
    def cooldown_left_s(self) -> float:
        """Seconds for which nothing will be let through; 0 when a permit may be had."""
        if self._state is not State.OPEN:
            return 0.0
        return max(0.0, self._reopens_at - self._clock.monotonic())

    def enter(self) -> "Permit":
        """Ask to make one call; CircuitOpen when it is not the time."""
        if self._state is not State.CLOSED:
            self._begin_probe()
        return Permit(self, self._era)

    def learn(self, era: int, lesson: Lesson) -> None:
        """Take note of what a permit of that era taught."""
        # A result from before the last change says nothing about the state we are in now.
        if era != self._era:
            return
        if self._state is State.CLOSED:
            if lesson is not Lesson.NOTHING:
                self._count(lesson)
            return
        match lesson:
            case Lesson.SUCCESS:
                self._change(State.CLOSED)
            case Lesson.FAILURE:
                self._change(State.OPEN)
            case Lesson.NOTHING:
                self._probes_out -= 1

    def _begin_probe(self) -> None:
        if self._state is State.OPEN:
            if left := self.cooldown_left_s:
                raise CircuitOpen(f"too much failed; next try in {left:.1f} s")
            self._change(State.HALF_OPEN)
        if self._probes_out >= self._options.probes:
            raise CircuitOpen("too much failed; a try is under way")
        self._probes_out += 1

    def _count(self, lesson: Lesson) -> None:
        now = self._clock.monotonic()
        total, failures = self._window.add(now, failed=lesson is Lesson.FAILURE)
        enough = total >= self._options.min_samples
        if enough and failures / total >= self._options.failure_threshold:
            self._change(State.OPEN)

    def _change(self, after: State) -> None:
        before, self._state = self._state, after
        self._era += 1
        self._probes_out = 0
        self._window.clear()
        if after is State.OPEN:
            self._reopens_at = self._clock.monotonic() + self._options.cooldown_s
        self._on_change(before, after)


class Permit:
    """Leave to make one call; what is not reported to have succeeded or failed is released."""

    __slots__ = ("_breaker", "_era")

    def __init__(self, breaker: Breaker, era: int) -> None:
        self._breaker: Breaker | None = breaker
        self._era = era

    def succeeded(self) -> None:
        """The other side works."""
        self._resolve(Lesson.SUCCESS)

    def failed(self) -> None:
        """The other side is in trouble."""
        self._resolve(Lesson.FAILURE)

    def release(self) -> None:
        """Nothing was learnt; somebody else may try."""
        self._resolve(Lesson.NOTHING)

    def _resolve(self, lesson: Lesson) -> None:
        breaker, self._breaker = self._breaker, None
        if breaker is not None:
            breaker.learn(self._era, lesson)

    def __enter__(self) -> "Permit":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        if self._breaker is not None:
            self.release()


class _Window:
    """Results of the last seconds, in slices, so that memory does not grow with their number."""

    SLICES = 20

    def __init__(self, seconds: float) -> None:
        self._slice_s = seconds / self.SLICES
        self._slices: deque[list[int]] = deque()
        self._total = 0
        self._failures = 0

    def add(self, now: float, *, failed: bool) -> tuple[int, int]:
        """Count a result; how many there are in the window, and how many of them failed."""
        current = int(now / self._slice_s)
        self._forget_before(current - self.SLICES + 1)
        if not self._slices or self._slices[-1][0] != current:
            self._slices.append([current, 0, 0])
        self._slices[-1][1] += 1
        self._slices[-1][2] += failed
        self._total += 1
        self._failures += failed
        return self._total, self._failures

    def clear(self) -> None:
        self._slices.clear()
        self._total = self._failures = 0

    def _forget_before(self, oldest: int) -> None:
        while self._slices and self._slices[0][0] < oldest:
            _, total, failures = self._slices.popleft()
            self._total -= total
            self._failures -= failures
