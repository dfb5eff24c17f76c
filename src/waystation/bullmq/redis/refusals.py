"""Refusals: why a script did not take a step, from the codes that BullMQ gives for it."""

from waystation.core.errors import LeaseLost, NotFound, WaystationError, WrongState


def refusal(code: int, job_id: str, *, wanted: str = "active") -> WaystationError:
    """The error that a code stands for; `wanted` is the state that the step asks for."""
    match code:
        case -1:
            return NotFound(f"there is no job {job_id}")
        case -2:
            return LeaseLost(f"the lock of job {job_id} has run out")
        case -4:
            return WrongState(f"job {job_id} has children that are not finished")
        case -5:
            return NotFound(f"the parent of job {job_id} is gone")
        case -6:
            return LeaseLost(f"job {job_id} is held by somebody else")
        case -7:
            return WrongState(f"job {job_id} has another parent already")
        case -9:
            # In Node's words, because that is what dashboards and alerts look for.
            return WrongState(
                f"Cannot complete job {job_id} because it has at least one failed child. "
                "moveToWaitingChildren"
            )
        case _:
            return WrongState(f"job {job_id} is not {wanted}")
