"""The gateway shares its model, and holds its tenants to what they have paid for."""

import re
import subprocess
import sys
from collections import Counter

import pytest

from examples.llm_gateway.gateway import QUEUE, Tenant, admit, ask, worker
from tests.bullmq.harness import harness_on
from tests.support.patience import LIMIT_S
from tests.support.project import ROOT
from waystation.bullmq import Queue

ACME, BELL = Tenant("acme"), Tenant("bell", weight=2)


async def test_a_tenant_with_many_users_has_one_share(redis_url: str) -> None:
    async with harness_on(redis_url) as harness, Queue(harness.keys.name, harness.store) as queue:
        for tenant in (ACME, BELL):
            await admit(queue, tenant)
        for n in range(30):
            await ask(queue, ACME, f"user-{n}", "Why?")
            await ask(queue, BELL, "ada", "Why?")

        claims = await harness.claim(9)

    tenants = Counter(claim.work.group.parent for claim in claims if claim.work.group)
    assert tenants == {"acme": 3, "bell": 6}


async def test_a_tenant_pays_for_the_tokens_that_were_used(redis_url: str) -> None:
    async with Queue(QUEUE, redis_url) as queue, worker(redis_url):
        await admit(queue, ACME)
        job = await ask(queue, ACME, "ada", "Why is the sky blue?")

        reply = await queue.wait(job.id, timeout=LIMIT_S)

        acme = await queue.groups.get("acme")
        assert (acme.waiting, acme.spent) == (0, reply["tokens"])


@pytest.mark.slow
def test_the_example_runs_as_its_page_shows() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.llm_gateway"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr

    shown = (ROOT / "examples/llm_gateway/README.md").read_text()
    for line in done.stdout.splitlines():
        assert without_numbers(line) in without_numbers(shown)


def without_numbers(text: str) -> str:
    return re.sub(r"[\d.,]+", "#", text)
