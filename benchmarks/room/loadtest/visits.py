"""Visits of simulated visitors to a real HTTP server.

Arrivals follow a schedule that does not wait for answers, and each answer is timed from the instant
at which its question should have left: a server that falls behind cannot hide it, and where the
crowd itself falls behind, it says so.
"""

import asyncio
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import quote

from benchmarks.room.loadtest.client import Answer, Connection, Site
from benchmarks.room.loadtest.tally import Tally, Turn
from benchmarks.room.simulator import Crowd, Mood, Verdict
from benchmarks.room.simulator.people import Person
from waystation.core.errors import StoreUnreachable
from waystation.waitingroom.estimates.estimate import Wait
from waystation.waitingroom.visitor import Place

CONNECTIONS = 256
CLAIMS_WITHIN_S = 5.0
HIDDEN_S = 60.0
"""A browser lets a page that nobody sees look once a minute."""
LATE_S = (5.0, 125.0)
"""How long after the end of their turn those who are late come to take it back."""

_NEEDS = {
    "look": Mood.WAITS,
    "beat": Mood.WAITS,
    "leave": Mood.WAITS,
    "claim": Mood.CALLED,
    "recover": Mood.MISSED,
    "complete": Mood.INSIDE,
}
"""Who has moved on in the meantime takes none of the steps that were planned."""


class _Visit:
    __slots__ = ("ahead", "key", "over", "person", "seq", "session", "session_id", "token")

    def __init__(self, person: Person) -> None:
        self.person = person
        self.key = f"simulated-visitor-{person.number:012d}"
        self.token = self.session = self.session_id = ""
        self.ahead = math.inf
        self.seq: int | None = None
        self.over = False


class _Step(NamedTuple):
    due_s: float
    woken_s: float
    name: str
    visit: _Visit


