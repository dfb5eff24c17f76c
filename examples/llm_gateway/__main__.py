"""One tenant sends a thousand prompts, others a few: `python -m examples.llm_gateway`."""

import asyncio

from examples.llm_gateway.gateway import QUEUE, Tenant, admit, ask, worker
from waystation.bullmq import Queue
from waystation.core.store import embedded

ACME = Tenant("acme", tokens_a_minute=15_000)
OTHERS = [Tenant("bell", weight=2), Tenant("cord"), Tenant("dune")]


async def main() -> None:
    """Add the prompts, let a worker answer, and say how long each tenant waited."""
    with embedded.ephemeral() as server:
        async with Queue(QUEUE, server.url) as queue:
            for tenant in (ACME, *OTHERS):
                await admit(queue, tenant)
            for n in range(1_000):
                await ask(queue, ACME, f"user-{n % 100}", f"What is {n} in words?")
            async with worker(server.url):
                await asyncio.gather(*(_ask_and_wait(queue, tenant) for tenant in OTHERS))
                await _until_held(queue)
                acme = await queue.groups.get(ACME.name)
                print(
                    f"acme has used {acme.spent:,.0f} tokens of {ACME.tokens_a_minute:,} a minute; "
                    f"{acme.waiting} prompts wait, and go on in {acme.held_for_s:.0f} s"
                )


async def _ask_and_wait(queue: Queue, tenant: Tenant) -> None:
    began = asyncio.get_running_loop().time()
    jobs = [await ask(queue, tenant, "ada", f"Tell me about number {n}.") for n in range(5)]
    replies = await asyncio.gather(*(queue.wait(job.id) for job in jobs))
    tokens = sum(reply["tokens"] for reply in replies)
    took_s = asyncio.get_running_loop().time() - began
    print(f"{tenant.name} has five answers of {tokens} tokens after {took_s:.1f} s")


async def _until_held(queue: Queue) -> None:
    """Wait until acme has used up its minute."""
    while True:
        acme = await queue.groups.get(ACME.name)
        if acme.held_for_s is not None:
            return
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main())
