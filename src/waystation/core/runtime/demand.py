"""When a worker asks its source for work, and for how much.

A worker with room for work could ask all the time. It asks when there may be something: after a
call that brought as much as was asked for, and whenever somebody says that something has come.
Otherwise one question with the answer "nothing" ends the asking until `look_again`.

Several calls are under way at once, and their answers come in any order. So calls are numbered: an
answer "nothing" is believed only of a call that was sent after the last sign of work. An older one
was answered before that work was there, and believing it would leave the work to the next poll.
"""


class Demand:
    """How much a worker may claim, and whether it is worth asking."""

    def __init__(self, room: int) -> None:
        self.room = room
        """How much more fits; what is asked for counts as taken until the answer comes.

        Below zero when the worker was made smaller, or when a source brought more than was asked
        for: then claims that end make up for it first.
        """
        self._may_have_work = True
        self._is_asking = False
        """Whether a call is under way for no other reason than to ask; one is enough."""
        self._last_call = 0
        self._last_sign = 0
        """The newest call that was sent before the last sign of work."""

    @property
    def is_worth_a_call(self) -> bool:
        """Whether to call the source though there is nothing to tell it."""
        return self._may_have_work and not self._is_asking and self.room > 0

    @property
    def is_quiet(self) -> bool:
        """Whether the source has nothing, as far as the worker knows."""
        return not self._may_have_work

    def take(self, limit: int, *, with_outcomes: bool) -> int:
        """Reserve room for a call; a call that files outcomes asks in passing, which is free."""
        if not (with_outcomes or self.is_worth_a_call):
            return 0
        room = max(0, min(self.room, limit))
        self.room -= room
        self._is_asking = self._is_asking or (room > 0 and not with_outcomes)
        return room

    def number_call(self) -> int:
        """The number of a call that is sent now."""
        self._last_call += 1
        return self._last_call

    def answered(self, number: int, room: int, claimed: int, *, with_outcomes: bool) -> None:
        """Take notice of what a call for so much room has brought."""
        # Claims of a call whose answer was lost may come beyond what was asked for now.
        self.room += room - claimed
        if not room:
            return
        self._is_asking = self._is_asking and with_outcomes
        if claimed >= room:
            self._last_sign = max(self._last_sign, number)
        self._may_have_work = number <= self._last_sign

    def look_again(self) -> None:
        """Take notice that there may be work: calls under way may have been answered before it."""
        self._last_sign = self._last_call
        self._may_have_work = True
