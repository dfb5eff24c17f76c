"""Faults: the store's own errors, translated into ours."""

import os
import re
from collections.abc import Generator
from contextlib import contextmanager

from redis import exceptions as redis

from waystation.core.errors import (
    ScriptFailed,
    StoreBusy,
    StoreError,
    StoreUnreachable,
    StoreUnsuitable,
    WaystationError,
)

CODES_OF_BUSY = (
    "BUSY",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "NOREPLICAS",
    "OOM",
    "READONLY",
    "TRYAGAIN",
)

FAULTS = (redis.RedisError, redis.RedisClusterException, OSError)
"""Everything a client may raise about the store."""

_BUSY = (
    redis.BusyLoadingError,
    redis.ClusterDownError,
    redis.MasterDownError,
    redis.MaxConnectionsError,
    redis.OutOfMemoryError,
    redis.ReadOnlyError,
    redis.TryAgainError,
)
_REFUSED = (
    redis.AuthenticationError,
    redis.AuthorizationError,
    redis.NoPermissionError,
)
_REFUSED_TEXT = re.compile(r"^(?:NOAUTH|NOPERM|WRONGPASS)\b")
# Before version 7 a server wraps what went wrong inside a script in a sentence of its own.
_BUSY_TEXT = re.compile(rf"(?:^|@user_script: ?\d+: -)({'|'.join(CODES_OF_BUSY)})\b")
_UNREACHABLE = "the store cannot be reached: "
_TLS_ALERT = re.compile(r"""got "\\x15"|^Protocol Error: b'\\x15""")
"""What a server that speaks TLS answers to plain text, as a reader of plain text shows it."""
_SETTINGS_MUST_CHANGE = (
    (
        re.compile(r"CERTIFICATE_VERIFY_FAILED[^:]*: ([^(]+)"),
        "the store's certificate is not trusted ({why}); name who has signed it, "
        "as in rediss://host?ssl_ca_certs=/path/ca.pem",
    ),
    (re.compile("WRONG_VERSION_NUMBER"), "the store does not speak TLS; use redis://"),
    (_TLS_ALERT, "the store speaks TLS; use rediss://"),
    (
        re.compile("DB index is out of range|invalid DB index"),
        "the store has no database of this number; name another one at the end of its URL, or in "
        "redis.db of files",
    ),
    (
        re.compile(r"^MOVED \d|@user_script.*-MOVED"),
        "the store is one node of a cluster; use redis+cluster://",
    ),
    (
        re.compile("same key slot|CROSSSLOT"),
        "on a cluster all keys of a queue must share a hash tag, such as the prefix {{bull}}",
    ),
)
_MOVING = re.compile("^TTL exhausted")
_NO_MASTER = re.compile(r"No master found for '(?P<service>[^']*)'")
_CONNECTING = re.compile(r"Error (?P<number>.*) connecting to \S+\.(?: (?P<cause>.+))?$", re.S)
_NUMBER = re.compile(r"(?:^|Errno )(\d+)\b")
_SCRIPT_TEXT = re.compile(r"user_script|[Ss]cript")


@contextmanager
def translated() -> Generator[None]:
    """Raise errors of the store inside the block as ours."""
    try:
        yield
    except FAULTS as error:
        raise to_waystation_error(error) from error


def to_waystation_error(error: Exception) -> WaystationError:
    """Translate an error of the client into the one of ours that says the same."""
    text = str(error)
    match error:
        case WaystationError():
            return error
        case redis.RedisError() if ours := WaystationError.from_reply(text):
            # Before any words are looked for: the sentence may quote an id that a user chose.
            return ours
        case _ if unsuitable := _must_change(text):
            return StoreUnsuitable(unsuitable)
        case redis.ClusterError() if _MOVING.search(text):
            return StoreBusy("a slot of the cluster is being moved; try again")
        case redis.ConnectionError() if found := _NO_MASTER.search(text):
            # The client lists itself, with all that it is made of, for each sentinel.
            return StoreUnreachable(
                f"{_UNREACHABLE}no sentinel names a server for {found['service']!r}"
            )
        case redis.RedisError() if isinstance(error, _BUSY) or _BUSY_TEXT.search(text):
            return StoreBusy(f"the store cannot take this now: {text}")
        case redis.RedisError() if isinstance(error, _REFUSED) or _REFUSED_TEXT.search(text):
            return StoreUnsuitable(f"the store does not let us in: {text}")
        case redis.TimeoutError() | TimeoutError():
            return StoreUnreachable("the store did not answer in time")
        case redis.ConnectionError() | redis.RedisClusterException() | OSError():
            return StoreUnreachable(_UNREACHABLE + (_cause(text) or "connection lost"))
        case _:
            return _other(text)


def of_client(error: Exception) -> Exception:
    """What a client raised during a call, of any class, as a fault of the store.

    Clients have mistakes of their own, above all while a connection is taken down; whoever called
    can do nothing about them but try again.
    """
    if isinstance(error, (*FAULTS, WaystationError)):
        return error
    return redis.ConnectionError(f"{type(error).__name__}: {error}")


def closed(sentence: str) -> StoreUnreachable:
    """The error of what has been closed, which nobody should ask again."""
    error = StoreUnreachable(sentence)
    error.for_good = True
    return error


def _must_change(text: str) -> str | None:
    for pattern, sentence in _SETTINGS_MUST_CHANGE:
        if found := pattern.search(text):
            return sentence.format(why="".join(found.groups()).strip())
    return None


def no_answer(address: object, error: StoreUnreachable) -> StoreUnreachable:
    """The error of a store that was not there when it was opened: names it, once."""
    return StoreUnreachable(
        f"no store answers at {address}: {str(error).removeprefix(_UNREACHABLE)}"
    )


def _cause(text: str) -> str:
    """What kept a client from connecting, without the address, which its reader knows."""
    found = _CONNECTING.search(text)
    if found is None:
        return text
    cause = (found["cause"] or "").removesuffix(".")
    if not cause or cause.startswith("Connect call failed"):
        # So asyncio words it, for one address or for each of several.
        numbers = set(_NUMBER.findall(found["number"]))
        if len(numbers) != 1:
            return text
        cause = os.strerror(int(numbers.pop()))
    return cause[:1].lower() + cause[1:]


def _other(text: str) -> StoreError:
    return ScriptFailed(text) if _SCRIPT_TEXT.search(text) else StoreError(text)
