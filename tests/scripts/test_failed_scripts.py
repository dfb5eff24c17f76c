"""A script that fails has moved nothing.

Every script is called once on a sound database, as a walk through its product did it; then again
with each of the keys it touches holding each of the types. Whenever it fails, the database is what
it was before. The keys are those that the script declares and those it builds, as the server saw
them; a script that only reads can move nothing and is not played.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

import waystation
from tests.scripts.calls import KINDS, Call, Replay, place_of, recorded, row_of
from tests.scripts.walks import bullmq, core, files, operators, pipeline, routing, waitingroom
from waystation.core.store.embedded import Ephemeral
from waystation.core.store.script import LuaScript
from waystation.core.store.script import text as lua_words

ROOT = Path(waystation.__file__).parent
WALKS: dict[str, Callable[[str], Awaitable[None]]] = {
    "waystation.core.store": core.walk,
    "waystation.core.operators": operators.walk,
    "waystation.pipeline.sources": pipeline.walk,
    "waystation.bullmq.redis": bullmq.walk,
    "waystation.files.redis": files.walk,
    "waystation.routing.redis": routing.walk,
    "waystation.waitingroom.redis": waitingroom.walk,
}
SCRIPTS = {
    (".".join(("waystation", *parts[: parts.index("lua")])), parts[-1].removesuffix(".lua"))
    for parts in (file.relative_to(ROOT).parts for file in ROOT.rglob("*.lua"))
    if parts[-2] != "shared"
}
"""Every script: its package and its name."""


def test_there_is_a_walk_for_every_package_with_scripts() -> None:
    assert {package for package, _ in SCRIPTS} == WALKS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("package", WALKS)
async def test_nothing_is_moved(
    own_server: Ephemeral, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    redis = Redis.from_url(own_server.url)
    with recorded(redis, monkeypatch) as calls:
        await WALKS[package](own_server.url)

    replay, moved = Replay(redis), list[str]()
    for call, spoils in played(replay, calls, package):
        found = replay.spoil(call, spoils)
        moved += [str(each) for each in found if each.error and each.has_changed]
    assert not moved, "\n".join(moved)


def played(
    replay: Replay, calls: list[Call], package: str
) -> Iterator[tuple[Call, list[tuple[str, str]]]]:
    """One call for each way through each script, and what it is to meet under which key.

    Every key gets every type on some way, and one that it should not have on each.
    """
    ways: defaultdict[str, set[Any]] = defaultdict(set)
    likenesses: set[object] = set()
    had: set[tuple[str, str, str]] = set()
    for call in calls:
        name = call.script.name
        if call.script.package != package or not writes(call.script):
            continue
        if call.likeness in likenesses:
            continue
        likenesses.add(call.likeness)
        found = replay.touched(call)
        if found is None or found.way in ways[name]:
            continue
        ways[name].add(found.way)
        spoils: list[tuple[str, str]] = []
        for key in sorted(found.keys):
            row, place = row_of(key), place_of(key)
            # A text may be of the right type and still be no number.
            wrong = {"hash", "string"} if row and row.type == "string" else {"string"}
            kinds = [kind for kind in KINDS if kind in wrong or (name, place, kind) not in had]
            had |= {(name, place, kind) for kind in kinds}
            spoils += [(key, kind) for kind in kinds]
        yield call, spoils
    only_read = {script.name for script in scripts_of(package) if not writes(script)}
    unseen = {name for home, name in SCRIPTS if home == package} - only_read - ways.keys()
    assert unseen == set(), "the walk does not lead past these scripts"


def scripts_of(package: str) -> list[LuaScript[Any, Any]]:
    return [script for script in LuaScript.every if script.package == package]


def writes(script: LuaScript[Any, Any]) -> bool:
    return not lua_words.only_reads(script.source)
