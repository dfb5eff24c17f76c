"""Virtual waiting rooms: a fair queue of visitors in front of a busy site.

Internal modules are everything that is not listed here or in `waystation.waitingroom.middleware`.
"""

from typing import TYPE_CHECKING

from waystation.core.lazy import names_of

if TYPE_CHECKING:
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

# Grouped by what they are for: this is the table of contents.
__all__ = [  # noqa: RUF022
    # The room and how it is set up
    "Room",
    "RoomOptions",
    "RoomState",
    "Status",
    "Method",
    "WaitingPage",
    "Lane",
    "Model",
    "Point",
    "Stays",
    # Joining
    "JoinRequest",
    "Place",
    "Entry",
    "Joined",
    "Kept",
    "Passed",
    "Refused",
    # The status of a visitor
    "VisitorStatus",
    "Prequeued",
    "Waiting",
    "Returned",
    "Called",
    "Inside",
    "Late",
    "Gone",
    # Sessions
    "Begun",
    "Forbidden",
    "Renewal",
    "Session",
    # Operating a room
    "Control",
    "Following",
    "FollowOptions",
    "Alarms",
    "AlarmOptions",
    "Schedule",
    "ScheduledEvent",
    "Lottery",
    "Proof",
    "Codes",
    "Batch",
    # Running a room
    "Admission",
    "Round",
    "Upkeep",
    # Values
    "Duration",
    "Event",
]

__getattr__ = names_of(
    __name__,
    {
        "waystation.core.durations": "Duration",
        "waystation.core.events": "Event",
        "estimates.model": "Model Point",
        "estimates.stays": "Stays",
        "operating.alarms": "AlarmOptions Alarms",
        "operating.codes": "Batch Codes",
        "operating.control": "Control",
        "operating.following": "FollowOptions Following",
        "operating.lottery": "Lottery Proof",
        "operating.schedule": "Schedule ScheduledEvent",
        "options": "Method RoomOptions Status WaitingPage",
        "redis.replies": "Round",
        "room": "Room",
        "running": "Admission Upkeep",
        "state": "RoomState",
        "visitor": (
            "Begun Called Entry Forbidden Gone Inside JoinRequest Joined Kept Lane Late Passed "
            "Place Prequeued Refused Renewal Returned Session VisitorStatus Waiting"
        ),
    },
)
