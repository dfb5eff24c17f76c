"""A model that is none: it answers after a moment, and says how many tokens that took."""

import asyncio

import msgspec


class Reply(msgspec.Struct, frozen=True):
    """What the model answered."""

    text: str
    tokens: int
    """Those of the prompt, and those that were generated."""


def expected_tokens(prompt: str) -> int:
    """What a prompt is thought to cost: its own words, and an answer of medium length."""
    return len(prompt.split()) + 100


async def reply_to(prompt: str) -> Reply:
    """Answer a prompt; the longer it is, the longer that takes."""
    words = prompt.split()
    generated = 20 * len(words)
    await asyncio.sleep(generated / 10_000)
    return Reply(text=f"{len(words)} words, thank you.", tokens=len(words) + generated)
