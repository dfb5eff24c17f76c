"""Sending of lineage events: in a thread of its own, so that no round waits for a server."""

import os
import queue
import threading
from collections.abc import Mapping
from typing import Any

from openlineage.client.event_v2 import RunEvent
from openlineage.client.transport.file import FileConfig, FileTransport
from openlineage.client.transport.http import HttpConfig, HttpTransport

from waystation.core.errors import InvalidOption
from waystation.core.telemetry.logs import describe, get_logger

WAIT_S = 5.0
"""Seconds that a server has to answer, and that the end of a run waits for the last events."""
MOST = 1_000
"""Events that may wait to be sent; more are dropped."""
KEY_VARIABLE = "OPENLINEAGE_API_KEY"
"""Environment variable with the key of the server, as for other programs that send events."""

_log = get_logger(__name__)


class Sender:
    """Sends events in order; one that cannot be sent is dropped, and the log says so once."""

    def __init__(self, to: str) -> None:
        self._transport = transport_to(to)
        self._waiting: queue.Queue[RunEvent | None] = queue.Queue(MOST)
        self._is_failing = False
        self._thread = threading.Thread(target=self._run, name="lineage", daemon=True)
        self._thread.start()

    def send(self, event: RunEvent) -> None:
        """Send an event soon; returns at once."""
        try:
            self._waiting.put_nowait(event)
        except queue.Full:
            self._failed(TimeoutError(f"{MOST} events wait for the server"))

    def close(self, *, within: float = WAIT_S) -> None:
        """Wait for the events that are not sent yet, but not longer than some seconds."""
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(within)
        if self._thread.is_alive():
            self._failed(TimeoutError(f"the server took longer than {within} s"))

    def _run(self) -> None:
        while (event := self._waiting.get()) is not None:
            try:
                self._transport.emit(event)
                self._is_failing = False
            except Exception as error:
                self._failed(error)

    def _failed(self, error: Exception) -> None:
        if not self._is_failing:
            _log.warning("lineage_not_sent", **describe(error))
        self._is_failing = True


def transport_to(to: str, environ: Mapping[str, str] = os.environ) -> HttpTransport | FileTransport:
    """The way to a server by its URL, or to a file."""
    scheme, found, rest = to.partition("://")
    if not found or scheme == "file":
        return FileTransport(FileConfig(log_file_path=rest or to, append=True))
    if scheme not in ("http", "https"):
        raise InvalidOption(f"lineage must be an http or https URL, or a file; got {scheme}://…")
    auth: dict[str, Any] = {}
    if key := environ.get(KEY_VARIABLE):
        auth = {"type": "api_key", "apiKey": key}
    never = {"total": 0, "read": 0, "connect": 0}
    try:
        return HttpTransport(
            HttpConfig.from_dict({"url": to, "timeout": WAIT_S, "auth": auth, "retry": never})
        )
    except ValueError as error:
        raise InvalidOption(f"lineage must be a URL with a host: {error}") from None
