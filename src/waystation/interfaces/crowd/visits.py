"""The crowd of the simulator, standing in line at a room's real doors.

Arrivals follow a schedule that does not wait for answers, and each answer is timed from the instant
at which its question should have left: a server that falls behind cannot hide it.
"""

import asyncio
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from waystation.core.errors import StoreUnreachable
from waystation.queues.waitingroom.simulator import Crowd, Mood, Verdict
from waystation.queues.waitingroom.simulator.people import Person

from .client import Answer, Connection, Site

CONNECTIONS = 100
CLAIMS_WITHIN_S = 5.0
LATE_S = 1.0
"""An arrival that leaves later than this was not made as planned."""
PACE_HELD = 0.99
"""The share of arrivals that must be made as planned, or the figures mean nothing."""

_NEEDS = {
    "look": Mood.WAITS,
    "leave": Mood.WAITS,
    "claim": Mood.CALLED,
    "complete": Mood.INSIDE,
}
"""Who has moved on in the meantime takes none of the steps that were planned."""


class _Visit:
    __slots__ = ("ahead", "key", "person", "session", "session_id", "token")

    def __init__(self, person: Person) -> None:
        self.person = person
        self.key = f"simulated-visitor-{person.number:012d}"
        self.token = self.session = self.session_id = ""
        self.ahead = math.inf


