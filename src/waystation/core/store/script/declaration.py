"""Script declarations: a typed Python function for each `.lua` file.

The function's name is the file's, its keyspace has the keys and the first arguments that it says
(`script_args`), its keyword arguments are the others that the file's header lists, and `reply`
reads the answer:

    @script(reply=bool)
    async def complete(redis: Client, keys: JobKeys, *, id: str, token: str) -> bool:
        "File a finished job away."
        ...

`make docs` writes these functions from the headers. Most processes call few of them, so a script is
read when it is first called; a test reads all.
"""

import inspect
import re
import typing
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import cached_property
from operator import attrgetter, itemgetter
from typing import Any, ClassVar, Generic, ParamSpec, Protocol, TypeVar, cast

from redis.exceptions import NoScriptError

from waystation.core.errors import (
    InvalidInput,
    NotReplicated,
    ScriptFailed,
    WaystationError,
    WrongType,
)
from waystation.core.store import faults
from waystation.core.store.keyspace import Keyspace
from waystation.core.store.script.text import Header, Source

P = ParamSpec("P")
R = TypeVar("R")

_SENDABLE = frozenset({str, bytes, int, float})


class Client(Protocol):
    """Whatever can send a command: redis-py's clients and our own pipe."""

    def execute_command(self, *args: Any) -> Awaitable[Any]:
        """Send one command and give back its answer."""
        ...


class SyncClient(Protocol):
    """Whatever can send a command and wait for it, for code that runs without a loop."""

    def execute_command(self, *args: Any) -> Any:
        """Send one command and return its answer."""
        ...


def script(
    *, reply: Callable[[Any], R]
) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], "LuaScript[P, R]"]:
    """Declare the function that calls the script of its name in its package's `lua/`."""

    def declare(declaration: Callable[P, Coroutine[Any, Any, R]]) -> "LuaScript[P, R]":
        return LuaScript(declaration, reply)

    return declare


def raw(answer: Any) -> Any:
    """The reply as it came."""
    return answer


def texts(answer: Any) -> list[str]:
    """A reply that is a list of texts; whoever writes to the store may have written others."""
    return [each.decode("utf-8", "replace") for each in answer]


