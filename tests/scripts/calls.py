"""Calls of scripts, recorded with the database they met, and made again on one that was spoiled."""

import asyncio
import contextlib
import re
from collections.abc import Generator, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import pytest
from redis import Redis
from redis.exceptions import ResponseError

from waystation.core.store.keyspace import Keyspace, Row
from waystation.core.store.script import LuaScript

KINDS: dict[str, Sequence[str]] = {
    "string": ("SET", "spoiled"),
    "list": ("RPUSH", "spoiled"),
    "set": ("SADD", "spoiled"),
    "zset": ("ZADD", "1", "spoiled"),
    "hash": ("HSET", "spoiled", "yes"),
    "stream": ("XADD", "*", "spoiled", "yes"),
}
"""How a key gets each of the types."""

KEPT, NOTES = 1, 2
"""The databases for what a call met, and for what was done to the one it is made on."""

# Calls are made on database 0. The server counts its changes, so that nothing has to be compared;
# after a call that has changed nothing, only the key that was spoiled has to be put back.
_SPOIL = """
local function changes()
  return tonumber(string.match(redis.call('INFO', 'persistence'), 'changes_since_last_save:(%d+)'))
end
redis.call('SELECT', ARGV[2])
local mark, spoiled = tonumber(redis.call('GET', 'mark')), redis.call('GET', 'spoiled')
local has_changed = mark and changes() ~= mark
redis.call('SELECT', ARGV[1])
if not mark or has_changed then
  redis.call('SELECT', 0)
  redis.call('FLUSHDB')
  redis.call('SELECT', ARGV[1])
  for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', key, key, 'DB', 0) end
elseif redis.call('COPY', spoiled, spoiled, 'DB', 0, 'REPLACE') == 0 then
  redis.call('SELECT', 0)
  redis.call('DEL', spoiled)
end
redis.call('SELECT', 0)
if ARGV[4] then
  redis.call('DEL', ARGV[3])
  redis.call(ARGV[4], ARGV[3], unpack(ARGV, 5))
end
redis.call('SELECT', ARGV[2])
redis.call('SET', 'spoiled', ARGV[3])
redis.call('SET', 'mark', changes() + 1)
return has_changed and 1 or 0
"""
# The script with its calls recorded; the reply is the list of them.
_WATCHED = """
local real, calls = redis, {}
local function recorded(call)
  return function(...)
    local words = { ... }
    for at, word in ipairs(words) do words[at] = tostring(word) end
    calls[#calls + 1] = words
    return call(...)
  end
end
local redis = setmetatable(
  { call = recorded(real.call), pcall = recorded(real.pcall) }, { __index = real }
)
local function body()
BODY
end
local reply = body()
if type(reply) == 'table' and reply.err then return reply end
return calls
"""
_NUMBER = re.compile(r"\d+")
_PART = re.compile(r"<\w+>")


class Call(NamedTuple):
    """One call as it was made."""

    script: "LuaScript[Any, Any]"
    keys: int
    """How many of the slots are keys."""
    slots: tuple[Any, ...]
    database: dict[bytes, tuple[bytes, int]]
    """What every key held before, and for how many milliseconds."""

    @property
    def likeness(self) -> object:
        """What calls have in common that are likely to do the same."""
        words = (word if isinstance(word, str) and word.isalpha() else "" for word in self.slots)
        places = frozenset(place_of(str(key, errors="replace")) for key in self.database)
        return self.script.name, tuple(words), places

    @property
    def command(self) -> tuple[Any, ...]:
        """The call as the server gets it."""
        return ("EVALSHA", self.script.sha, self.keys, *self.slots)


class Touched(NamedTuple):
    """What a call does."""

    way: frozenset[str]
    """The commands that it runs, by which calls of one script are told apart."""
    keys: set[str]


class Spoiled(NamedTuple):
    """What came of a call that met something else under one of its keys."""

    call: Call
    key: str
    kind: str
    error: str | None
    has_changed: bool

    def __str__(self) -> str:
        return f"{self.call.script.script.where} with a {self.kind} under {self.key}: {self.error}"


