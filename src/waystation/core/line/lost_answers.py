"""Lost answers: calls to the store of which nobody knows whether they took effect.

Such a call may have claimed jobs. They are ours, and nobody works on them: left alone they would
stall, and a job that stalls too often is given up. So every call has a lease token of its own, by
which the next call finds what a lost one has claimed.

A call that was cancelled is such a one as well: the store does not know that nobody listens.

It may have stored outcomes, too. They are sent again as they were, and one that is refused then
has perhaps been stored by the first call, which the product can see from what is stored.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from waystation.core import identity
from waystation.core.errors import StoreError, StoreUnreachable
from waystation.core.runtime.claim import Claim, Settled

LOST = StoreError, asyncio.CancelledError
"""What a call raises of which nobody knows whether it took effect."""

MOST_AT_ONCE = 500
"""Tokens that one call looks for; the rest is looked for by the next."""

W = TypeVar("W")
R = TypeVar("R")


class LostAnswers(Generic[W, R]):
    """The lease tokens of one worker's calls, and what was sent with those whose answers were lost.

    `W` is the job, `R` the record that is sent for an outcome.
    """

    def __init__(self) -> None:
        self._worker = identity.lease_token()
        self._calls = 0
        self.tokens: set[str] = set()
        """Tokens of calls that may have claimed jobs."""
        self.in_doubt: dict[Claim[W], tuple[Settled[W], R]] = {}
        """Outcomes that may have been stored, and what was sent for them."""

    def calling(self, want: int) -> "_Calling":
        """Make one call that claims up to `want` jobs, under the token that this gives."""
        self._calls += 1
        return _Calling(self.tokens, f"{self._worker}:{self._calls}", want)

    def settling(self, sent: Sequence[tuple[Settled[W], R]]) -> "_Settling[W, R]":
        """Send outcomes and claim jobs inside; a store that fails leaves all of it in doubt.

        Gives a set for the tokens of the calls that have been answered: the whole is asked for
        again, and what they have claimed is found then.
        """
        return _Settling(self, sent)

    async def find(
        self, look: Callable[[Sequence[str]], Awaitable[list[Claim[W]]]]
    ) -> list[Claim[W]]:
        """Find the jobs that were claimed by calls whose answers were lost."""
        # The tokens are taken along, so that no other call finds the same jobs.
        tokens = sorted(self.tokens)[:MOST_AT_ONCE]
        self.tokens.difference_update(tokens)
        try:
            return await look(tokens)
        except LOST:
            self.tokens.update(tokens)
            raise


class _Calling:
    __slots__ = ("_lost", "_token", "_want")

    def __init__(self, lost: set[str], token: str, want: int) -> None:
        self._lost = lost
        self._token = token
        self._want = want

    def __enter__(self) -> str:
        return self._token

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not self._want or not isinstance(error, StoreUnreachable | asyncio.CancelledError):
            return
        # What never left has claimed nothing; while a store is away that is nearly every call.
        if not (isinstance(error, StoreUnreachable) and error.never_sent):
            self._lost.add(self._token)


class _Settling(Generic[W, R]):
    __slots__ = ("_answers", "_sent", "_tokens")

    def __init__(self, answers: LostAnswers[W, R], sent: Sequence[tuple[Settled[W], R]]) -> None:
        self._answers = answers
        self._sent = sent
        self._tokens: set[str] = set()

    def __enter__(self) -> set[str]:
        return self._tokens

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        in_doubt = self._answers.in_doubt
        if isinstance(error, LOST):
            self._answers.tokens.update(self._tokens)
            for each in self._sent:
                in_doubt.setdefault(each[0].claim, each)
        elif error is None and in_doubt:
            for each, _ in self._sent:
                in_doubt.pop(each.claim, None)
