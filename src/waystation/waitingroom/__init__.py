"""Virtual waiting rooms: a fair queue of visitors in front of a busy site.

Internal modules are everything that is not listed here or in `waystation.waitingroom.middleware`.
"""

from waystation.core.lazy import names_of

__getattr__ = names_of(
    __name__,
    {
        # The room and how it is set up
        "room": "Room",
        "options": "RoomOptions Method Status WaitingPage",
        "state": "RoomState",
        # Visitors: joining, waiting, sessions
        "visitor": (
            "JoinRequest Place Lane Entry Joined Kept Passed Refused Forbidden "
            "VisitorStatus Prequeued Waiting Returned Called Inside Late Gone "
            "Session Begun Renewal"
        ),
        "estimates.model": "Model Point",
        "estimates.stays": "Stays",
        # Operating a room
        "operating.control": "Control",
        "operating.schedule": "Schedule ScheduledEvent",
        "operating.codes": "Codes Batch",
        "operating.lottery": "Lottery Proof",
        "operating.alarms": "Alarms AlarmOptions",
        "operating.following": "Following FollowOptions",
        # Running a room
        "running": "Admission Upkeep",
        "redis.replies": "Round",
        # Values
        "waystation.core.durations": "Duration",
        "waystation.core.events": "Event",
    },
)
