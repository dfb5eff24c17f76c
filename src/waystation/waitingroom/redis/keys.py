"""The Redis keys of a waiting room."""

from collections.abc import Sequence
from functools import lru_cache

from waystation.core.durations import instant
from waystation.core.store.keyspace import Hash, Key, Keyspace, List, Set, SortedSet, Stream, String


def room_id(name: str) -> str:
    """What a room is called in the store, with or without braces in the name that was given.

    The braces keep all keys of a room on one node of a cluster.
    """
    return name if "{" in name or "}" in name or not name else f"{{{name}}}"


@lru_cache(maxsize=1024)
def name_of(room_id: str) -> str:
    """What people call a room: its id without the braces."""
    return room_id.strip("{}")


class RoomKeys(Keyspace, root=""):
    """The keys of one room.

    The normal lane, where nearly everybody stands, has no sorted set of its own: it is whoever is
    in `positions` and in no other lane's set. That spares a seventh of the memory.
    """

    script_args = ("queue",)

    meta = Hash("queue:<name>:meta", "how the room is set up")
    state = Hash("queue:<name>:state", "what the scripts remember between calls")
    epoch = String(
        "queue:<name>:epoch", "where a room of a deleted one's name goes on", ttl="367 d"
    )

    normal_list = List("queue:<name>:waiting:0", "ids of the normal lane in order; may hold ghosts")
    elevated_list = List("queue:<name>:waiting:1", "the same for the elevated lane")
    vip_list = List("queue:<name>:waiting:2", "the same for the VIP lane")
    premium_list = List("queue:<name>:waiting:3", "the same for the premium lane")
    positions = SortedSet("queue:<name>:positions", "everybody in line, by µs: the truth on order")
    elevated = SortedSet("queue:<name>:positions:1", "those of the elevated lane among them")
    vip = SortedSet("queue:<name>:positions:2", "those of the VIP lane among them")
    premium = SortedSet("queue:<name>:positions:3", "those of the premium lane among them")
    heartbeat = SortedSet("heartbeat:<name>:active", "who waits, by the second last heard")

    prequeue = SortedSet("queue:<name>:prequeue", "who came before the room opened, by µs")
    early_elevated = SortedSet("queue:<name>:prequeue:1", "those of the elevated lane among them")
    early_vip = SortedSet("queue:<name>:prequeue:2", "those of the VIP lane among them")
    early_premium = SortedSet("queue:<name>:prequeue:3", "those of the premium lane among them")
    lottery = Hash("queue:<name>:lottery", "commitment, seed and result of the draw")
    drawn = List("queue:<name>:drawn", "ids in the order the lottery gave", ttl="24 h")

    admitted = SortedSet("queue:<name>:admitted", "whose turn it is, by the µs it is over")
    missed = SortedSet("queue:<name>:missed", "who missed a turn, by the µs it is lost for good")
    recovered = SortedSet("queue:<name>:recovered", "who took a missed turn back; next to come in")

    sessions = Set("queue:<name>:sessions:active", "ids of the sessions that have a seat")
    sessions_expiry = SortedSet("queue:<name>:sessions:expiry", "the same ids by the µs they end")

    sessions_began = SortedSet("queue:<name>:sessions:began", "the same ids by the µs they began")
    stays = Hash("queue:<name>:stays", "how long people stay inside and in line, by age", ttl="7 d")
    promises = Hash("queue:<name>:promises", "the estimates of some in line", ttl="24 h")
    ratios = Hash("queue:<name>:ratios", "how far waits were off what was expected", ttl="24 h")

    position = Hash("position:<position>", "one visitor in line", ttl="38 min")
    session = Hash("session:<position>", "one visitor inside", ttl="session length")
    owner = String("ipmap:<name>:<visitor>", "the place that a visitor has", ttl="38 min")
    newcomers = SortedSet("ratelimit:<network>:enqueue", "new places of one network", ttl="1 min")
    schedule = Hash("queue:<name>:schedule", "events that are planned, by id")
    looks = String("queue:<name>:looks", "how the waiting page looks")
    hooks = Hash("queue:<name>:webhooks", "webhooks by id: address, secret and events")
    hook_states = Hash("queue:<name>:webhooks:state", "how far each webhook has come")
    codes = Hash("queue:<name>:codes", "access codes by digest: lane, uses, end and batch")
    redeemed = Hash("queue:<name>:codes:used", "how often each code was used, and by whom")
    handover = String("handover:<name>:<token>", "a session on its way to a site", ttl="1 min")
    revocation = String("revocation:<token>", "why a token no longer counts", ttl="its token's")

    tokens = String("admission:<name>:tokens", "turns that may be given now")
    last_update = String("admission:<name>:last_update", "the second they were last counted")
    stats = Hash("stats:<name>:hourly:<hour>", "what happened in one hour", ttl="24 h")
    minutes = List("stats:<name>:minutes", "the numbers of each minute, the last first", ttl="48 h")
    model = Hash("model:<name>:eta", "what history says about waiting here", ttl="6 h")
    events = Stream("queue:<name>:events", "what happened to which visitor")

    theirs: Sequence[str] = ()
    """The keys of several visitors, for a step that takes them all."""

    def __init__(self, queue_id: str) -> None:
        super().__init__(room_id(queue_id))
        self.node = f"{{{self.tag}}}:" if self.tag else ""
        """What an id starts with that lies on the same node of a cluster as the room."""
        for line in RoomKeys.lines():
            if is_of_room(line):
                _built(self, line)
        blank = self.of("", network=_GAP)
        self._fronts = blank.position, blank.owner, blank.session
        self._limit = blank.newcomers.split(_GAP)

    @property
    def queue(self) -> str:
        """The room's id, which its scripts call its queue."""
        return self.name

    def at(self, now_ms: int) -> "RoomKeys":
        """The same keys with those of one hour filled in."""
        keys = self.within(RoomKeys, hour=hour_of(now_ms))
        _built(keys, RoomKeys.stats)
        return keys

    def whole(self, now_ms: int) -> "RoomKeys":
        """The same keys with all that a room has but the keys of its visitors, which expire."""
        own = [line for line in RoomKeys.lines() if line.name not in ("meta", "epoch")]
        theirs = [getattr(self, line.name) for line in own if is_of_room(line)]
        hours = (self.at(now_ms - hour * 3_600_000) for hour in range(25))
        return self.with_theirs([*theirs, *(each.stats for each in hours)])

    def of(self, position: str, *, visitor: str = "", network: str = "") -> "RoomKeys":
        """The same keys with those of one visitor filled in."""
        return self.within(
            RoomKeys, position=position, visitor=visitor, network=self.tagged(network)
        )

    def of_newcomers(self, newcomers: Sequence[tuple[str, str, Sequence[str]]]) -> "RoomKeys":
        """The same keys with those of several newcomers: (place, owner, networks) each."""
        place, owner, session = self._fronts
        theirs = list[str]()
        for position, visitor, networks in newcomers:
            theirs += (place + position, owner + visitor, session + position)
            theirs += self.limits_of(networks)
        return self.with_theirs(theirs)

    def limits_of(self, networks: Sequence[str]) -> list[str]:
        """Where the newcomers of some networks are counted."""
        before, after = self._limit
        return [before + network + after for network in networks]

    def with_theirs(self, theirs: Sequence[str]) -> "RoomKeys":
        """These keys, with those of several visitors."""
        keys = self.within(RoomKeys)
        keys.theirs = theirs
        return keys

    def handed_over(self, token: str) -> "RoomKeys":
        """The same keys with that of a session on its way to a site."""
        return self.within(RoomKeys, token=token)

    def revocation_of(self, token: str) -> str:
        """Where the revocation of a token is kept."""
        return self.within(RoomKeys, token=token).revocation

    def tagged(self, id: str) -> str:
        """An id that lies on the same node of a cluster as the room."""
        return self.node + id


class RoomsKeys(Keyspace, root=""):
    """What belongs to no room alone."""

    every = Set("queues", "ids of all rooms")

    def __init__(self) -> None:
        super().__init__("rooms")


def is_of_room(line: Key) -> bool:
    """Whether a key is one of the room as a whole, not of an hour or a visitor."""
    return "<" not in line.pattern_in(RoomKeys).replace("<name>", "")


def hour_of(now_ms: int) -> str:
    """An hour as the statistics name it, for example 2024010112."""
    return instant(now_ms).strftime("%Y%m%d%H")


_GAP = "\0"
"""Stands where something is still to be filled in; no name may hold it."""


def _built(keys: RoomKeys, line: Key) -> str:
    """Build a key now, so that the keys of each visitor only add their own."""
    return str(getattr(keys, line.name))
