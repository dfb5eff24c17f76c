"""Files that the store has confirmed, so that a watching producer need not ask for each again."""

from collections.abc import Collection

MOST = 1_000_000
"""Files kept in mind, about 70 bytes each; beyond that the store is asked as if nothing were."""


class Confirmed:
    """The hashes of files, as they were seen, that were put in line or found to be known."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._before: set[int] = set()
        self._now: set[int] = set()

    @property
    def numbers(self) -> tuple[set[int], set[int]]:
        """What was confirmed before this pass, and in it; both stay the same sets until its end."""
        return self._before, self._now

    def add(self, files: Collection[int]) -> None:
        """Keep these in mind, while there is room."""
        if len(self._now) + len(files) <= self._most:
            self._now.update(files)

    def begin_pass(self) -> None:
        """Everything is looked at from here on."""
        self._before |= self._now
        self._now = set()

    def end_pass(self) -> None:
        """Forget what was not seen again: it is gone, or has changed."""
        self._before = set()

    def forget(self) -> None:
        """Begin anew, because the store may have forgotten."""
        self._before, self._now = set(), set()
