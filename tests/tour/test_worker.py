"""The worker.

A worker takes jobs from a queue, runs your function for each, and stores how it ended. It does not
care where the queue is kept. Here it is kept in memory, so that nothing has to be installed or
started; a queue in Redis is used in the same way.
"""

import asyncio

from waystation.core.backoff import Backoff, Growth
from waystation.core.errors import Unrecoverable
from waystation.core.runtime.handlers import handler_of
from waystation.core.runtime.worker import Worker, WorkerOptions
from waystation.testing.memory import MemorySource


async def test_a_worker_runs_your_function_for_everything_in_the_queue() -> None:
    """Work is anything; a handler is a function that takes one piece of it. Write `async def` for
    work that waits, plain `def` for work that blocks: it then runs in a thread.
    """
    queue = MemorySource()
    order = queue.add({"seat": "A1"})

    async def sell(work: dict[str, str]) -> str:
        return f"sold {work['seat']}"

    worker = Worker(queue, handler_of(sell), WorkerOptions(concurrency=10))
    running = asyncio.create_task(worker.run())
    while queue.entries[order].state != "completed":
        await asyncio.sleep(0.01)
    worker.stop()
    await running

    assert queue.entries[order].result == "sold A1"


async def work_off(queue: MemorySource, worker: Worker[object]) -> None:
    """Let a worker run until nothing is left to do."""
    running = asyncio.create_task(worker.run())
    while any(entry.state not in ("completed", "failed") for entry in queue.entries.values()):
        await asyncio.sleep(0.01)
    worker.stop()
    await running


async def test_what_fails_is_tried_again_after_a_pause() -> None:
    """Whatever the handler raises is a failed attempt. How many attempts there are, and how long
    the pauses between them, is given when the job is added.
    """
    queue = MemorySource()
    backoff = Backoff(Growth.EXPONENTIAL, delay_ms=10, jitter=0.5)
    order = queue.add("A1", attempts=3, backoff=backoff)
    answers = iter([TimeoutError("the bank does not answer"), None])

    def charge(seat: str) -> str:
        if trouble := next(answers):
            raise trouble
        return f"charged {seat}"

    await work_off(queue, Worker(queue, handler_of(charge)))

    assert queue.entries[order].result == "charged A1"
    assert queue.entries[order].attempts_made == 2


async def test_a_handler_can_say_that_trying_again_will_not_help() -> None:
    """`Unrecoverable` ends the matter at the first attempt, however many were allowed."""
    queue = MemorySource()
    order = queue.add("A1", attempts=10)

    def charge(seat: str) -> str:
        raise Unrecoverable("the bank refuses this card")

    await work_off(queue, Worker(queue, handler_of(charge)))

    assert queue.entries[order].state == "failed"
    assert queue.entries[order].attempts_made == 1


async def test_a_worker_that_is_stopped_hands_back_what_it_cannot_finish() -> None:
    """On `stop`, and on SIGTERM under `serve`, a worker takes nothing new and lets what runs go
    on for `grace`. What is still not done then goes back to the head of the queue, as if nobody
    had touched it.
    """
    queue = MemorySource()
    order = queue.add("a very long report")
    begun = asyncio.Event()

    async def write(work: str) -> None:
        begun.set()
        await asyncio.sleep(3600)

    worker = Worker(queue, handler_of(write), WorkerOptions(grace=0.01))
    running = asyncio.create_task(worker.run())
    await begun.wait()
    worker.stop()
    await running

    assert queue.entries[order].state == "waiting"
    assert queue.entries[order].attempts_made == 0
