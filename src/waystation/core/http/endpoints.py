"""Endpoints: declared by a decorator, matched by a table, listed by the reference."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any, TypeAlias, TypedDict, TypeVar, Unpack

import msgspec

from waystation.core.http.exchange import MOST_BODY, Answer, Request, answer
from waystation.core.http.problems import Code, Problem

MOST_KNOWN = 1024
"""Paths whose endpoint is remembered; nearly all visitors ask for the same few."""
OPERATORS_FAIL = (400, 401, 403, 404, 409, 412, 413, 415, 422, 429, 503)
"""The statuses of the problems that operators may get."""
_OPERATORS = ("viewer", "operator", "admin")

Handler: TypeAlias = Callable[[Request], Awaitable[Answer]]
Routed: TypeAlias = Callable[[Any, Request], Awaitable[Answer]]
"""A method that answers requests."""
Method = TypeVar("Method", bound=Callable[..., Awaitable[Answer]])


class EndpointSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a declaration says about the method below it."""

    method: str
    path: str
    """With `{name}` where it varies."""
    takes: Any = None
    """What the body must be."""
    gives: Mapping[int, Any] = {}
    """What comes back, by status; None for no body or one that is no JSON."""
    query: Mapping[str, Mapping[str, Any]] = {}
    """What may be asked for behind the question mark, as JSON schemas."""
    needs: tuple[str, ...] = ()
    """What of that has to be there."""
    fails: tuple[int, ...] = ()
    """The statuses of the problems that may come back instead."""
    scope: str | None = None
    """What has to be shown: a ticket, a session, or a key that allows this; None for nothing."""


class Endpoint(EndpointSpec, frozen=True, kw_only=True):
    """One line of the table."""

    handler: Handler
    summary: str
    group: str


def stated(**schema: Any) -> msgspec.Meta:
    """What the document says about a field; checked where it is used, with words of its own."""
    return msgspec.Meta(extra_json_schema=schema)


def endpoint(
    asked: str,
    *,
    takes: Any = None,
    gives: Mapping[int, Any] | None = None,
    query: Mapping[str, Mapping[str, Any]] | None = None,
    needs: tuple[str, ...] = (),
    fails: tuple[int, ...] | None = None,
    scope: str | None = None,
) -> Callable[[Method], Method]:
    """Declare that a method answers `GET /some/{path}`; its docstring is the summary.

    What is for operators fails as all of theirs may, unless `fails` says otherwise.
    """
    method, _, path = asked.partition(" ")
    usual = OPERATORS_FAIL if scope in _OPERATORS else ()

    def declare(handler: Method) -> Method:
        said = EndpointSpec(
            method=method,
            path=path,
            takes=takes,
            gives=gives or {200: dict},
            query=query or {},
            needs=needs,
            fails=usual if fails is None else fails,
            scope=scope,
        )
        setattr(handler, _DECLARED, [*getattr(handler, _DECLARED, ()), said])
        return handler

    return declare


class Annotations(TypedDict, total=False):
    """What the annotations of a method do not say about its endpoint."""

    status: int
    most: int
    """The most bytes of the body."""
    query: Mapping[str, Mapping[str, Any]]
    needs: tuple[str, ...]
    gives: Mapping[int, Any]
    """What comes back, of a method that makes an `Answer` itself."""


def annotated(
    asked: str,
    opened: Callable[[Any, Request], Awaitable[Any]],
    *,
    scope: str,
    **said: Unpack[Annotations],
) -> Callable[[Callable[..., Awaitable[Any]]], Routed]:
    """Declare an endpoint by its method's annotations, and let in those who may ask.

    They say what the body must be (`asked`), and what comes back; nothing is a 204. `opened` raises
    a Problem for others, and else makes the method's argument.
    """
    status, most = said.pop("status", 200), said.pop("most", MOST_BODY)

    def declare(handler: Callable[..., Awaitable[Any]]) -> Routed:
        takes, made = (handler.__annotations__.get(name) for name in ("asked", "return"))

        @wraps(handler)
        async def answered(self: Any, request: Request) -> Answer:
            call = await opened(self, request)
            given = await handler(self, call, *([await request.read(takes, most)] if takes else []))
            if isinstance(given, Answer):
                return given
            return Answer(204) if made is None else answer(given, status)

        usual = {204: None} if made is None else {status: made}
        found: Any = {"gives": usual, **said}
        return endpoint(asked, takes=takes, scope=scope, **found)(answered)

    return declare


def declared(kind: type) -> Iterator[tuple[EndpointSpec, str]]:
    """Every endpoint that a class declares, and what it is for."""
    for member in vars(kind).values():
        for said in getattr(member, _DECLARED, ()):
            yield said, (member.__doc__ or "").partition("\n")[0].rstrip(".")


def offered(*by: object, group: str) -> Iterator[Endpoint]:
    """Every endpoint that these declare, in the order of their methods."""
    for each in by:
        for name, member in vars(type(each)).items():
            for said in getattr(member, _DECLARED, ()):
                yield Endpoint(
                    **msgspec.structs.asdict(said),
                    handler=getattr(each, name),
                    summary=(member.__doc__ or "").partition("\n")[0].rstrip("."),
                    group=group,
                )


_DECLARED = "_endpoints"


class Table:
    """Finds the endpoint that a request is for."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._endpoints = list(endpoints)
        self._root: dict[str, Any] = {}
        self._known: dict[tuple[str, str], tuple[Endpoint, Mapping[str, str]]] = {}
        for each in self._endpoints:
            self._add(each)

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._endpoints)

    def _add(self, endpoint: Endpoint) -> None:
        node, names = self._root, list[str]()
        for part in endpoint.path[1:].split("/"):
            if part.startswith("{"):
                names.append(part[1:-1])
                part = _ANY
            node = node.setdefault(part, {})
        node.setdefault(_HERE, {})[endpoint.method] = (endpoint, names)

    def find(self, method: str, path: str) -> tuple[Endpoint, Mapping[str, str]]:
        """The endpoint, and what its varying parts are; a Problem when there is none."""
        known = self._known.get((method, path))
        if known is None:
            known = self._look_up(method, path)
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[method, path] = known
        return known

    def _look_up(self, method: str, path: str) -> tuple[Endpoint, Mapping[str, str]]:
        values = list[str]()
        node = self._root
        for part in path[1:].split("/"):
            # An empty part would let `//x` and `/x` be two names of one thing.
            if part in node and (part or path == "/"):
                node = node[part]
            elif _ANY in node and part:
                node = node[_ANY]
                values.append(part)
            else:
                raise Problem(404, Code.NOT_FOUND, "there is nothing here")
        here = node.get(_HERE)
        if here is None:
            raise Problem(404, Code.NOT_FOUND, "there is nothing here")
        found = here.get(method) or (here.get("GET") if method == "HEAD" else None)
        if found is None:
            allowed = ", ".join(sorted(here))
            raise Problem(
                405,
                Code.METHOD_NOT_ALLOWED,
                f"{allowed} can be asked for",
                headers={"allow": allowed},
            )
        endpoint, names = found
        return endpoint, dict(zip(names, values, strict=True))


# Neither can be part of a path.
_ANY = "/{}"
_HERE = "/"
