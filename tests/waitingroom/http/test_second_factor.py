"""The second factor of an operator's sign-in."""

import asyncio
from collections.abc import AsyncGenerator

import httpx2
import pytest

from tests.waitingroom.http import hands
from tests.waitingroom.http.hands import HOST, QUEUE, House, Person
from waystation.core.clock import HandClock
from waystation.core.operators.second_factor import GUESSES, STEP_S, code_at, step_of

SIGN_IN = "/api/v1/admin/sign-in"
FACTOR = f"{SIGN_IN}/second-factor"
ROOM = f"/api/v1/admin/queues/{QUEUE}"
OWN = {"origin": f"https://{HOST}"}
# RFC 6238, appendix B: "12345678901234567890", of whose eight digits ours are the last six.
RFC_SECRET = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def house(redis_url: str, clock: HandClock, no_strays: None) -> AsyncGenerator[House]:
    async with hands.house(redis_url, clock=clock) as built:
        yield built


class Enrolled:
    """An operator, their key and their authenticator."""

    def __init__(self, house: House, key: str, secret: str, clock: HandClock) -> None:
        self.house = house
        self.key = key
        self._secret = secret
        self._clock = clock

    def code(self, drift: int = 0) -> str:
        return code_at(self._secret, self._clock.now_ms() // 1000 // STEP_S + drift)

    def wrong_code(self) -> str:
        near = {self.code(drift) for drift in range(-2, 3)}
        return next(each for each in (f"{n:06d}" for n in range(9)) if each not in near)

    async def sign_in(self, code: str | None, address: str = "10.1.1.1") -> httpx2.Response:
        shown = {"key": self.key} | ({} if code is None else {"code": code})
        return await self.house.visitor(address).post(SIGN_IN, shown, headers=OWN)


async def _enrolled(house: House, clock: HandClock, role: str = "operator") -> Enrolled:
    person = await house.operator(role)
    made = await person.post(FACTOR)
    assert made.status_code == 201, made.text
    key = person.http.headers["authorization"].partition(" ")[2]
    return Enrolled(house, key, made.json()["secret"], clock)


@pytest.mark.parametrize(
    ("seconds", "code"),
    [
        (59, "287082"), (1111111109, "081804"), (1111111111, "050471"),
        (1234567890, "005924"), (2000000000, "279037"), (20000000000, "353130"),
    ],
)  # fmt: skip
def test_codes_are_those_of_the_rfc(seconds: int, code: str) -> None:
    assert code_at(RFC_SECRET, seconds // STEP_S) == code
    assert step_of(RFC_SECRET, f"{code[:3]} {code[3:]}", seconds) == seconds // STEP_S


async def test_whoever_enrolled_shows_a_code_from_then_on(house: House, clock: HandClock) -> None:
    alice = await _enrolled(house, clock)
    refused = await alice.sign_in(None)
    assert (refused.status_code, refused.json()["code"]) == (401, "CODE_REQUIRED")
    assert (await alice.sign_in(alice.code())).status_code == 200
    admin = await house.operator()
    entries = (await admin.get("/api/v1/admin/audit")).json()["entries"]
    assert [each["action"] for each in entries] == ["sign-in", "add-second-factor"]
    assert entries[0]["after"] == '{"by":"key","code":true}'


async def test_the_key_alone_opens_nothing_any_more(house: House, clock: HandClock) -> None:
    alice = await _enrolled(house, clock)
    thief = house.visitor(authorization=f"Bearer {alice.key}")
    for answer in (await thief.get(f"{ROOM}/stats"), await thief.post(FACTOR)):
        assert (answer.status_code, answer.json()["code"]) == (401, "CODE_REQUIRED")


@pytest.mark.parametrize(("drift", "status"), [(-2, 401), (-1, 200), (1, 200), (2, 401)])
async def test_a_clock_may_be_off_by_one_step(
    house: House, clock: HandClock, drift: int, status: int
) -> None:
    alice = await _enrolled(house, clock)
    assert (await alice.sign_in(alice.code(drift))).status_code == status


async def test_54_a_code_counts_once(house: House, clock: HandClock) -> None:
    """Attack 54: whoever looks over a shoulder is too late, also within the same half minute."""
    alice = await _enrolled(house, clock)
    code = alice.code()
    at_once = await asyncio.gather(*(alice.sign_in(code) for _ in range(4)))
    assert sorted(each.status_code for each in at_once) == [200, 401, 401, 401]
    await clock.advance(STEP_S)
    assert (await alice.sign_in(code)).status_code == 401
    assert (await alice.sign_in(alice.code())).status_code == 200


async def test_54_guessing_codes_is_slow_from_wherever_it_comes(
    house: House, clock: HandClock
) -> None:
    """Attack 54: the guesses are counted for the key, however many networks take part."""
    alice = await _enrolled(house, clock)
    wrong = alice.wrong_code()
    at_once = await asyncio.gather(
        *(alice.sign_in(wrong, f"10.3.0.{number}") for number in range(GUESSES.limit + 5))
    )
    codes = sorted(each.status_code for each in at_once)
    assert codes == [401] * GUESSES.limit + [429] * 5
    right = await alice.sign_in(alice.code(), "10.4.0.1")
    assert right.status_code == 429
    assert int(right.headers["retry-after"]) > 60
    admin = await house.operator()
    entries = (await admin.get("/api/v1/admin/audit")).json()["entries"]
    assert [each["action"] for each in entries].count("wrong-code") == GUESSES.limit


async def test_only_an_admin_helps_whoever_lost_their_authenticator(
    house: House, clock: HandClock
) -> None:
    alice = await _enrolled(house, clock)
    path = "/api/v1/admin/operators/a operator/second-factor"
    assert (await (await house.operator("viewer")).http.delete(path)).status_code == 403
    admin = await house.operator()
    assert (await admin.http.delete(path)).status_code == 204
    assert (await admin.http.delete(path)).status_code == 404
    assert (await alice.sign_in(None)).status_code == 200


async def test_a_second_factor_is_not_replaced_by_whoever_sits_at_the_desk(
    house: House, clock: HandClock
) -> None:
    alice = await _enrolled(house, clock)
    browser: Person = house.visitor()
    shown = {"key": alice.key, "code": alice.code()}
    assert (await browser.post(SIGN_IN, shown, headers=OWN)).status_code == 200
    assert (await browser.post(FACTOR, headers=OWN)).status_code == 409


async def test_a_connector_has_no_authenticator(house: House) -> None:
    connector = await house.operator("connector")
    assert (await connector.post(FACTOR)).status_code == 422
