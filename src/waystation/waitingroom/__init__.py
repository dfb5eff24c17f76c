"""People instead of jobs: a fair line in front of a busy site."""

from typing import TYPE_CHECKING

from waystation.core.lazy import names_of

if TYPE_CHECKING:
    from waystation.waitingroom.admission import Admission
    from waystation.waitingroom.options import Method, RoomOptions, Status
    from waystation.waitingroom.room import Begun, Forbidden, Joined, Kept, Passed, Refused, Room
    from waystation.waitingroom.upkeep import Upkeep
    from waystation.waitingroom.visitor import Lane, Newcomer, Place

__all__ = [
    "Admission",
    "Begun",
    "Forbidden",
    "Joined",
    "Kept",
    "Lane",
    "Method",
    "Newcomer",
    "Passed",
    "Place",
    "Refused",
    "Room",
    "RoomOptions",
    "Status",
    "Upkeep",
]

__getattr__ = names_of(
    __name__,
    {
        "Admission": "admission",
        "Begun": "room",
        "Forbidden": "room",
        "Joined": "room",
        "Kept": "room",
        "Lane": "visitor",
        "Method": "options",
        "Newcomer": "visitor",
        "Passed": "room",
        "Place": "visitor",
        "Refused": "room",
        "Room": "room",
        "RoomOptions": "options",
        "Status": "options",
        "Upkeep": "upkeep",
    },
)
