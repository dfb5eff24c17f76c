"""The gateway: prompts of many tenants in one queue, who share a model by the tokens they use."""

from typing import Any

import msgspec

from examples.llm_gateway.model import expected_tokens, reply_to
from waystation.bullmq import Group, Job, Limit, Queue, Worker

QUEUE = "prompts"
MINUTE_S = 60


class Tenant(msgspec.Struct, frozen=True):
    """What a tenant has paid for."""

    name: str
    weight: float = 1
    tokens_a_minute: int = 10_000


async def admit(queue: Queue, tenant: Tenant) -> None:
    """Let a tenant have its share, now or while workers run."""
    await queue.groups.set(
        tenant.name,
        weight=tenant.weight,
        rate=Limit(tenant.tokens_a_minute, MINUTE_S),
        max_size=5_000,
    )


async def ask(queue: Queue, tenant: Tenant, user: str, prompt: str) -> Job:
    """Let a prompt of a user wait; raises `GroupFull` when the tenant has too many."""
    group = Group(user, parent=tenant.name, cost=expected_tokens(prompt))
    return await queue.add("answer", {"prompt": prompt}, group=group)


async def answer(job: Job) -> dict[str, Any]:
    """Ask the model, and charge the tenant what it took."""
    reply = await reply_to(job.data["prompt"])
    await job.charge(reply.tokens)
    return {"text": reply.text, "tokens": reply.tokens}


def worker(store: str | None = None) -> Worker:
    """A worker of the gateway; start as many as the model can serve."""
    return Worker(QUEUE, answer, store, concurrency=8)
