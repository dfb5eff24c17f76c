"""Work in a process of its own, so that neither its memory nor its caches are another's."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def apart(work: Callable[P, R], *given: P.args, **named: P.kwargs) -> R:
    """Do something in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *given, **named).result()
