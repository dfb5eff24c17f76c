"""Webhooks for job events: signed, in order, again until they are taken, and over restarts."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.console import harness
from tests.console.harness import ConsoleApi
from tests.support.patience import LIMIT_S
from tests.support.ports import free_port
from tests.support.processes import running
from waystation.bullmq import JobFailed, NewJob, Queue, Worker
from waystation.bullmq.redis.keys import QueueKeys
from waystation.console.webhooks import (
    DEAD_AFTER,
    DispatcherKeys,
    Hooks,
    JobDispatcher,
    WebhookKeys,
)
from waystation.core.clock import HandClock
from waystation.core.http.addresses import networks
from waystation.core.http.server import serving
from waystation.core.webhooks import delivery, dispatch
from waystation.core.webhooks.delivery import Sender
from waystation.core.webhooks.dispatch import KEPT_FAILURES

INSIDE = ("127.0.0.0/8",)
DISPATCHING = DispatcherKeys().leader, DispatcherKeys().terms
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "hear-of-jobs-by-webhook.md"


class Receiver:
    """A program that wants to know; it can be killed and started again."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/hook?shop=1"
        self.answer = 204
        self.kill_at: tuple[int, Callable[[], None]] | None = None
        """Whom to kill at which request, before it is answered."""
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self._running = AsyncExitStack()

    async def start(self) -> None:
        await self._running.enter_async_context(serving(self, host="127.0.0.1", port=self.port))

    async def kill(self) -> None:
        await self._running.aclose()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = (await receive())["body"]
        self.requests.append(({n.decode(): v.decode() for n, v in scope["headers"]}, body))
        if self.kill_at and len(self.requests) == self.kill_at[0]:
            self.kill_at[1]()
        await send({"type": "http.response.start", "status": self.answer, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    @property
    def events(self) -> list[dict[str, Any]]:
        bodies = [msgspec.json.decode(body) for _, body in self.requests]
        return [each for body in bodies for each in body["events"]]

    def sent_events(self, queue: str = "mail") -> list[tuple[str, str]]:
        return [(e["event"], e["job"]) for e in self.events if e["queue"] == queue]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a receiver on a busy machine be slow."""
    monkeypatch.setattr(delivery, "PATIENCE_S", LIMIT_S)
    monkeypatch.setattr(dispatch, "PASS_S", LIMIT_S)
    monkeypatch.setattr(dispatch, "WAIT_S", LIMIT_S)


@pytest.fixture
async def receiver() -> AsyncGenerator[Receiver]:
    built = Receiver()
    await built.start()
    yield built
    await built.kill()


@pytest.fixture
async def api(redis_url: str, no_strays: None) -> AsyncGenerator[ConsoleApi]:
    options = msgspec.structs.replace(harness.ADMIN, webhook_networks=INSIDE)
    async with harness.api(redis_url, options) as opened:
        yield opened


def _dispatcher(api: ConsoleApi, clock: HandClock, owner: str = "console") -> JobDispatcher:
    """What a console has after a restart: everything it knows is in the store."""
    sender = Sender(networks(INSIDE, "webhook_networks"), clock=clock)
    return JobDispatcher(api.store, api.app.console.directory, sender, owner=owner)


def _check_of_the_page() -> Any:
    """How the documentation checks a signature."""
    program = PAGE.read_text().partition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(compile(program, PAGE.name, "exec"), names)
    return names["is_genuine"]


async def _hooked(api: ConsoleApi, receiver: Receiver, **asked: Any) -> dict[str, Any]:
    await api.app.console.directory.look()
    return await api.post("webhooks", {"url": receiver.url, **asked}, status=201)


async def _only(api: ConsoleApi) -> dict[str, Any]:
    [found] = (await api.get("webhooks"))["webhooks"]
    return found


async def test_what_happens_to_jobs_is_sent_in_order_and_signed(
    api: ConsoleApi, receiver: Receiver
) -> None:
    clock = HandClock()

    async def handle(job: Any) -> None:
        if job.name == "broken":
            raise ValueError("no printer")

    async with Queue("mail", api.store) as queue:
        await queue.add("send", delay=3600)
        hook = await _hooked(api, receiver, events=["added", "completed", "failed"])
        good = await queue.add("send")
        bad = await queue.add("broken", attempts=1)
        async with Worker("mail", handle, api.store, concurrency=1):
            await good.wait()
            with pytest.raises(JobFailed):
                await bad.wait()
        console = _dispatcher(api, clock)
        await console.carry()
        await console.carry()
    assert receiver.sent_events() == [
        ("added", good.id), ("added", bad.id), ("completed", good.id), ("failed", bad.id),
    ]  # fmt: skip
    assert receiver.events[-1]["product"] == "bullmq"
    assert receiver.events[-1]["reason"] == "no printer"
    headers, body = receiver.requests[0]
    is_genuine = _check_of_the_page()
    shown, now = headers["waystation-signature"], clock.now_ms() / 1000
    assert is_genuine(hook["secret"], shown, body, now)
    assert not is_genuine(hook["secret"], shown, body + b" ", now)
    assert not is_genuine("whs_other", shown, body, now)
    assert not is_genuine(hook["secret"], shown, body, now + 3600)
    assert headers["waystation-delivery"] == receiver.events[-1]["id"]
    assert (await _only(api))["delivered"] == 4


async def test_nothing_is_lost_while_the_receiver_and_the_console_are_killed(
    api: ConsoleApi, receiver: Receiver
) -> None:
    clock = HandClock()
    async with Queue("mail", api.store) as queue:
        await queue.add("first")
        await _hooked(api, receiver, events=["added"])
        jobs = [(await queue.add("send")).id]
        await _dispatcher(api, clock).carry()
        assert receiver.sent_events() == [("added", jobs[0])]

        await receiver.kill()
        jobs += [job.id for job in await queue.add_many([("send", {}) for _ in range(230)])]
        console = _dispatcher(api, clock)
        await console.carry()
        await console.carry()  # too soon, so nothing is tried
        hook = await _only(api)
        assert (hook["failures"], hook["dead"]) == (1, False)
        assert "does not answer" in hook["last_error"]
        assert hook["next_try_at"]

        await receiver.start()
        jobs.append((await queue.add("send")).id)
        await clock.advance(5)
        await _dispatcher(api, clock).carry()
        assert receiver.sent_events() == [("added", id) for id in jobs]
        hook = await _only(api)
        assert (hook["failures"], hook["last_error"], hook["delivered"]) == (0, "", len(jobs))
        assert max(len(msgspec.json.decode(body)["events"]) for _, body in receiver.requests) <= 100


async def test_an_answer_that_is_lost_repeats_a_delivery_and_loses_none(
    api: ConsoleApi, receiver: Receiver
) -> None:
    clock = HandClock()
    async with Queue("mail", api.store) as queue:
        await _hooked(api, receiver, events=["added"])
        job = await queue.add("send")
        receiver.answer = 500  # it has read the body, and fails then
        await _dispatcher(api, clock).carry()
        receiver.answer = 200
        await clock.advance(5)
        await _dispatcher(api, clock).carry()
    assert receiver.sent_events() == [("added", job.id)] * 2
    assert len({each["id"] for each in receiver.events}) == 1


async def test_a_receiver_that_stays_away_is_given_up_until_it_is_resumed(
    api: ConsoleApi, receiver: Receiver
) -> None:
    clock = HandClock()
    async with Queue("mail", api.store) as queue:
        hook = await _hooked(api, receiver, events=["added"])
        job = await queue.add("send")
        receiver.answer = 503
        console = _dispatcher(api, clock)
        async with Queue("pay", api.store) as pay:
            for _ in range(DEAD_AFTER + 2):
                await pay.pause()  # news of another queue that the webhook does not want
                await console.carry()
                await clock.advance(1000)
        assert len(receiver.requests) == DEAD_AFTER
        state = await _only(api)
        assert (state["dead"], state["next_try_at"]) == (True, None)
        assert state["last_error"] == "the answer was 503"
        assert [each["error"] for each in state["recent_failures"]] == (
            ["the answer was 503"] * KEPT_FAILURES
        )

        receiver.answer = 200
        assert (await api.post(f"webhooks/{hook['id']}/resume"))["dead"] is False
        receiver.requests.clear()
        await console.carry()
        assert receiver.sent_events() == [("added", job.id)]
        state = await _only(api)
        assert (state["failures"], len(state["recent_failures"])) == (0, KEPT_FAILURES)
        assert state["delivered_at"]


async def test_events_that_were_trimmed_are_reported_as_a_gap(
    api: ConsoleApi, receiver: Receiver
) -> None:
    async with Queue("mail", api.store) as queue:
        await _hooked(api, receiver, events=["added"])
        await queue.add("send")
        console = _dispatcher(api, HandClock())
        await console.carry()
        receiver.requests.clear()
        for _ in range(2):
            await queue.add("send")
        last = await queue.add("send")
        await api.store.ask("XTRIM", "bull:mail:events", "MAXLEN", 2)
        await console.carry()
        await console.carry()
    assert [each["event"] for each in receiver.events] == ["gap", "added"]
    assert receiver.events[1]["job"] == last.id


async def test_events_that_were_trimmed_before_the_first_delivery_are_a_gap_too(
    api: ConsoleApi, receiver: Receiver
) -> None:
    async with Queue("mail", api.store) as queue, Queue("pay", api.store) as pay:
        await queue.add("before")
        await pay.add("before")
        await _hooked(api, receiver, events=["added"])
        await queue.add_many([NewJob("send")] * 2)
        job = await queue.add("send")
        other = await pay.add("send")
        await api.store.ask("XTRIM", "bull:mail:events", "MAXLEN", 2)
        await _dispatcher(api, HandClock()).carry()
    assert [(e["event"], e.get("job")) for e in receiver.events if e["queue"] == "mail"] == [
        ("gap", None), ("added", job.id),
    ]  # fmt: skip
    assert receiver.sent_events("pay") == [("added", other.id)]


async def test_a_console_that_stops_lets_another_send_at_once(
    api: ConsoleApi, receiver: Receiver
) -> None:
    async with Queue("mail", api.store) as queue:
        await _hooked(api, receiver, events=["added"])
        await queue.add("send")
        first, second = (_dispatcher(api, HandClock(), owner) for owner in ("one", "two"))
        await first.carry()
        await queue.add("send")
        await second.carry()
        assert len(receiver.requests) == 1
        await first.close()
        await second.carry()
        assert len(receiver.requests) == 2


@pytest.mark.slow
async def test_no_event_is_lost_when_the_console_is_killed_while_it_sends(
    api: ConsoleApi, receiver: Receiver, redis_url: str, tmp_path: Path
) -> None:
    kills = [2, 5]  # the requests that it is killed at, before they are answered
    (tmp_path / "waystation.yaml").write_text(
        f"store: {{url: '{redis_url}'}}\nconsole: {{webhook_networks: [127.0.0.0/8]}}\n"
    )
    async with Queue("mail", api.store) as queue:
        await _hooked(api, receiver, events=["added"])
        jobs = [job.id for job in await queue.add_many([NewJob("send")] * 450)]
        while True:
            listen = f"127.0.0.1:{free_port()}"
            with running(tmp_path, "-m", "waystation", "console", "--listen", listen) as process:
                receiver.kill_at = (kills.pop(0), process.popen.kill) if kills else None
                if receiver.kill_at is None:
                    await process.until(
                        lambda _: {id for _, id in receiver.sent_events()} == {*jobs}
                    )
                    break
                await process.ended()
            # Its term runs out, as it would by itself after half a minute.
            await api.store.ask("DEL", DispatcherKeys().leader)
    assert kills == []
    received = [id for _, id in receiver.sent_events()]
    # Whatever came twice came again from where it was; nothing is missing and nothing overtook.
    assert list(dict.fromkeys(received)) == jobs
    assert len(received) > len(jobs)


async def test_queues_are_chosen_and_those_that_come_later_are_found(
    api: ConsoleApi, receiver: Receiver
) -> None:
    hook = await _hooked(api, receiver, events=["added"], queues=["bullmq/pay"])
    assert hook["queues"] == ["bullmq/pay"]
    async with Queue("mail", api.store) as mail, Queue("pay", api.store) as pay:
        await mail.add("send")
        job = await pay.add("charge")
        await api.app.console.directory.look()
        await _dispatcher(api, HandClock()).carry()
    assert [(each["queue"], each["job"]) for each in receiver.events] == [("pay", job.id)]


async def test_what_happens_in_the_millisecond_of_its_beginning_is_sent(
    api: ConsoleApi, receiver: Receiver
) -> None:
    keys = QueueKeys("mail")
    await api.store.ask("HSET", keys.meta, "version", "bullmq:6")
    await _hooked(api, receiver, events=["added"])
    [(hook, _)] = await Hooks(api.store).every()
    fields = ("event", "added", "jobId", "7", "name", "send")
    await api.store.ask("XADD", keys.events, f"{hook.added_ms}-0", *fields)
    await _dispatcher(api, HandClock()).carry()
    assert receiver.sent_events() == [("added", "7")]


async def test_what_is_wrong_with_one_webhook_or_queue_stops_no_other(
    api: ConsoleApi, receiver: Receiver
) -> None:
    keys = WebhookKeys()
    for name in ("bad", "mail"):
        await Queue(name, api.store).add("send")
    await _hooked(api, receiver, events=["added"])
    await api.store.ask("HSET", keys.hooks, "later", '{"id":"later"}')
    bad = QueueKeys("bad").events
    await api.store.ask("DEL", bad)
    await api.store.ask("SET", bad, "of another type")
    # An event at an instant that no calendar has.
    await api.store.ask("XADD", QueueKeys("mail").events, f"{9**18}-1", "event", "added")
    for round in range(5):
        await _dispatcher(api, HandClock(), f"console {round}").carry()
        await api.store.ask("DEL", *DISPATCHING)
    assert len(receiver.events) == 1
    assert (await _only(api))["delivered"] == 1
    await api.store.ask("DEL", bad)


async def test_of_several_consoles_one_sends(api: ConsoleApi, receiver: Receiver) -> None:
    async with Queue("mail", api.store) as queue:
        await _hooked(api, receiver, events=["added"])
        await queue.add("send")
        for owner in ("one", "two"):
            await _dispatcher(api, HandClock(), owner).carry()
    assert len(receiver.requests) == 1


async def test_a_webhook_is_made_tried_and_removed(api: ConsoleApi, receiver: Receiver) -> None:
    hook = await _hooked(api, receiver)
    assert hook["events"] == ["cancelled", "completed", "dead", "failed"]
    assert await api.post(f"webhooks/{hook['id']}/test") == {"taken": True, "error": ""}
    assert receiver.events[0]["event"] == "ping"
    receiver.answer = 302
    tried = await api.post(f"webhooks/{hook['id']}/test")
    assert tried == {"taken": False, "error": "the answer was 302"}
    assert hook["secret"] not in (await api.here.get("/api/v1/webhooks")).text
    assert (await api.here.delete(f"/api/v1/webhooks/{hook['id']}")).status_code == 204
    assert (await api.here.delete(f"/api/v1/webhooks/{hook['id']}")).status_code == 404
    assert (await api.get("webhooks"))["webhooks"] == []


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"events": ["danced"]}, "there are no events danced; there are added, "),
        ({"queues": ["mail"]}, "a queue is named as bullmq/mail, got 'mail'"),
        ({"url": "https://10.0.0.1/"}, "leads inside, where no webhook may go"),
        ({"url": "ftp://example.org/"}, "must start with https://"),
    ],
    ids=["event", "queue", "inside", "scheme"],
)
async def test_a_webhook_that_cannot_work_is_refused(
    api: ConsoleApi, asked: dict[str, Any], why: str
) -> None:
    body = {"url": "https://example.org/", **asked}
    refused = await api.post("webhooks", body, status=422)
    assert why in refused["detail"]


async def test_only_an_admin_makes_webhooks(guarded: ConsoleApi) -> None:
    body = {"url": "https://example.org/"}
    viewer, operator = await guarded.operator("viewer"), await guarded.operator("operator")
    assert (await viewer.get("/api/v1/webhooks")).status_code == 403
    assert (await operator.get("/api/v1/webhooks")).status_code == 200
    for who in (viewer, operator):
        assert (await who.post("/api/v1/webhooks", json=body)).status_code == 403
