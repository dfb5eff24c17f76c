"""What operators send and get, merged into the options of a room."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Any, Literal, Unpack, cast

import msgspec

from waystation.core.clock import Clock
from waystation.core.errors import InvalidOption
from waystation.core.http.endpoints import Annotations, Routed, annotated, stated
from waystation.core.http.exchange import Request
from waystation.core.operators.operators import Operator, Operators
from waystation.waitingroom.http.bodies import PlaceBody
from waystation.waitingroom.http.context import is_host
from waystation.waitingroom.http.fairness import checked_bits
from waystation.waitingroom.http.webhooks import HOOK_EVENTS
from waystation.waitingroom.operating.alarms import AlarmOptions
from waystation.waitingroom.operating.codes import MOST_AT_ONCE, MOST_USES
from waystation.waitingroom.operating.control import (
    LONGEST_FAIL_OPEN_S,
    LONGEST_MESSAGE,
    LONGEST_RAMP_S,
)
from waystation.waitingroom.operating.history import Hour, Minute
from waystation.waitingroom.options import MOST_RATE, RoomOptions
from waystation.waitingroom.room import Room
from waystation.waitingroom.rooms import Rooms
from waystation.waitingroom.running import BATCH
from waystation.waitingroom.state import RoomState

ROOT = "/api/v1/admin/queues"
MOST_BODY = 65_536


class AdminContext:
    """The rooms, the operators and the clock, for every operator route."""

    def __init__(self, rooms: Rooms, operators: Operators, clock: Clock) -> None:
        self.rooms = rooms
        self.clock = clock
        self.operators = operators


class AdminCall(msgspec.Struct, frozen=True):
    """A request about a room, of somebody who may make it."""

    request: Request
    room: Room
    who: Operator
    operators: Operators

    async def note(self, action: str, *, before: Any = None, after: Any = None) -> None:
        """Write down who did what to the room."""
        await self.operators.note(self.who, action, self.room.name, before=before, after=after)

    async def change(self, action: str, step: Callable[[], Awaitable[object]]) -> RoomState:
        """Take a step and write down what it changed in the room's settings; the state after it."""
        before = await self.room.state()
        await step()
        after = await self.room.state()
        was, now = what_changed(before, after)
        await self.note(action, before=was, after=now)
        return after


class AdminRoutes:
    """Endpoints of operators, most of them declared with `room_endpoint`."""

    def __init__(self, context: AdminContext) -> None:
        self.context = context


def room_endpoint(
    asked: str, scope: str, **said: Unpack[Annotations]
) -> Callable[[Callable[..., Awaitable[Any]]], Routed]:
    """Declare that a method answers `POST /pause` of a room, for operators of this role."""
    verb, _, path = asked.partition(" ")

    async def opened(routes: AdminRoutes, request: Request) -> AdminCall:
        operators, name = routes.context.operators, request.slots["id"]
        who = await operators.require(request, scope, name)
        return AdminCall(request, await routes.context.rooms.find(name), who, operators)

    return annotated(f"{verb} {ROOT}/{{id}}{path}", opened, scope=scope, **said)


def what_changed(before: RoomState, after: RoomState) -> tuple[dict[str, str], dict[str, str]]:
    """The settings that two looks at a room differ in, as they were and as they are."""
    was = {k: v for k, v in before.fields.items() if after.fields.get(k) != v}
    now = {k: v for k, v in after.fields.items() if before.fields.get(k) != v}
    return was, now


LONGEST_MINUTES = 7 * 24 * 60
MOST_OPEN_MINUTES = LONGEST_FAIL_OPEN_S / 60
LONGEST_DAYS = 366
LONGEST_KEY = 256
MOST_INVITES = 1000


