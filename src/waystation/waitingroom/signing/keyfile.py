"""Signing keys in a file that all processes share.

A key is announced for as long as connectors may keep what they know before it signs anything, and
counts after it was replaced for as long as a token that it signed may live.
"""

import fcntl
import json
import os
import random
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from waystation.core.errors import WrongState
from waystation.waitingroom.signing.tokens import LEEWAY_S, Keyring, Kind

ANNOUNCED_S = 600
"""How long a key is shown to connectors before it may be used; they look every five minutes."""
LIFE_S = {Kind.ENQUEUE: 366 * 86_400, Kind.QUEUE: 86_400, Kind.SESSION: 86_400}
"""How long a token of each kind may count."""
_WHEN, _REPLACED = "rotated_at", "replaced_at"


class KeyFile:
    """A keyring on a disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int] | None = None

    def read(self) -> Keyring:
        """The keys; new ones when there are none."""
        if not self.path.exists():
            self._write_first(Keyring.generate(random.SystemRandom()).to_json())
        self._seen = self._mark()
        return Keyring.from_json(self.path.read_bytes())

    def changed(self) -> Keyring | None:
        """The keys if another process has changed them since they were read."""
        return self.read() if self._mark() != self._seen else None

    def rotated_at(self) -> dict[Kind, int]:
        """When each kind was last given another key, in seconds; 0 for never."""
        kept = json.loads(self.path.read_bytes()).get(_WHEN, {})
        return {kind: int(kept.get(kind.value, 0)) for kind in Kind}

    def rotate(self, kind: Kind, *, now_s: int, emergency: bool = False) -> Keyring:
        """Sign with the key that was announced; each before counts as long as its tokens live."""

        def rotated(keys: Keyring, kept: dict[str, Any]) -> None:
            _, current, *before = keys.ids(kind)
            known: dict[str, int] = kept.get(_REPLACED, {})
            replaced = {**{id: known.get(id, now_s) for id in before}, current: now_s}
            over = {id for id in before if now_s - replaced[id] >= LIFE_S[kind] + LEEWAY_S}
            keys.rotate(kind, random.SystemRandom())
            keys.retire(kind, over)
            others = {**known, **replaced}
            kept[_REPLACED] = {id: at for id, at in others.items() if id not in over}
            kept[_WHEN] = {**kept.get(_WHEN, {}), kind.value: now_s}

        least_s = 0 if emergency else ANNOUNCED_S
        return self._change(kind, rotated, now_s=now_s, least_s=least_s)

    def retire(self, kind: Kind, *, now_s: int, emergency: bool = False) -> Keyring:
        """Let what the keys before have signed count no longer."""

        def retired(keys: Keyring, _: dict[str, Any]) -> None:
            keys.retire(kind)

        least_s = 0 if emergency else LIFE_S[kind]
        return self._change(kind, retired, now_s=now_s, least_s=least_s)

    def _change(
        self,
        kind: Kind,
        step: Callable[[Keyring, dict[str, Any]], None],
        *,
        now_s: int,
        least_s: int,
    ) -> Keyring:
        with self._locked():
            kept: dict[str, Any] = json.loads(self.path.read_bytes())
            when: dict[str, int] = kept.get(_WHEN, {})
            age = now_s - when.get(kind.value, 0)
            if age < least_s:
                raise WrongState(
                    f"the last change was {age} s ago; the next may be {least_s} s after it"
                )
            keys = Keyring.from_json(json.dumps(kept))
            step(keys, kept)
            self._replace(json.dumps({**kept, **json.loads(keys.to_json())}))
        return self.read()

    @contextmanager
    def _locked(self) -> Generator[None]:
        with self.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _write_first(self, text: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        aside = self._aside(text)
        try:
            # Whoever comes first wins; the others read what is there then.
            os.link(aside, self.path)
        except FileExistsError:
            pass
        finally:
            aside.unlink()

    def _replace(self, text: str) -> None:
        self._aside(text).replace(self.path)

    def _aside(self, text: str) -> Path:
        # Named by chance: in containers on one volume every process has the same number.
        made, name = tempfile.mkstemp(dir=self.path.parent, prefix=f"{self.path.stem}.")
        aside = Path(name)
        try:
            with os.fdopen(made, "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            aside.unlink()
            raise
        return aside

    def _mark(self) -> tuple[int, int]:
        found = self.path.stat()
        return found.st_mtime_ns, found.st_ino