@contextlib.contextmanager
def recorded(redis: Redis, patch: pytest.MonkeyPatch) -> Generator[list[Call]]:
    """Write down every call that is made inside, one after the other."""
    calls: list[Call] = []
    turn = asyncio.Lock()
    make: Any = vars(LuaScript)["_call"]

    async def record(script: Any, args: Any, client: Any, keys: Any = None) -> Any:
        async with turn:
            count, slots = script._slots(keys, args)
            calls.append(Call(script, count, tuple(slots), _snapshot(redis)))
            return await make(script, args, client, keys)

    def prepare(script: Any, *given: Any, **args: Any) -> Any:
        # Sent ahead it would have changed what there is before that is written down.
        return lambda: script(*given, **args)

    with patch.context() as patched:
        patched.setattr(LuaScript, "_call", record)
        patched.setattr(LuaScript, "prepare", prepare)
        yield calls


def _snapshot(redis: Redis) -> dict[bytes, tuple[bytes, int]]:
    names: Any = redis.keys("*")
    pipe = redis.pipeline(transaction=True)
    for name in names:
        pipe.dump(name)
        pipe.pttl(name)
    found = pipe.execute()
    rows = zip(names, found[::2], found[1::2], strict=True)
    return {name: (value, max(ttl, 0)) for name, value, ttl in rows if value is not None}


class Replay:
    """A server on which calls are made again."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._spoil = redis.script_load(_SPOIL)

    def touched(self, call: Call) -> Touched | None:
        """What the call does on the database that it met; None when it fails there."""
        self._keep(call)
        text = _WATCHED.replace("BODY", call.script.source)
        try:
            calls: Any = self._redis.eval(text, call.keys, *call.slots)
        except ResponseError:
            return None
        commands = [[str(word, errors="replace") for word in [*command, b""]] for command in calls]
        declared = {str(key) for key in call.slots[: call.keys]}
        known = {str(key, errors="replace") for key in call.database} | declared
        starts = tuple({f"{name.split(':')[0]}:" for name in known})
        words = {word for command in commands for word in command[1:]}
        built = {word for word in words if word in known or word.startswith(starts)}
        way = frozenset(
            f"{command[0]} {place_of(command[1])}" for command in commands if command[1:]
        )
        return Touched(way, declared | built)

    def spoil(self, call: Call, spoils: Sequence[tuple[str, str]]) -> Iterator[Spoiled]:
        """Make the call that was last kept again and again, each time with another key spoiled."""
        pipe = self._redis.pipeline(transaction=False)
        for key, kind in spoils:
            command, *value = KINDS[kind]
            pipe.execute_command("EVALSHA", self._spoil, 0, KEPT, NOTES, key, command, *value)
            pipe.execute_command(*call.command)
        pipe.execute_command("EVALSHA", self._spoil, 0, KEPT, NOTES, "nothing")
        replies: list[Any] = pipe.execute(raise_on_error=False)
        for at, (key, kind) in enumerate(spoils):
            reply = replies[2 * at + 1]
            error = str(reply) if isinstance(reply, Exception) else None
            yield Spoiled(call, key, kind, error, replies[2 * at + 2] == 1)

    def _keep(self, call: Call) -> None:
        pipe = self._redis.pipeline(transaction=False)
        pipe.execute_command("SELECT", NOTES)
        pipe.flushdb()
        pipe.execute_command("SELECT", KEPT)
        pipe.flushdb()
        for key, (value, ttl) in call.database.items():
            # Long enough that nothing runs out while the call is made over and over.
            pipe.restore(key, ttl and ttl + 3_600_000, value)
        pipe.execute_command("SELECT", 0)
        pipe.execute_command("EVALSHA", self._spoil, 0, KEPT, NOTES, "nothing")
        pipe.execute()
        self._redis.script_load(call.script.source)


@cache
def row_of(key: str) -> Row | None:
    """The line of a keyspace that declares this key; the most literal when several could."""
    return next((row for row, pattern in _rows() if pattern.fullmatch(key)), None)


@cache
def _rows() -> list[tuple[Row, re.Pattern[str]]]:
    spaces = (each for each in Keyspace.declared() if each.__module__.startswith("waystation."))
    rows = {row.pattern: row for space in spaces for row in space.table()}
    longest = sorted(rows.values(), key=lambda row: len(_PART.sub("", row.pattern)), reverse=True)
    return [
        (row, re.compile(".+".join(map(re.escape, _PART.split(row.pattern))))) for row in longest
    ]


def place_of(key: str) -> str:
    """What a key is for, so that two jobs are told apart no more than two numbers."""
    row = row_of(key)
    return row.pattern if row else _NUMBER.sub("#", key)
