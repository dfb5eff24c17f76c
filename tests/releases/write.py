"""What this version leaves: a store with everything in it, and the history of its events.

`python -m tests.releases.write` puts both into a folder that is called as the version.
"""

import asyncio
import datetime as dt
import tarfile
import tempfile
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from redis import Redis

from tests.pipeline import mixed_entries
from tests.pipeline.batches import run_round
from tests.pipeline.rounds import history_at
from tests.releases import dump, scenes
from waystation import __version__
from waystation.core.store import embedded
from waystation.pipeline.deploys import Deploy, mark
from waystation.pipeline.history import History
from waystation.pipeline.runner import RunOptions
from waystation.pipeline.sources.streams import EventOptions

MIXED = mixed_entries.rounds(400, 3)[:2]
"""Entries that give every table rows, of jobs that are gone before the scenes begin."""


def main() -> None:
    """Write both."""
    into = Path(__file__).parent / __version__
    into.mkdir(exist_ok=True)
    inbox = Path(tempfile.gettempdir()) / f"waystation-{__version__}"
    with tempfile.TemporaryDirectory() as root:
        history = history_at(f"{root}/history")
        with _store() as (url, store), scenes.in_folder(inbox):
            for nth, each in enumerate(MIXED):
                mixed_entries.write(store, MIXED, nth)
                seconds, millis = divmod(each.clock_ms, 1000)
                with patch.object(Redis, "time", return_value=(seconds, millis * 1000)):
                    _round(history, url)
            mark(history.root, Deploy(name=__version__, deployed_at=dt.datetime.now(dt.UTC)))
            forget_mixed(store)
            left = asyncio.run(_filled(url, inbox, store))
        # Where nobody works any more, so that the history ends where the store does.
        with _store() as (url, store):
            dump.load(left, store)
            _round(history, url)
            dump.write(dump.taken(store, left.told), into / "store.json.xz")
        with tarfile.open(into / "history.tar.xz", "w:xz") as files:
            files.add(history.root, "history")
    print(into)


@contextmanager
def _store() -> Generator[tuple[str, Redis]]:
    with embedded.ephemeral() as server, Redis.from_url(server.url) as store:
        yield server.url, store


def forget_mixed(store: Redis) -> None:
    """Delete the jobs of the mixed entries; what has happened to them stays in the streams."""
    client: Any = store
    of_jobs = [key for key in client.scan_iter("bull:*") if client.type(key) != b"stream"]
    client.delete(*mixed_entries.LISTS, *of_jobs)


def options(url: str) -> RunOptions:
    """How a round of such a history runs."""
    return RunOptions(events=EventOptions(url=url), payloads=mixed_entries.PAYLOADS)


def _round(history: History, url: str) -> None:
    ran = run_round(history, options(url))
    assert ran.events, ran
    assert not ran.failed_checks, ran.failed_checks


async def _filled(url: str, inbox: Path, store: Redis) -> dump.Dump:
    async with AsyncExitStack() as held:
        return dump.taken(store, await scenes.fill(url, inbox, held))


if __name__ == "__main__":
    main()
