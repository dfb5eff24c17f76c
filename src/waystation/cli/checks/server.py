"""Checks of the server."""

from waystation.cli.checks.finding import Finding, fail, ok, warn
from waystation.core.store.server import SAFE_POLICY, Facts, unsuitable

MOST_SKEW_MS = 1_000
"""Leases outlive a skew well above this, but times shown to people begin to look wrong."""
MOST_FULL = 0.8

_MEGABYTE = 1 << 20


def server(found: Facts) -> list[Finding]:
    """Say what a server is and what should be changed on it."""
    return [_kind(found), _eviction(found), _persistence(found), _clock(found), _memory(found)]


def _kind(found: Facts) -> Finding:
    shape = " cluster" if found.cluster else ""
    name = f"{found.kind.capitalize()} {found.version}{shape}, {found.round_trip_ms:.1f} ms away"
    complaint = unsuitable(found)
    if complaint and found.policy == SAFE_POLICY:
        return fail("server", f"{name}: {complaint}")
    return ok("server", name)


def _eviction(found: Facts) -> Finding:
    if found.policy == SAFE_POLICY:
        return ok("eviction", f"{SAFE_POLICY}: the server refuses new work rather than losing old")
    return fail("eviction", unsuitable(found) or found.policy)


def _persistence(found: Facts) -> Finding:
    if found.append_only:
        return ok("persistence", "every write goes to a log on disk")
    remedy = "run `CONFIG SET appendonly yes` and keep it in the server's configuration"
    if found.snapshots:
        return warn("persistence", f"a crash loses all since the last snapshot; {remedy}")
    return warn("persistence", f"a restart loses everything; {remedy}")


def _clock(found: Facts) -> Finding:
    skew = f"the server's clock is {abs(found.clock_skew_ms)} ms "
    skew += "ahead of ours" if found.clock_skew_ms >= 0 else "behind ours"
    # Part of what seems to be skew may be the time that the answer took.
    if abs(found.clock_skew_ms) <= MOST_SKEW_MS + found.round_trip_ms / 2:
        return ok("clock", skew)
    return warn("clock", f"{skew}; let both machines set their clocks by NTP")


def _memory(found: Facts) -> Finding:
    used = f"{found.memory_used / _MEGABYTE:.0f} MB used"
    if not found.memory_limit:
        return ok("memory", f"{used}, as much as the machine has")
    share = f"{used} of {found.memory_limit / _MEGABYTE:.0f} MB"
    if found.memory_used < MOST_FULL * found.memory_limit:
        return ok("memory", share)
    if found.memory_used >= found.memory_limit:
        return fail("memory", f"{share}: the server refuses new work; raise maxmemory")
    return warn("memory", f"{share}; raise maxmemory before the server refuses new work")
