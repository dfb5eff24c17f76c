"""A script declares each key that it writes.

While a slot of a cluster moves, a script runs where its declared keys are; one that writes another
key makes it a second time, on the wrong node. A key with a fixed name is declared. A script that
writes keys whose names are only known inside declares one that never exists besides: as long as the
slot moves, the server then answers TRYAGAIN and runs nothing.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.scripts.test_failed_scripts import WALKS, scripts_of
from waystation.core.store.script import LuaScript
from waystation.core.store.script import text as lua_words

UNDECLARED: dict[str, set[str]] = {
    "waystation.bullmq.redis": {
        "add_flow",
        "remove_child_dependency",
        "remove_job",
        "remove_unprocessed_children",
        "sweep",
    },
    "waystation.routing.redis": {"claim_job", "process_cron", "process_delayed", "release_lock"},
    "waystation.waitingroom.redis": {"join"},
}
"""Scripts that write keys which they do not declare: those of BridgeMQ have its keys, and others
reach into the queue of another job, behind a key that never exists."""
NEVER_THERE = {"absent", "unmoved"}
"""Keys of a keyspace that are declared and never written."""
_ALL_KEYS = frozenset({"DEL", "UNLINK", "RENAME", "MSET"})
"""Commands of which every argument is a key, or may be one."""


def written(text: str) -> Iterator[str]:
    """What stands for a key in each command that writes, as the script has it."""
    words = lua_words.tokens(text)
    for at, word in enumerate(words):
        if word != "redis" or words[at + 2 : at + 4] not in (["call", "("], ["pcall", "("]):
            continue
        command, *arguments = _arguments(words, at + 4)
        name = command.strip("'\"")
        if name == command or lua_words.only_reads(f"redis.call({command},") or not arguments:
            continue
        yield from arguments if name in _ALL_KEYS else arguments[:1]


def _arguments(words: list[str], at: int) -> list[str]:
    """The arguments of a call, each as one text."""
    found, depth = [""], 0
    while depth or words[at] != ")":
        if words[at] == "," and not depth:
            found.append("")
        else:
            depth += (words[at] in "({[") - (words[at] in ")}]")
            found[-1] += words[at]
        at += 1
    return found


def undeclared(script: LuaScript[Any, Any]) -> set[str]:
    """What a script writes and neither declares nor guards by a key that never exists."""
    declared = {*script.header.keys, script.header.rest_keys}
    guarded = not NEVER_THERE.isdisjoint(declared)
    found: set[str] = set()
    for key in written(script.source):
        owner, _, name = key.rpartition(".")
        is_fixed = name.isidentifier() and (owner.isidentifier() or not owner)
        if (is_fixed and name in declared) or "KEYS" in key:
            continue
        if re.fullmatch(r"[\w.]+\[\w+\]", key):
            # One of a list of keys that were declared by their places.
            continue
        if is_fixed and not owner and not _is_built(name, script.source):
            # What a helper is given: its caller has declared it, or is seen to build it.
            continue
        if not guarded or (is_fixed and owner):
            found.add(key)
    return found


def _is_built(name: str, source: str) -> bool:
    return re.search(rf"\b{name}\b[^=\n]* = [^=\n]*\.\.", source) is not None


@pytest.mark.parametrize("package", WALKS)
def test_every_written_key_is_declared(package: str) -> None:
    """What is on the list does not do so yet; the list may only get shorter."""
    found = {script.name: keys for script in scripts_of(package) if (keys := undeclared(script))}
    known = UNDECLARED.get(package, set())
    assert {name: keys for name, keys in found.items() if name not in known} == {}
    assert known <= found.keys()


def test_a_key_that_is_built_is_seen() -> None:
    text = "redis.call('SET', line.data .. f(a, b), 1) redis.call('GET', x) redis.call('DEL', a, b)"
    assert [*written(text)] == ["line.data..f(a,b)", "a", "b"]
