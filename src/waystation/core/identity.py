"""Names for workers, leases and work that nobody else has."""

import getpass
import os
import random
import re
import socket
import uuid
from typing import Protocol


class Bits(Protocol):
    """Randomness as a parameter; `random.Random` is one."""

    def getrandbits(self, k: int, /) -> int:
        """A whole number of that many random bits."""
        ...


# The system's own randomness, because a forked worker must not repeat its parent's names.
_SYSTEM = random.SystemRandom()


def worker_name(*, host: str | None = None, pid: int | None = None, bits: Bits = _SYSTEM) -> str:
    """Name this process `{hostname}-{pid}-{random}`, safe inside a key."""
    place = re.sub(r"[^A-Za-z0-9._-]+", "-", socket.gethostname() if host is None else host)
    number = os.getpid() if pid is None else pid
    return f"{place.strip('-') or 'worker'}-{number}-{bits.getrandbits(32):08x}"


def lease_token(bits: Bits = _SYSTEM) -> str:
    """A secret that only the holder of one lease knows."""
    return str(uuid.UUID(int=bits.getrandbits(128), version=4))


def ordered_id(now_ms: int, bits: Bits = _SYSTEM) -> str:
    """An id that sorts by the millisecond it was made in (UUID version 7)."""
    # RFC 9562: 48 bits of time, version, 12 random bits, variant, 62 random bits.
    high = (now_ms & (2**48 - 1)) << 16 | 0x7000 | bits.getrandbits(12)
    low = 0b10 << 62 | bits.getrandbits(62)
    return str(uuid.UUID(int=high << 64 | low))


def person() -> str:
    """Whoever runs this process, as `ada@host`, for events and audit logs."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that nobody gave a name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
