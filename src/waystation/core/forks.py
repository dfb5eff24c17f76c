"""Forks: locks, and attributes made once, that a fork of the process finds free.

A process that forks has one thread, and every lock as it was: what another thread held is held for
ever. What such a thread was about to change is changed by whoever takes the lock next.
"""

import os
import threading
import weakref
from functools import cached_property
from typing import Any, Self, TypeVar, cast, overload

T = TypeVar("T")


class Lock:
    """A lock that nobody holds in a process that has just been forked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _locks.add(self)

    def acquire(self, *, blocking: bool = True) -> bool:
        """Take it; False when another thread has it and this one does not wait."""
        return self._lock.acquire(blocking)

    def release(self) -> None:
        """Give it back."""
        self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Forget whoever holds it."""
        self._lock = threading.Lock()


class MadeOnce(cached_property[T]):
    """An attribute that is made when it is first asked for; without a lock, so twice at worst.

    The standard library's holds a lock of the whole class meanwhile on Python 3.11.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...
    def __get__(self, instance: object | None, owner: type[Any] | None = None) -> Self | T:
        if instance is None:
            return self
        name = cast(str, self.attrname)
        if name in (made := vars(instance)):
            return made[name]
        # Whoever was first counts, for all threads.
        return made.setdefault(name, self.func(instance))


_locks = weakref.WeakSet[Lock]()


def _renew_all() -> None:
    for each in list(_locks):
        each.renew()


os.register_at_fork(after_in_child=_renew_all)