class Visits:
    """One crowd, one room, real time."""

    def __init__(self, url: str, crowd: Crowd, *, connections: int = CONNECTIONS) -> None:
        self.crowd = crowd
        self.outcomes: Counter[Mood] = Counter()
        self._site = Site.of(url)
        self._connections = connections
        self._dice = random.Random(crowd.seed)
        self._due: asyncio.Queue[tuple[float, str, _Visit]] = asyncio.Queue()
        self._took_s: dict[str, list[float]] = defaultdict(list)
        self._problems: list[str] = []
        self._rises = 0
        self._in_time = 0
        self._here = 0
        self._over = asyncio.Event()

    async def run(self) -> list[Verdict]:
        """Let the crowd come and go, and say what is to be said about it."""
        self._here = self.crowd.visitors
        start = self._now()
        for number in range(self.crowd.visitors):
            visit = _Visit(Person(number, self.crowd, self._dice))
            self._later(start + number / self.crowd.arrivals_per_second, "join", visit)
        working = [asyncio.create_task(self._work()) for _ in range(self._connections)]
        try:
            await self._over.wait()
        finally:
            for each in working:
                each.cancel()
            await asyncio.gather(*working, return_exceptions=True)
        return self._verdicts()

    async def _work(self) -> None:
        connection = Connection(self._site)
        loop = asyncio.get_running_loop()
        try:
            while True:
                due, step, visit = await self._due.get()
                if step == "join":
                    self._in_time += loop.time() - due < LATE_S
                if _NEEDS.get(step, visit.person.mood) is not visit.person.mood:
                    continue
                try:
                    await self._take(step, visit, connection)
                except StoreUnreachable as error:
                    self._end(visit, Mood.REFUSED, problem=f"{step}: {error}")
                self._took_s[step].append(loop.time() - due)
        finally:
            await connection.close()

    async def _take(self, step: str, visit: _Visit, connection: Connection) -> None:
        match step:
            case "join":
                self._joined(visit, await self._ask(connection, visit, "POST", "enqueue"))
            case "look":
                self._looked(visit, await self._ask(connection, visit, "GET", "status"))
            case "claim":
                self._claimed(visit, await self._ask(connection, visit, "POST", "claim"))
            case "leave":
                if self._dice.random() >= self.crowd.silent:
                    await self._ask(connection, visit, "DELETE", "position")
                self._end(visit, Mood.LEFT)
            case _:
                base = self._site.path.partition("/queues/")[0]
                path = f"{base}/sessions/{quote(visit.session_id)}/complete"
                await self._send(connection, visit, "POST", path)
                self._end(visit, Mood.DONE)

    async def _ask(self, connection: Connection, visit: _Visit, method: str, what: str) -> Answer:
        return await self._send(connection, visit, method, f"{self._site.path}/{what}")

    async def _send(self, connection: Connection, visit: _Visit, method: str, path: str) -> Answer:
        headers = {"Wr-Visitor": visit.key, "X-Forwarded-For": visit.person.address}
        if visit.token:
            headers["Authorization"] = f"Bearer {visit.token}"
        if visit.session:
            headers["Wr-Session"] = visit.session
        return await connection.ask(method, path, headers, b"" if method == "GET" else b"{}")

    def _joined(self, visit: _Visit, told: Answer) -> None:
        person, now = visit.person, self._now()
        if told.status not in (200, 201, 202) or told.body["status"] == "pass":
            self._end(visit, Mood.REFUSED if told.status >= 400 else Mood.INSIDE)
            return
        visit.token = told.body["token"]
        person.joined_s = now
        person.leaves_s += now
        self._later(person.leaves_s, "leave", visit)
        wait = told.body["estimated_wait"]
        if wait["known"]:
            person.p10, person.p50, person.p90 = wait["p10"], wait["p50"], wait["p90"]
        self._look_again(visit, told)

    def _looked(self, visit: _Visit, told: Answer) -> None:
        person, now = visit.person, self._now()
        if told.status == 429:
            self._later(now + 1, "look", visit)
        elif told.status == 410 and told.body.get("code") == "TURN_MISSED":
            self._end(visit, Mood.MISSED)
        elif told.status != 200:
            self._end(visit, Mood.REFUSED, problem=f"{visit.key} lost the place: {told.body}")
        elif told.body["status"] != "admitted":
            self._look_again(visit, told)
        elif self._dice.random() < self.crowd.no_show:
            self._end(visit, Mood.MISSED)
        else:
            person.mood, person.called_s = Mood.CALLED, now
            self._later(now + self._dice.uniform(0, CLAIMS_WITHIN_S), "claim", visit)

    def _look_again(self, visit: _Visit, told: Answer) -> None:
        ahead = told.body.get("people_ahead", visit.ahead)
        self._rises += ahead > visit.ahead
        visit.ahead = ahead
        self._later(self._now() + told.body["poll_after_ms"] / 1000, "look", visit)

    def _claimed(self, visit: _Visit, told: Answer) -> None:
        if told.status != 200:
            self._end(visit, Mood.MISSED, problem=f"{visit.key} was called in vain: {told.body}")
            return
        visit.person.mood = Mood.INSIDE
        visit.session, visit.session_id = told.body["session_token"], told.body["session_id"]
        median, sigma = self.crowd.session_median_s, self.crowd.session_sigma
        length = self._dice.lognormvariate(math.log(median), sigma)
        self._later(self._now() + length, "complete", visit)

    def _end(self, visit: _Visit, mood: Mood, *, problem: str = "") -> None:
        visit.person.mood = mood
        self.outcomes[mood] += 1
        if problem:
            self._problems.append(problem)
        self._here -= 1
        if self._here == 0:
            self._over.set()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _later(self, at_s: float, step: str, visit: _Visit) -> None:
        asyncio.get_running_loop().call_at(at_s, self._due.put_nowait, (at_s, step, visit))

    def _verdicts(self) -> list[Verdict]:
        held = self._in_time / self.crowd.visitors
        problems = "; ".join(self._problems[:3]) or "0"
        return [
            Verdict("visitors", f"{self.crowd.visitors:,}", "", True),
            *(Verdict(f"of them {mood}", f"{n:,}", "", True) for mood, n in self._outcomes()),
            Verdict("arrivals made as planned", f"{held:.1%}", "≥ 99 %", held >= PACE_HELD),
            Verdict("broken promises", problems, "0", not self._problems),
            Verdict("places that moved back", f"{self._rises}", "0", self._rises == 0),
            *(_timed(step, took) for step, took in self._took_s.items()),
        ]

    def _outcomes(self) -> Iterable[tuple[str, int]]:
        return ((mood.value, self.outcomes[mood]) for mood in Mood if self.outcomes[mood])


def _timed(step: str, took_s: Sequence[float]) -> Verdict:
    ordered = sorted(took_s)
    middle, late = (1000 * ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.99))
    seen = f"{middle:.1f} ms, {late:.1f} ms for the slowest hundredth"
    return Verdict(f"{len(ordered):,} times {step}", seen, "", True)
