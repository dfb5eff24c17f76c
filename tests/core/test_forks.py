"""What a process that was forked finds of locks and of attributes that are made once."""

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.patience import LIMIT_S
from waystation.core.forks import Lock, MadeOnce
from waystation.core.runtime.handlers import calls
from waystation.errors import WrongState
from waystation.waitingroom.middleware.connector import Connector
from waystation.waitingroom.middleware.gate import GateOptions

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Held:
    """Work in another thread, which stands still in the middle."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.goes_on = threading.Event()

    def stand(self, *_: Any) -> None:
        """Wait, unless this is another process."""
        if os.getpid() == self._pid:
            self.begun.set()
            assert self.goes_on.wait(LIMIT_S)

    def forked_while(self, work: Callable[[], Any], in_child: Callable[[], bool]) -> bool:
        """Whether the child could do this, forked while a thread was in the middle of its work."""
        self._pid = os.getpid()
        thread = threading.Thread(target=work)
        thread.start()
        assert self.begun.wait(LIMIT_S)
        if (child := os.fork()) == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(5)
            try:
                os._exit(0 if in_child() else 1)
            finally:
                os._exit(2)
        self.goes_on.set()
        thread.join()
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_lock_is_free_in_a_process_that_was_forked() -> None:
    held, lock = Held(), Lock()

    def work() -> None:
        with lock:
            held.stand()

    def in_child() -> bool:
        with lock:
            return not lock.acquire(blocking=False)

    assert held.forked_while(work, in_child)
    assert lock.acquire(blocking=False)


def test_an_attribute_can_be_made_in_a_process_that_was_forked() -> None:
    held = Held()

    class Thing:
        @MadeOnce
        def part(self) -> list[int]:
            held.stand()
            return []

    thing = Thing()
    assert held.forked_while(lambda: thing.part, lambda: thing.part == [])
    assert thing.part is thing.part


def test_a_site_asks_its_room_in_a_process_that_was_forked() -> None:
    held = Held()
    options = GateOptions()
    connector = Connector("http://room", options)
    cast_link: Any = connector.link
    cast_link.refresh = lambda: held.stand() or 60.0

    def in_child() -> bool:
        connector.refresh()
        return not connector.is_stale

    assert held.forked_while(connector.refresh, in_child)


def test_a_process_that_a_handler_forks_does_not_wait_for_its_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = Held()

    class Pipe:
        send = held.stand

        def recv(self) -> tuple[str, tuple[None, None]]:
            return calls.DONE, (None, None)

    pipe: Any = Pipe()
    monkeypatch.setattr(calls, "_parent", None)
    parent = calls.connected_to(pipe)
    view = calls.CallsToParent(1)

    def in_child() -> bool:
        with pytest.raises(WrongState):
            view.ask(calls.Call("log"))
        return True

    with parent.working():
        assert held.forked_while(lambda: view.ask(calls.Call("log")), in_child)