class LuaScript(Generic[P, R]):
    """The way to one script: checks when declared, cheap when called."""

    every: ClassVar["list[LuaScript[Any, Any]]"] = []

    def __init__(
        self, declaration: Callable[P, Coroutine[Any, Any, R]], reply: Callable[[Any], R]
    ) -> None:
        self.name = declaration.__name__
        self.__doc__ = declaration.__doc__
        self.__wrapped__ = declaration
        self._reply = reply
        self.package = declaration.__module__.rpartition(".")[0]
        LuaScript.every.append(self)

    @classmethod
    def of(cls, package: str) -> "dict[str, LuaScript[Any, Any]]":
        """The scripts that a package has declared, by name."""
        return {each.name: each for each in cls.every if each.package == package}

    @cached_property
    def script(self) -> Source:
        """The script itself."""
        return Source(self.package, self.name, self._types)

    @cached_property
    def header(self) -> Header:
        """What the script says about itself."""
        _check_signature(self, self.script.header)
        return self.script.header

    @cached_property
    def _space(self) -> type[Keyspace]:
        """Where its keys come from."""
        kind = _keyspace(self.__wrapped__)
        return kind if isinstance(kind, type) and issubclass(kind, Keyspace) else Keyspace

    @cached_property
    def _types(self) -> dict[str, str]:
        return {key.name: key.type for key in self._space.lines()}

    @cached_property
    def args(self) -> tuple[str, ...]:
        """The arguments that a caller gives: all but those that its keys do."""
        every = self.script.header.args
        return every[len(self._space.first_args(every)) :]

    @cached_property
    def _expected(self) -> int:
        return len(self.args) + (self.header.rest is not None)

    @cached_property
    def _pick_keys(self) -> Callable[[Any], tuple[Any, ...]]:
        return _several(attrgetter, self.header.keys)

    @cached_property
    def _pick_own(self) -> Callable[[Any], tuple[Any, ...]]:
        return _several(attrgetter, self._space.first_args(self.header.args))

    @cached_property
    def _pick_args(self) -> Callable[[Any], tuple[Any, ...]]:
        return _several(itemgetter, self.args)

    @property
    def source(self) -> str:
        """The script's text."""
        return self.script.text

    @cached_property
    def sha(self) -> str:
        """The name under which the server keeps it."""
        return self.script.sha

    def __call__(self, *given: P.args, **args: P.kwargs) -> Coroutine[Any, Any, R]:
        """Take the step."""
        return self._call(args, *cast("tuple[Any, ...]", given))

    def prepare(self, *given: P.args, **args: P.kwargs) -> Callable[[], Coroutine[Any, Any, R]]:
        """Pack the step now; calling the result sends it at once, and awaiting that gets the reply.

        Where the client cannot do that, it is sent when it is awaited.
        """
        return self._prepared(args, *cast("tuple[Any, ...]", given))

    def _prepared(
        self, args: Mapping[str, Any], client: Client, keys: Any = None
    ) -> Callable[[], Coroutine[Any, Any, R]]:
        pack = getattr(client, "packed", None)
        if pack is None:
            return lambda: self._call(args, client, keys)
        count, slots = self._slots(keys, args)
        send = pack("EVALSHA", self.sha, count, *slots)
        return lambda: self._call(args, _SentAhead(client, send()), keys)

    async def _call(self, args: Mapping[str, Any], client: Client, keys: Any = None) -> R:
        count, slots = self._slots(keys, args)
        try:
            try:
                answer = await client.execute_command("EVALSHA", self.sha, count, *slots)
            except NoScriptError:
                # Nothing has run; EVAL sends the text, runs it and leaves it there for next time.
                answer = await client.execute_command("EVAL", self.source, count, *slots)
        except faults.FAULTS as error:
            for key, wanted in self._suspects(error, slots):
                if mistaken := _mistaken(key, wanted, await _type_of(client, key)):
                    raise mistaken from error
            raise self._failure(error) from error
        except NotReplicated as error:
            error.stored = self._reply(error.stored)
            raise
        return self._reply(answer)

    def call_sync(self, client: SyncClient, keys: Any = None, /, **args: Any) -> R:
        """Take the step with a client that waits."""
        count, slots = self._slots(keys, args)
        try:
            try:
                answer = client.execute_command("EVALSHA", self.sha, count, *slots)
            except NoScriptError:
                answer = client.execute_command("EVAL", self.source, count, *slots)
        except faults.FAULTS as error:
            for key, wanted in self._suspects(error, slots):
                if mistaken := _mistaken(key, wanted, client.execute_command("TYPE", key)):
                    raise mistaken from error
            raise self._failure(error) from error
        except NotReplicated as error:
            error.stored = self._reply(error.stored)
            raise
        return self._reply(answer)

    def _slots(self, keys: Any, args: Mapping[str, Any]) -> tuple[int, list[Any]]:
        if len(args) != self._expected:
            args = self._completed(args)
        slots = [*self._pick_keys(keys)]
        if self.header.rest_keys is not None:
            slots += _spread(self.header.rest_keys, getattr(keys, self.header.rest_keys))
        count = len(slots)
        slots += self._pick_own(keys)
        try:
            slots += self._pick_args(args)
            if self.header.rest is not None:
                slots += _spread(self.header.rest, args[self.header.rest])
        except KeyError as missing:
            raise TypeError(f"{self.name}() needs the argument {missing}") from None
        if not _SENDABLE.issuperset(map(type, slots)):
            _refuse_unsendable(self, count, slots)
        return count, slots

    def _completed(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        known = {*self.args, self.header.rest}
        if unknown := sorted(set(args) - known):
            raise TypeError(f"{self.name}() has no argument {', '.join(unknown)}")
        return {**(self.__wrapped__.__kwdefaults__ or {}), **args}

    def _suspects(self, error: Exception, slots: list[Any]) -> list[tuple[str, str]]:
        """The keys that may be what the server complains about, and what each should hold."""
        if "WRONGTYPE" not in str(error):
            return []
        named = zip(self.header.keys, slots, strict=False)
        return [(key, self._types[name]) for name, key in named if name in self._types]

    def _failure(self, error: Exception) -> WaystationError:
        failure = faults.to_waystation_error(error)
        if isinstance(failure, ScriptFailed) and (line := self._line(str(error))):
            return ScriptFailed(f"{self.script.where} line {line}: {failure}")
        return failure

    def _line(self, message: str) -> int | None:
        found = re.search(r"user_script: ?(\d+)", message)
        return self.script.line(int(found.group(1))) if found else None

    def __repr__(self) -> str:
        return f"<script {self.script.where}>"


class _SentAhead:
    """A client whose first command is on its way already, if there is an answer to wait for."""

    __slots__ = ("_answer", "_client")

    def __init__(self, client: Client, answer: Awaitable[Any] | None) -> None:
        self._client = client
        self._answer = answer

    def execute_command(self, *args: Any) -> Awaitable[Any]:
        """Give the answer to the first command, and send any other."""
        answer, self._answer = self._answer, None
        return self._client.execute_command(*args) if answer is None else answer


def _several(
    getter: Callable[..., Callable[[Any], Any]], names: tuple[str, ...]
) -> Callable[[Any], tuple[Any, ...]]:
    """A getter that always gives a tuple, whatever the number of names."""
    if not names:
        return lambda _: ()
    get = getter(*names)
    return get if len(names) > 1 else lambda source: (get(source),)


def _spread(name: str, values: Any) -> Any:
    if isinstance(values, str | bytes):
        raise InvalidInput(f"{name} takes a sequence of values, got {values!r}")
    return values


def _refuse_unsendable(function: LuaScript[Any, Any], count: int, slots: list[Any]) -> None:
    header = function.header
    more = count - len(header.keys)
    names = [*header.keys, *[header.rest_keys] * more, *header.args]
    for place, value in enumerate(slots):
        if isinstance(value, bool) or not isinstance(value, tuple(_SENDABLE)):
            name = names[place] if place < len(names) else header.rest
            raise InvalidInput(
                f"{name} of {function.name} must be text, bytes or a number, got {value!r}"
            )


async def _type_of(client: Client, key: str) -> Any:
    try:
        return await client.execute_command("TYPE", key)
    except NotReplicated as unconfirmed:
        # A client that waits for replicas does so for questions, too.
        return unconfirmed.stored
    except faults.FAULTS as error:
        raise faults.to_waystation_error(error) from error


def _mistaken(key: str, wanted: str, found: Any) -> WrongType | None:
    """Which of the keys it is; the server's own error names none."""
    found = found.decode() if isinstance(found, bytes) else str(found)
    if found in ("none", wanted):
        return None
    return WrongType(f"{key} must hold a {wanted}, but holds a {found}; nothing was changed")


def _keyspace(declaration: Callable[..., Any]) -> Any:
    """What the declaration says about where its keys come from."""
    parameters = inspect.signature(declaration).parameters.values()
    places = [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]
    return typing.get_type_hints(declaration).get(places[1]) if len(places) > 1 else None


def _check_signature(function: LuaScript[Any, Any], header: Header) -> None:
    declaration = function.__wrapped__
    if not inspect.iscoroutinefunction(declaration) or not declaration.__doc__:
        raise TypeError(f"{function.name} must be an async def with a docstring")
    parameters = list(inspect.signature(declaration).parameters.values())
    named = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    wanted = [*function.args, *([header.rest] if header.rest else [])]
    if set(named) != set(wanted):
        raise TypeError(
            f"{function.name} takes {', '.join(named) or 'nothing'}, "
            f"but {function.script.where} takes {', '.join(wanted) or 'nothing'}"
        )
    places = [each for each in parameters if each.kind is not each.KEYWORD_ONLY]
    if len(places) not in ((2,) if header.keys or header.rest_keys else (1, 2)):
        raise TypeError(f"{function.name} must take a client and a keyspace, then keywords")
    if header.keys or header.rest_keys:
        _check_keys(function, header)


def _check_keys(function: LuaScript[Any, Any], header: Header) -> None:
    kind = _keyspace(function.__wrapped__)
    declared = {*dir(kind), *(inspect.get_annotations(kind) if inspect.isclass(kind) else ())}
    wanted = [*header.keys, *filter(None, [header.rest_keys])]
    if missing := [key for key in wanted if key not in declared]:
        raise TypeError(
            f"{function.name} needs the keys {', '.join(missing)}, "
            f"which {getattr(kind, '__name__', kind)} does not have"
        )
