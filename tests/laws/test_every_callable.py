"""Every public callable: a wrong kind in any parameter, or a slip in a keyword, gets a sentence."""

import asyncio
import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any, cast

import msgspec
import pytest
from redis.asyncio import Redis

from tests.support import kinds
from tests.support.things import KNOWN, OPENED
from waystation.core.errors import InvalidInput, WaystationError

PACKAGES = tuple(name for name in OPENED if name != "core")
"""Those that users import."""


@pytest.mark.parametrize("package", PACKAGES)
async def test_no_parameter_takes_what_is_not_of_its_kind(
    package: str, redis_url: str, redis: Redis
) -> None:
    complaints: list[str] = []
    things: dict[str, Any]
    async with OPENED[package](redis_url) as things:
        before = await stored(redis)
        for owner, thing in things.items():
            for name, function in kinds.methods(cast(Any, type(thing))):
                for said, args, given in kinds.calls_with_a_wrong_argument(function, KNOWN):
                    if problem := await refused(getattr(thing, name), args, given):
                        complaints.append(f"{owner}.{name}({said}): {problem}")
        assert not complaints, "\n".join(complaints)
        assert await stored(redis) == before


@pytest.mark.parametrize("package", PACKAGES)
async def test_a_slip_in_a_keyword_is_told_with_the_nearest(package: str, redis_url: str) -> None:
    complaints: list[str] = []
    things: dict[str, Any]
    async with OPENED[package](redis_url) as things:
        for owner, thing in things.items():
            for name, function in kinds.methods(cast(Any, type(thing))):
                parameters = kinds.parameters(function)
                if any(each.kind is each.VAR_KEYWORD for each in parameters):
                    continue
                for each in parameters:
                    if each.kind is each.VAR_POSITIONAL:
                        continue
                    slip = each.name + "q"
                    message = await sentence(
                        getattr(thing, name), {**kinds.needed(function, KNOWN), slip: 1}
                    )
                    if f"no option '{slip}'; did you mean {each.name}?" not in message:
                        complaints.append(f"{owner}.{name}({slip}=1): {message}")
    assert not complaints, "\n".join(complaints)


async def sentence(call: Any, given: dict[str, Any]) -> str:
    try:
        await finished(call(**given))
    except Exception as error:
        return str(error)
    return "accepted"


async def refused(call: Any, args: tuple[Any, ...], given: dict[str, Any]) -> str | None:
    """None when a call is refused with a sentence of ours, else what happened."""
    try:
        await finished(call(*args, **given))
    except InvalidInput as error:
        return None if " " in str(error) else f"says {error}"
    except WaystationError as error:
        return f"{type(error).__name__}, not an InvalidInput: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "accepted"


async def finished(answer: Any) -> None:
    # Whoever is not refused may wait for ever.
    async with asyncio.timeout(2):
        if inspect.isawaitable(answer):
            await answer
        elif hasattr(answer, "__anext__"):
            await answer.__anext__()


async def stored(redis: Any) -> dict[bytes, bytes]:
    return {key: await redis.dump(key) async for key in redis.scan_iter()}


# --- what is given -------------------------------------------------------------------------------

MADE: dict[str, dict[str, Any]] = {
    "bullmq.Backoff": {"type": "fixed"},
    "bullmq.Deduplication": {"id": "x"},
    "bullmq.Group": {"id": "x"},
    "bullmq.Limit": {"max": 1, "duration": 1},
    "bullmq.Parent": {"id": "x", "queue": "bull:mail"},
    "bullmq.PayloadOptions": {"blobs": "/nowhere"},
    "bullmq.Schedule": {"every": 60},
    "sync.PayloadOptions": {"blobs": "/nowhere"},
    "tasks.PayloadOptions": {"blobs": "/nowhere"},
    "bullmq.StoredOptions": {"raw": b"{}"},
    "waitingroom.FollowOptions": {"url": "http://localhost"},
    "waitingroom.JoinRequest": {"key": "k", "secret": "s"},
    "waitingroom.ScheduledEvent": {"id": "x", "starts_ms": 1, "ends_ms": 2},
}
"""What a struct cannot be made without."""


def given_structs() -> Iterator[tuple[str, type[msgspec.Struct]]]:
    """What programs make: options, and whatever looks at its fields when it is made."""
    for package in PACKAGES:
        module = import_module(f"waystation.{package}")
        for name in module.__all__:
            kind: Any = getattr(module, name)
            is_struct = inspect.isclass(kind) and issubclass(kind, msgspec.Struct)
            if is_struct and (name.endswith("Options") or hasattr(kind, "__post_init__")):
                yield f"{package}.{name}", cast(Any, kind)


@pytest.mark.parametrize(("name", "kind"), [*given_structs()], ids=[n for n, _ in given_structs()])
def test_no_field_takes_what_is_not_of_its_kind(name: str, kind: type[msgspec.Struct]) -> None:
    make = cast(Any, kind)
    needed = MADE.get(name, {})
    make(**needed)
    complaints: list[str] = []
    for field, annotation in kinds.fields(kind).items():
        for value in kinds.WRONG:
            if not kinds.fits(value, annotation):
                try:
                    make(**{**needed, field: value})
                    complaints.append(f"{field}={value!r}: accepted")
                except InvalidInput:
                    pass
                except Exception as error:
                    complaints.append(f"{field}={value!r}: {error!r}")
    assert not complaints, "\n".join(complaints)
