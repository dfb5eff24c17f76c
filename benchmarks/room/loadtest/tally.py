"""Results of a load test."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from benchmarks.room.simulator import Mood, Verdict, measures

LATE_S = 1.0
"""An arrival that leaves later than this was not made as planned."""
PACE_HELD = 0.99
"""The share of arrivals that must be made as planned, or the figures mean nothing."""


class Turn(NamedTuple):
    """Somebody's turn; all are kept equally long, so the first to end was the first to begin."""

    ends_at: str
    seq: int
    """Their place in the order."""


class Tally:
    """Everything that is counted while the crowd comes and goes."""

    def __init__(self) -> None:
        self.outcomes: Counter[Mood] = Counter()
        self.refusals: Counter[str] = Counter()
        self.problems: list[str] = []
        self.turns: list[Turn] = []
        self.moved_back = 0
        self.returned = 0
        """Turns that were missed and taken back."""
        self._in_time = 0
        self._came = 0
        self._late_s: list[float] = []
        self._held_up_s: list[float] = []
        self._took_s: dict[str, list[float]] = defaultdict(list)

    def leaves(self, step: str, *, due_s: float, woken_s: float, now_s: float) -> None:
        """Note when a question leaves: due, woken by the clock, and given a connection."""
        self._late_s.append(woken_s - due_s)
        self._held_up_s.append(now_s - woken_s)
        if step == "join":
            self._came += 1
            self._in_time += now_s - due_s < LATE_S

    def answered(self, step: str, took_s: float) -> None:
        """Note how long after it was due a question was answered."""
        self._took_s[step].append(took_s)

    def verdicts(self, visitors: int) -> list[Verdict]:
        """What is to be said."""
        held = self._in_time / self._came if self._came else 0.0
        problems = "; ".join(self.problems[:3]) or "0"
        if len(self.problems) > 3:
            problems = f"{len(self.problems):,}: {problems}"
        return [
            Verdict("visitors", f"{visitors:,}", "", True),
            *(Verdict(f"of them {mood}", f"{n:,}", "", True) for mood, n in self._ended()),
            *(Verdict(f"refused as {why}", f"{n:,}", "", True) for why, n in self._refused()),
            Verdict("turns that were taken back", f"{self.returned:,}", "", True),
            Verdict("arrivals made as planned", f"{held:.1%}", "≥ 99 %", held >= PACE_HELD),
            _spread("the crowd itself was late by", self._late_s),
            _spread("and waited for a free connection", self._held_up_s),
            Verdict("broken promises", problems, "0", not self.problems),
            self._overtaken(),
            Verdict("places that moved back", f"{self.moved_back}", "0", self.moved_back == 0),
            *(_spread(f"{len(took):,} times {step}", took) for step, took in self._took_s.items()),
        ]

    def _ended(self) -> Iterable[tuple[str, int]]:
        return ((mood.value, self.outcomes[mood]) for mood in Mood if self.outcomes[mood])

    def _refused(self) -> Iterable[tuple[str, int]]:
        return self.refusals.most_common()

    def _overtaken(self) -> Verdict:
        # Those called in one step share the instant, so only later steps can overtake.
        order = [turn.seq for turn in sorted(self.turns)]
        distance = measures.inversions(order)
        return Verdict("people overtaken", f"{distance} of {len(order):,}", "0", distance == 0)


def _spread(name: str, seconds: Sequence[float]) -> Verdict:
    ordered = sorted(seconds) or [0.0]
    middle, slow = (1000 * ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.99))
    seen = f"{middle:.1f} ms, {slow:.1f} ms in one of 100, {1000 * ordered[-1]:.0f} ms at most"
    return Verdict(name, seen, "", True)
