"""The account that every scene gives: what came in, and what became of it."""

import msgspec


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What came in and what became of it; the two must be the same number."""

    title: str
    what: str
    """What is counted, in the plural: purchases, tickets, visitors."""
    came_in: int
    ends: dict[str, int]
    """How many ended in which way, each way a short sentence."""
    twice: int = 0
    """How many had an effect more than once."""
    remarks: tuple[str, ...] = ()
    """What else a visitor might like to know."""

    @property
    def lost(self) -> int:
        """How many nobody can account for."""
        return self.came_in - sum(self.ends.values())

    @property
    def balanced(self) -> bool:
        """Whether nothing was lost and nothing happened twice."""
        return self.lost == 0 and self.twice == 0
