"""What `waystation.waitingroom` offers.

Written by `make docs` from the list next to it; do not edit.
"""

from waystation.core.durations import Duration
from waystation.core.events import Event
from waystation.waitingroom.estimates.model import Model, Point
from waystation.waitingroom.estimates.stays import Stays
from waystation.waitingroom.operating.alarms import AlarmOptions, Alarms
from waystation.waitingroom.operating.codes import Batch, Codes
from waystation.waitingroom.operating.control import Control
from waystation.waitingroom.operating.following import Following, FollowOptions
from waystation.waitingroom.operating.lottery import Lottery, Proof
from waystation.waitingroom.operating.schedule import Schedule, ScheduledEvent
from waystation.waitingroom.options import Method, RoomOptions, Status, WaitingPage
from waystation.waitingroom.redis.replies import Round
from waystation.waitingroom.room import Room
from waystation.waitingroom.running import Admission, Upkeep
from waystation.waitingroom.state import RoomState
from waystation.waitingroom.visitor import (
    Begun,
    Called,
    Entry,
    Forbidden,
    Gone,
    Inside,
    Joined,
    JoinRequest,
    Kept,
    Lane,
    Late,
    Passed,
    Place,
    Prequeued,
    Refused,
    Renewal,
    Returned,
    Session,
    VisitorStatus,
    Waiting,
)

__all__ = [
    "Admission",
    "AlarmOptions",
    "Alarms",
    "Batch",
    "Begun",
    "Called",
    "Codes",
    "Control",
    "Duration",
    "Entry",
    "Event",
    "FollowOptions",
    "Following",
    "Forbidden",
    "Gone",
    "Inside",
    "JoinRequest",
    "Joined",
    "Kept",
    "Lane",
    "Late",
    "Lottery",
    "Method",
    "Model",
    "Passed",
    "Place",
    "Point",
    "Prequeued",
    "Proof",
    "Refused",
    "Renewal",
    "Returned",
    "Room",
    "RoomOptions",
    "RoomState",
    "Round",
    "Schedule",
    "ScheduledEvent",
    "Session",
    "Status",
    "Stays",
    "Upkeep",
    "VisitorStatus",
    "Waiting",
    "WaitingPage",
]
