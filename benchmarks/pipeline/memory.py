"""How much memory Spark's processes take at most."""

import threading
from pathlib import Path
from typing import Self


class PeakMemory:
    """The most that the JVM and the Python processes below this one took while it was open."""

    def __init__(self) -> None:
        self.jvm_mb = self.python_mb = 0.0
        self._done = threading.Event()
        self._watch = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._watch.join()

    def _look(self) -> None:
        while not self._done.wait(0.5):
            jvm = python = 0.0
            for pid in _below("self"):
                program = (_text(pid, "comm") or "").strip()
                if program == "java":
                    jvm += _own_mb(pid)
                elif program.startswith("python"):
                    python += _own_mb(pid)
            self.jvm_mb, self.python_mb = max(self.jvm_mb, jvm), max(self.python_mb, python)


def _below(leader: str) -> list[str]:
    found = [leader]
    for pid in found:
        tasks = Path(f"/proc/{pid}/task")
        for task in tasks.iterdir() if tasks.exists() else ():
            found += (_text(pid, f"task/{task.name}/children") or "").split()
    return found[1:]


def _own_mb(pid: str) -> float:
    """Its memory, with what processes share counted once among them."""
    for line in (_text(pid, "smaps_rollup") or "").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _text(pid: str, name: str) -> str | None:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except OSError:
        return None
