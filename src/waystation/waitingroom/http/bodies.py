"""The JSON bodies of requests and answers for visitors and sites."""

from datetime import datetime
from typing import Annotated, Any

import msgspec

from waystation.core.durations import instant
from waystation.core.http.endpoints import stated


def rfc3339(at: int | datetime) -> str:
    """An instant, or milliseconds since the epoch, as RFC 3339 writes it."""
    found = at if isinstance(at, datetime) else instant(at)
    return found.isoformat(timespec="milliseconds")


class Enqueue(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Asks for a place in line."""

    ticket: str = ""
    """A signed invitation, which may name a lane."""
    code: str = ""
    """An access code, which may open one, too."""
    pow: str = ""
    """The solution of the challenge, where the room sets one."""
    captcha: Annotated[str, msgspec.Meta(max_length=8192)] = ""
    """The answer of the CAPTCHA, where the challenge is one."""
    target: str = ""
    """The path to go on to when it is the visitor's turn."""
    locale: str = ""
    h: Annotated[str, stated(pattern="^([0-9a-f]{64})?$")] = ""
    """SHA-256, in hexadecimal, of a secret that is shown when it is the visitor's turn."""
    metadata: dict[str, str | int | float | bool | None] = {}


class Beat(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Says that somebody is still there."""

    visible: bool = True
    leaving: bool = False
    """The page is being closed; the place is kept for two minutes."""
    secret: str = ""
    """That of the place, where it has one besides the visitor's key."""


class Claim(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Takes the turn."""

    secret: str = ""
    """What `h` is the digest of; a browser shows its cookie instead."""
    back: str = msgspec.field(name="return", default="")
    """The sealed address to go on to."""


class Enter(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A visitor of a site, who passes at once if nobody waits."""

    queue: str
    """The room."""
    address: Annotated[
        str, stated(anyOf=[{"const": ""}, {"format": "ipv4"}, {"format": "ipv6"}])
    ] = ""
    """The visitor's address; to name one needs the key of a connector."""
    agent: Annotated[str, msgspec.Meta(max_length=2048)] = ""
    """The name that the visitor's browser gives itself."""
    host: Annotated[str, msgspec.Meta(max_length=255)] = ""
    """The host that the visitor asked for."""


class Redeem(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A session that the waiting page has handed over."""

    token: Annotated[str, msgspec.Meta(max_length=256)]
    """What the address brought along as `wr_token`."""
    host: Annotated[str, msgspec.Meta(max_length=255)]
    """The site's own host, which the token has to be meant for."""


class Possession(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Shows that a place is one's own."""

    secret: str = ""


class Handle(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How the site reaches a visitor."""

    handle: Annotated[str, stated(pattern="^[A-Za-z0-9_.:@+-]{1,128}$")]
    """Something that means a person to the site alone, such as the id of an order."""
    secret: str = ""
    """That of the place, where it has one besides the visitor's key."""


class EstimatedWait(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Seconds; `known` is false, and stands alone, when nobody can say."""

    known: bool
    p10: float | None = None
    p50: float | None = None
    p90: float | None = None


class PlaceBody(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How things stand for one visitor."""

    queue_id: str
    position_id: str
    status: str
    """prequeued, waiting, returned, admitted, active, missed or gone."""
    serving_state: str
    estimated_wait: EstimatedWait
    poll_after_ms: int
    heartbeat_after_ms: int
    lane: int | None = None
    seq: int | None = None
    position: int | None = None
    people_ahead: int | None = None
    queue_length: int | None = None
    starts_at: str | None = None
    claim_deadline: str | None = None
    claim_url: str | None = None
    recoverable_until: str | None = None
    expires_at: str | None = None
    message: "Notice | None" = None
    token: str | None = None
    status_url: str | None = None
    snapshot_url: str | None = None
    session_token: str | None = None
    redirect_url: str | None = None
    next_heartbeat_seconds: float | None = None


class Notice(msgspec.Struct, kw_only=True):
    """The operator's message to all visitors."""

    text: dict[str, str]
    level: str = "info"
    expires_at_ms: int = 0


class Ending(msgspec.Struct, kw_only=True):
    """What the seller says when a room is over, and where to go on."""

    text: dict[str, str] = {}
    """By language; empty for the page's own words."""
    link: str = ""


class PageFacts(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the waiting page has to know about who looks at it."""

    status: str
    """The visitor's status; without a place new, invite, full, closed and the like."""
    place: PlaceBody | None = None
    """The place in line, for whoever has one."""
    message: Notice | None = None
    """What the operator says to everybody."""
    recoverable_until: str | None = None
    """Until when a missed turn can be taken back."""
    rejoinable_until: str | None = None
    """Until when somebody who left can have the old place again."""
    sealed: str = ""
    """Where the visitor wants to go, for the forms of the page."""
    target: str
    """The same, as a browser reads it."""
    ticket: str = ""
    """The invitation that the visitor came with."""
    trouble: str = ""
    """The word for what went wrong with the last step, if anything did."""
    again_s: int = 0
    """How many seconds later it may be tried again."""
    ending: Ending | None = None
    """What the seller says, once the room is over."""
    now: str
    """The instant by the server's clock, which countdowns go by."""


class SessionBegun(msgspec.Struct, kw_only=True):
    """Somebody is inside."""

    status: str
    session_id: str
    session_token: str
    expires_at: str
    max_expires_at: str
    redirect_url: str
    queue_id: str = ""


class SessionBody(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How a session stands."""

    session_id: str
    queue_id: str
    status: str
    started_at: str
    expires_at: str
    remaining_seconds: int
    page_views: int
    session_token: str | None = None


class Done(msgspec.Struct, kw_only=True):
    """The result of a step of a visitor."""

    status: str


class Left(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Somebody gave their place up."""

    status: str
    rejoinable_until: str | None = None
    """Until when they can have it again."""


class Challenge(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A little work that makes joining in bulk expensive, or a CAPTCHA."""

    algorithm: str
    """SHA-256 for work, or captcha."""
    challenge: str
    """What to work on; what the provider of a CAPTCHA knows the page by."""
    difficulty: int
    """Leading zero bits that SHA-256 of `challenge:solution` must have."""
    expires_in: int
    provider: str | None = None
    """turnstile, hcaptcha or recaptcha."""
    script_url: str | None = None
    """The script of its box."""


class PollPolicy(msgspec.Struct, kw_only=True):
    """How often to look: the wait divided by `divisor`, within bounds."""

    floor_ms: int
    ceiling_ms: int
    divisor: int


class EtaModel(msgspec.Struct, kw_only=True):
    """What it takes to work out the wait from a place, as a visitor's status has it."""

    mu: list[float]
    """People of each lane called in per second; 0 while nobody is."""
    before: list[float]
    """For each lane what to add to the people ahead: others who come first."""
    theta: float
    """The share of the line that leaves each second."""
    f10: float
    f50: float
    f90: float
    """What the formula is multiplied by in the room as a whole."""
    points: list[tuple[int, float, float, float]]
    """The same by the people who come first, oneself included; straight lines lie between."""
    by_lot: list[tuple[float, float, float] | None]
    """For each lane p10, p50 and p90 of everybody, where the place says nothing about the wait."""
    v: str


class SnapshotBody(msgspec.Struct, kw_only=True):
    """The room as anybody may see it; from it everybody works out their own place."""

    queue_id: str
    phase: str
    serving_state: str
    now: str
    serving: list[int]
    """For each lane the place before which nobody waits any more."""
    curve: list[list[tuple[int, int]]]
    """For each lane points of (seq, people ahead)."""
    rate_per_minute: float
    eta_model: EtaModel
    waiting: int
    active: int
    message: Notice | None
    poll_policy: PollPolicy
    event: dict[str, Any]


class FairnessBody(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What it takes to check the draw."""

    method: str
    commit: str | None = None
    seed: str | None = None
    beacon: str | None = None
    n: int | None = None
    opened_us: int | None = None
    digest: str | None = None
    proof_url: str | None = None
    witness: str | None = None
    """The SHA-256 of the secret of a second party, where the draw has a witness."""
    revealed: bool | None = None
    """Whether the beacon is that secret."""
    entrants: str | None = None
    """With a witness, the digest of the ids of all who take part, in order of the alphabet."""


class Reveal(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The secret of a draw's witness."""

    secret: Annotated[str, stated(pattern="^[0-9a-f]{64}$")]


class Revealed(msgspec.Struct, kw_only=True):
    """The result of revealing a secret for the draw."""

    mixed: bool
    """False when it was known already."""
