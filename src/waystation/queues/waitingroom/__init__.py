"""People instead of jobs: a fair line in front of a busy site."""

from .admission import Admission
from .options import Method, RoomOptions, Status
from .room import Begun, Forbidden, Joined, Kept, Passed, Refused, Room
from .upkeep import Upkeep
from .visitor import Lane, Newcomer, Place

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