class Visits:
    """One crowd, one room, real time."""

    def __init__(
        self,
        url: str,
        crowd: Crowd,
        *,
        connections: int = CONNECTIONS,
        progress: Callable[[int, int], None] = lambda came, here: None,
    ) -> None:
        self.crowd = crowd
        self._site = Site.of(url)
        self._connections = connections
        self._progress = progress
        self._dice = random.Random(crowd.seed)
        self._due: asyncio.Queue[_Step] = asyncio.Queue()
        self._tally = Tally()
        self._called_in: list[Person] = []
        self._came = self._ended = 0
        self._over = asyncio.Event()

    @property
    def outcomes(self) -> Counter[Mood]:
        """What became of everybody."""
        return self._tally.outcomes

    @property
    def called(self) -> Sequence[Person]:
        """Everybody who saw that their turn came; their instants are those of the event loop."""
        return self._called_in

    async def run(self) -> list[Verdict]:
        """Let the crowd come and go, and say what is to be said about it."""
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
        return self._tally.verdicts(self.crowd.visitors)

    async def _work(self) -> None:
        connection = Connection(self._site)
        try:
            while True:
                due_s, woken_s, step, visit = await self._due.get()
                if visit.over or _NEEDS.get(step, Mood.WAITS) is not visit.person.mood:
                    continue
                self._tally.leaves(step, due_s=due_s, woken_s=woken_s, now_s=self._now())
                try:
                    await self._take(step, visit, connection)
                except StoreUnreachable as error:
                    self._end(visit, Mood.REFUSED, problem=f"{step}: {error}")
                self._tally.answered(step, self._now() - due_s)
        finally:
            await connection.close()

    async def _take(self, step: str, visit: _Visit, connection: Connection) -> None:
        match step:
            case "join":
                self._joined(visit, await self._ask(connection, visit, "POST", "enqueue"))
            case "look":
                self._looked(visit, await self._ask(connection, visit, "GET", "status"))
            case "beat":
                self._beaten(visit, await self._ask(connection, visit, "POST", "heartbeat"))
            case "claim":
                self._claimed(visit, await self._ask(connection, visit, "POST", "claim"))
            case "recover":
                self._recovered(visit, await self._ask(connection, visit, "POST", "recover"))
            case "leave":
                visit.person.mood = Mood.LEFT
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

    def _joined(self, visit: _Visit, answer: Answer) -> None:
        person, now = visit.person, self._now()
        self._came += 1
        self._progress(self._came, self._came - self._ended)
        if answer.status >= 400:
            code = str(answer.body.get("code", answer.status))
            self._tally.refusals[code] += 1
            broken = f"{visit.key} met a fault: {answer.body}" if answer.status >= 500 else ""
            self._end(visit, Mood.REFUSED, problem=broken)
            return
        if answer.body["status"] == "pass":
            self._end(visit, Mood.INSIDE)
            return
        visit.token = answer.body["token"]
        visit.seq = answer.body.get("seq")
        person.place = Place(answer.body["position_id"], "")
        person.joined_s = now
        person.leaves_s += now
        self._later(person.leaves_s, "leave", visit)
        self._beat_again(visit, answer)
        self._look_again(visit, answer)

    def _looked(self, visit: _Visit, answer: Answer) -> None:
        if visit.person.mood is not Mood.WAITS:
            return
        if answer.status == 429:
            self._later(self._now() + 1, "look", visit)
        elif answer.status == 410 and answer.body.get("code") == "TURN_MISSED":
            self._end(visit, Mood.MISSED)
        elif answer.status != 200:
            self._end(visit, Mood.REFUSED, problem=f"{visit.key} lost the place: {answer.body}")
        elif answer.body["status"] != "admitted":
            self._look_again(visit, answer)
        else:
            self._called(visit, answer)

    def _called(self, visit: _Visit, answer: Answer) -> None:
        person, now = visit.person, self._now()
        deadline = answer.body["claim_deadline"]
        first = person.called_s < 0
        if first:
            person.called_s = now
            self._called_in.append(person)
            if visit.seq is not None:
                self._tally.turns.append(Turn(deadline, visit.seq))
        if not first or self._dice.random() >= self.crowd.no_show:
            person.mood = Mood.CALLED
            self._later(now + self._dice.uniform(0, CLAIMS_WITHIN_S), "claim", visit)
        elif self._dice.random() < self.crowd.late:
            person.mood = Mood.MISSED
            left_s = (datetime.fromisoformat(deadline) - datetime.now(UTC)).total_seconds()
            self._later(now + left_s + self._dice.uniform(*LATE_S), "recover", visit)
        else:
            self._end(visit, Mood.MISSED)

    def _recovered(self, visit: _Visit, answer: Answer) -> None:
        if answer.status != 200:
            self._end(visit, Mood.MISSED, problem=f"{visit.key} could not return: {answer.body}")
            return
        # Who returned is counted among those who did, and is called before everybody else.
        visit.person.mood, visit.ahead = Mood.WAITS, math.inf
        self._tally.returned += 1
        self._beat_again(visit, answer)
        self._look_again(visit, answer)

    def _look_again(self, visit: _Visit, answer: Answer) -> None:
        ahead = answer.body.get("people_ahead", visit.ahead)
        self._tally.moved_back += ahead > visit.ahead
        visit.ahead = ahead
        self._estimated(visit.person, answer)
        after_s = answer.body["poll_after_ms"] / 1000
        if visit.person.hidden:
            after_s = max(after_s, HIDDEN_S)
        self._later(self._now() + after_s, "look", visit)

    def _estimated(self, person: Person, answer: Answer) -> None:
        shown = answer.body["estimated_wait"]
        if shown["known"] and person.called_s < 0:
            wait = Wait(p10=shown["p10"], p50=shown["p50"], p90=shown["p90"])
            person.estimates.append((self._now(), wait))

    def _beaten(self, visit: _Visit, answer: Answer) -> None:
        # Whatever a heartbeat finds out, the next look does, too.
        if answer.status == 200:
            self._beat_again(visit, answer)

    def _beat_again(self, visit: _Visit, answer: Answer) -> None:
        self._later(self._now() + answer.body["heartbeat_after_ms"] / 1000, "beat", visit)

    def _claimed(self, visit: _Visit, answer: Answer) -> None:
        if answer.status != 200:
            self._end(visit, Mood.MISSED, problem=f"{visit.key} was called in vain: {answer.body}")
            return
        visit.person.mood = Mood.INSIDE
        visit.session, visit.session_id = answer.body["session_token"], answer.body["session_id"]
        median, sigma = self.crowd.session_median_s, self.crowd.session_sigma
        length = self._dice.lognormvariate(math.log(median), sigma)
        self._later(self._now() + length, "complete", visit)

    def _end(self, visit: _Visit, mood: Mood, *, problem: str = "") -> None:
        if visit.over:
            # Of two questions under way at once, one has ended it already.
            return
        visit.over, visit.person.mood = True, mood
        self._tally.outcomes[mood] += 1
        if problem:
            self._tally.problems.append(problem)
        self._ended += 1
        self._progress(self._came, self._came - self._ended)
        if self._ended == self.crowd.visitors:
            self._over.set()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _later(self, at_s: float, step: str, visit: _Visit) -> None:
        loop = asyncio.get_running_loop()
        loop.call_at(at_s, lambda: self._due.put_nowait(_Step(at_s, loop.time(), step, visit)))
