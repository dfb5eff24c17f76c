"""Who can do what, said once more in Python, to hold the scripts against."""

from collections.abc import Callable
from fnmatch import fnmatchcase

from waystation.routing import Target
from waystation.routing.registry import Profile


def fits(type: str, target: Target, worker: Profile) -> bool:
    """Whether the worker may take a job of this type with this target."""
    if worker.types and type not in worker.types:
        return False
    if target.server is not None:
        return target.server == worker.server
    if worker.server in target.avoid:
        return False
    categories: tuple[tuple[tuple[str, ...], Callable[[str], bool]], ...] = (
        (target.stack, lambda wanted: wanted == worker.stack),
        (target.region, lambda wanted: wanted == worker.region),
        (target.capabilities, lambda wanted: any(_glob(wanted, o) for o in worker.capabilities)),
    )
    held = [_holds(target, wanted, has) for wanted, has in categories if wanted]
    return not held or (any if target.match == "category-any" else all)(held)


def _holds(target: Target, wanted: tuple[str, ...], has: Callable[[str], bool]) -> bool:
    return (all if target.mode == "all" else any)(has(value) for value in wanted)


def _glob(text: str, pattern: str) -> bool:
    # The brackets of Python's patterns are plain characters here.
    return text == pattern or fnmatchcase(text, pattern.replace("[", "[[]"))