class NewRoom(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A room to be set up."""

    id: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
    settings: dict[str, Any] = {}
    """The names of `RoomOptions`; new_users_per_minute and total_active_users count, too."""


class Rate(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How many come in."""

    new_users_per_minute: Annotated[float, stated(minimum=0, maximum=60 * MOST_RATE)]
    ramp_seconds: Annotated[int, stated(minimum=0, maximum=LONGEST_RAMP_S)] = 0


class Minutes(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """For how long."""

    minutes: Annotated[float, stated(exclusiveMinimum=1 / 120, maximum=MOST_OPEN_MINUTES)]


class Message(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The message to all visitors, by language; an empty one takes it away."""

    text: dict[str, Annotated[str, stated(maxLength=LONGEST_MESSAGE)]]
    level: Annotated[str, stated(enum=["info", "warning"])] = "info"
    minutes: Annotated[float, stated(minimum=0, maximum=LONGEST_MINUTES)] = 0
    """How long it is shown; 0 for until it is taken away."""


class Ending(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How a room ends: the seller's words by language, and where to go on."""

    text: dict[str, Annotated[str, stated(maxLength=LONGEST_MESSAGE)]] = {}
    link: Annotated[str, stated(pattern="^(https://.*)?$", maxLength=LONGEST_MESSAGE)] = ""


class Admit(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How many to call in at once."""

    count: Annotated[int, stated(minimum=1, maximum=BATCH)]
    lane: Annotated[int | None, stated(enum=[None, 0, 1, 2, 3])] = None

    def __post_init__(self) -> None:
        if self.lane not in (None, 0, 1, 2, 3):
            raise ValueError("lane must be 0 to 3")


class Confirm(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The room's name, typed."""

    confirm: str


Instant = Annotated[datetime, msgspec.Meta(tz=True)]


class NewEvent(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Something planned for a room."""

    event_start_time: Instant
    event_end_time: Instant
    name: str = ""
    prequeue_start_time: Instant | None = None
    """From when people may gather; nothing to open without a pre-queue."""
    shuffle_at_event_start: bool = False
    """Whether those who gathered are drawn by lot."""
    witness: Annotated[str, stated(pattern="^([0-9a-f]{64})?$")] = ""
    """The SHA-256 of a second party's secret that the draw waits for."""
    settings: dict[str, Any] = {}
    """What is different while it lasts, in the names of a room's settings."""


class PlannedEvent(msgspec.Struct, kw_only=True):
    """An event, and how the room is set up while it lasts."""

    id: str
    name: str
    status: str
    """planned, gathering or running."""
    event_start_time: str
    event_end_time: str
    prequeue_start_time: str | None
    shuffle_at_event_start: bool
    witness: str
    commit: str | None
    """The digest of the seed that its draw is held with; publish it."""
    settings: dict[str, Any]


class Events(msgspec.Struct, kw_only=True):
    """What is planned."""

    events: list[PlannedEvent]


class Stats(msgspec.Struct, kw_only=True):
    """The numbers of an instant and of its hour."""

    now: str
    serving_state: str
    waiting: list[int]
    prequeued: int
    returned: int
    called: int
    missed: int
    active: int
    max_active: int
    rate_per_minute: float
    admission_rate_actual: float | None
    wait_p50: float | None
    wait_p90: float | None
    hour: dict[str, int]
    model: str
    alarms: dict[str, str]
    """The alarms that are on, and what they say."""
    message: dict[str, str] = {}
    """The message that visitors see now, by language."""
    served: bool = True
    """Whether any process lets people in: one has looked at the room in the last seconds."""


LaneNumber = Annotated[int, msgspec.Meta(ge=0, le=3)]


class NewInvites(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Invitations to be signed."""

    keys: Annotated[
        list[Annotated[str, stated(minLength=1, maxLength=LONGEST_KEY)]],
        stated(minItems=1, maxItems=MOST_INVITES),
    ]
    """Whom they are for, in the words of the site: one place for each, however often it is used."""
    lane: LaneNumber = 0
    minutes: Annotated[float, stated(minimum=1, maximum=LONGEST_DAYS * 1440)] = 1440
    address: Annotated[
        str, stated(anyOf=[{"const": ""}, {"format": "ipv4"}, {"format": "ipv6"}])
    ] = ""
    """The only network it counts from, if any."""


class Invite(msgspec.Struct, kw_only=True):
    """One invitation."""

    key: str
    jti: str
    ticket: str
    url: str
    expires_at: str


class Invites(msgspec.Struct, kw_only=True):
    """Invitations."""

    invites: list[Invite]


class NewCodes(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Access codes to be made."""

    batch: Annotated[str, stated(pattern="^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
    """A name to find them by."""
    count: Annotated[int, stated(minimum=1, maximum=MOST_AT_ONCE)]
    uses: Annotated[int, stated(minimum=1, maximum=MOST_USES)] = 1
    """Visitors that each of them lets in."""
    lane: LaneNumber = 0
    minutes: Annotated[float, stated(minimum=0, maximum=LONGEST_DAYS * 1440)] = 0
    """How long they are valid; 0 until they are revoked."""


class MadeCodes(msgspec.Struct, kw_only=True):
    """Access codes, for the only time."""

    batch: str
    codes: list[str]


class CodeBatch(msgspec.Struct, kw_only=True):
    """Codes that were made together."""

    batch: str
    lane: int
    uses: int
    codes: int
    used: int
    expires_at: str | None


class Batches(msgspec.Struct, kw_only=True):
    """All batches."""

    batches: list[CodeBatch]


class Analytics(msgspec.Struct, kw_only=True):
    """The last hours of a room."""

    queue: str
    hours: list[Hour]


class MinuteHistory(msgspec.Struct, kw_only=True):
    """The last minutes of a room."""

    queue: str
    minutes: list[Minute]


class NewWebhook(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A webhook to be added."""

    url: str
    events: list[Annotated[str, stated(enum=list(HOOK_EVENTS))]] = []
    """What they want to know; nothing for everything."""


class MadeWebhook(msgspec.Struct, kw_only=True):
    """A webhook, and its secret for the only time."""

    id: str
    url: str
    events: list[str]
    secret: str


class Webhook(msgspec.Struct, kw_only=True):
    """A webhook, and how it goes."""

    id: str
    url: str
    events: list[str]
    delivered: int
    failures: int
    last_error: str
    next_try_at: str | None


class Webhooks(msgspec.Struct, kw_only=True):
    """All webhooks of a room."""

    webhooks: list[Webhook]


class Tried(msgspec.Struct, kw_only=True):
    """What came of trying a webhook out."""

    taken: bool
    error: str


class KeyChange(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which keys to change."""

    kind: Literal["invitations", "tickets", "sessions"]
    emergency: bool = False
    """Whether not to wait until everybody knows the new key, because the old one is known."""


class KeyIds(msgspec.Struct, kw_only=True):
    """The keys of one kind of token, by their ids."""

    kind: str
    next: str
    current: str
    previous: str | None
    rotated_at: str | None


class SigningKeys(msgspec.Struct, kw_only=True):
    """All keys, by their ids."""

    keys: list[KeyIds]


class ListedSession(msgspec.Struct, kw_only=True):
    """Somebody inside."""

    session_id: str
    status: str
    started_at: str | None
    page_views: int


class Alarms(msgspec.Struct, kw_only=True):
    """The limits of a room, and the alarms that are on."""

    limits: AlarmOptions
    alarms: dict[str, str]
    """What each of them says."""


class Positions(msgspec.Struct, kw_only=True):
    """Visitors, as they see themselves."""

    positions: list[PlaceBody]


class Sessions(msgspec.Struct, kw_only=True):
    """Those inside."""

    sessions: list[ListedSession]
    """The next to expire first, a hundred at most."""
    total: int
    """How many there are."""


_BITS = ("pow_bits", "crowded_pow_bits")
OWN = (*_BITS, "invite_only", "fail_policy", "page_status", "return_hosts")
"""Fields of a room's `meta` that the HTTP API keeps besides its options."""
_SAME = {"total_active_users": "max_active", "max_active_users": "max_active"}
"""What others call an option of ours."""
_AMONG = {
    "fail_policy": ("open", "closed"),
    "invite_only": ("0", "1"),
    "page_status": ("200", "202", "429", "503"),
}


def merged(options: RoomOptions, asked: dict[str, Any]) -> tuple[RoomOptions, dict[str, str]]:
    """Options with what was asked for, and the HTTP API's own fields."""
    own = {name: asked[name] for name in OWN if name in asked}
    plain = {name: value for name, value in asked.items() if name not in OWN}
    if "new_users_per_minute" in plain:
        plain["admission_rate"] = _number(plain.pop("new_users_per_minute")) / 60
    plain = {_SAME.get(name, name): value for name, value in plain.items()}
    for name, among in _AMONG.items():
        if name in own and _field(own[name]) not in among:
            raise InvalidOption(f"{name} must be one of {', '.join(among)}, got {own[name]!r}")
    if "return_hosts" in own:
        own["return_hosts"] = _hosts(own["return_hosts"])
    for name in _BITS:
        if name in own:
            own[name] = checked_bits(int(_number(own[name])), name)
    return options.with_settings(plain), {name: _field(value) for name, value in own.items()}


def named(options: RoomOptions, asked: dict[str, Any]) -> dict[str, str]:
    """The fields of `meta` for all settings that were asked for, also those that change nothing."""
    wanted, own = merged(options, asked)
    fields = wanted.to_fields()
    names = ("admission_rate" if each == "new_users_per_minute" else each for each in asked)
    kept = (_SAME.get(each, each) for each in names)
    return {**{name: fields[name] for name in kept if name in fields}, **own}


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidOption(f"wanted a number, got {value!r}")
    return float(value)


def _hosts(value: object) -> str:
    """Hosts as they are kept, from a list of them or a text with commas in between."""
    wanted = value.split(",") if isinstance(value, str) and value else value or []
    given = cast("list[object]", wanted) if isinstance(wanted, list) else [wanted]
    hosts = [each.strip() for each in given if isinstance(each, str)]
    if len(hosts) < len(given) or not all(is_host(each) for each in hosts):
        raise InvalidOption(
            f"return_hosts must be hosts such as shop.example or localhost:8000, got {value!r}"
        )
    return ",".join(hosts)


def _field(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if not isinstance(value, str | int | float):
        raise InvalidOption(f"wanted a plain value, got {type(value).__name__}")
    return str(value)
