"""Everything that can go wrong, each with one name.

    WaystationError
    ├─ InvalidInput          somebody handed us a value we cannot take
    │  ├─ InvalidOption
    │  ├─ InvalidSetting
    │  ├─ InvalidUrl
    │  ├─ PayloadTooLarge
    │  └─ Malformed
    ├─ StoreError            the server, or the way to it
    │  ├─ StoreUnreachable
    │  ├─ StoreUnsuitable
    │  ├─ StoreBusy
    │  ├─ NotReplicated
    │  ├─ WrongType
    │  └─ ScriptFailed
    └─ WorkError             one piece of work
       ├─ NotFound
       ├─ LeaseLost
       ├─ WrongState
       ├─ TimedOut
       ├─ Cancelled
       ├─ Unrecoverable
       ├─ RateLimited
       ├─ CircuitOpen
       └─ NotLeader

The code is the error's one name everywhere: a script replies with it, a metric is labelled with
it, HTTP reports it, the reference lists it.
"""

import reprlib
from typing import Any, ClassVar


class WaystationError(Exception):
    """Anything waystation itself reports as wrong."""

    code: ClassVar[str] = "WAYSTATION_ERROR"
    by_code: ClassVar[dict[str, type["WaystationError"]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        WaystationError.by_code.setdefault(cls.code, cls)

    @classmethod
    def from_reply(cls, text: str) -> "WaystationError | None":
        """Read a script's error reply, `CODE and a sentence`; None when it is not one of ours."""
        code, _, sentence = text.partition(" ")
        kind = cls.by_code.get(code.removeprefix("-"))
        return kind(sentence) if kind else None


class InvalidInput(WaystationError):
    """A value that waystation cannot take."""

    code = "INVALID_INPUT"


class InvalidOption(InvalidInput):
    """An option outside what is allowed."""

    code = "INVALID_OPTION"


class InvalidSetting(InvalidInput):
    """A setting, from a file or the environment, that is unknown or outside what is allowed."""

    code = "INVALID_SETTING"


class InvalidUrl(InvalidInput):
    """A store address that cannot be read."""

    code = "INVALID_URL"


class PayloadTooLarge(InvalidInput):
    """More bytes than the limit allows."""

    code = "PAYLOAD_TOO_LARGE"


class Malformed(InvalidInput):
    """Bytes that do not say what they should."""

    code = "MALFORMED"


class StoreError(WaystationError):
    """The store refused or failed."""

    code = "STORE_ERROR"


class StoreUnreachable(StoreError):
    """No answer from the store; whether the call took effect is unknown."""

    code = "STORE_UNREACHABLE"


class StoreUnsuitable(StoreError):
    """The store answers, but must not be used as it is set up."""

    code = "STORE_UNSUITABLE"


class StoreBusy(StoreError):
    """The store cannot take this call now; nothing happened, and it may be tried again."""

    code = "STORE_BUSY"


class NotReplicated(StoreError):
    """The store has taken it, but no replica has confirmed that in time."""

    code = "NOT_REPLICATED"

    def __init__(self, message: str, stored: Any = None) -> None:
        super().__init__(message)
        self.stored = stored
        """What the step answered, such as the ids of what was added."""

    def __str__(self) -> str:
        return f"{super().__str__()}; stored: {reprlib.repr(self.stored)}"


class WrongType(StoreError):
    """A key holds another type than it should; nothing happened until somebody repairs it."""

    code = "WRONG_TYPE"


class ScriptFailed(StoreError):
    """A script stopped with an error of its own."""

    code = "SCRIPT_FAILED"


class WorkError(WaystationError):
    """Something about one piece of work."""

    code = "WORK_ERROR"


class NotFound(WorkError):
    """There is no such work."""

    code = "NOT_FOUND"


class LeaseLost(WorkError):
    """Somebody else holds the work now; whatever we did with it does not count."""

    code = "LEASE_LOST"


class WrongState(WorkError):
    """The work is not in a state that allows this step."""

    code = "WRONG_STATE"


class TimedOut(WorkError):
    """A handler took longer than it may."""

    code = "TIMED_OUT"


class Cancelled(WorkError):
    """Somebody asked for the work to be stopped."""

    code = "CANCELLED"


class Unrecoverable(WorkError):
    """A handler says that trying again will not help."""

    code = "UNRECOVERABLE"


class InvalidResult(Unrecoverable):
    """What a handler returned cannot be stored; running it again would not change that."""

    code = "INVALID_RESULT"


class RateLimited(WorkError):
    """The limit is used up for now."""

    code = "RATE_LIMITED"

    def __init__(self, message: str = "the limit is used up", retry_after_ms: int = 0) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


class CircuitOpen(WorkError):
    """Too much has failed lately; nothing is tried until the pause is over."""

    code = "CIRCUIT_OPEN"


class NotLeader(WorkError):
    """Somebody else leads now; this step belongs to them."""

    code = "NOT_LEADER"
