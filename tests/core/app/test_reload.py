"""`--reload`: the process starts anew when a source file changes."""

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from waystation.core.app.reload import CHILD, Supervisor, modified

WORKS = """
import os, pathlib, signal, sys, time
import shop
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
with pathlib.Path("seen").open("a") as file:
    file.write(shop.word + os.environ["%s"] + " ")
time.sleep(60)
"""


def test_a_changed_file_starts_the_process_anew_and_a_broken_one_waits_for_the_next(
    tmp_path: Path,
) -> None:
    (tmp_path / "works.py").write_text(WORKS % CHILD)
    shop, seen = tmp_path / "shop.py", tmp_path / "seen"

    def write(text: str, at: int) -> None:
        shop.write_text(text)
        os.utime(shop, (at, at))

    write("word = 'a'", 1)
    ended: list[int] = []

    def change() -> None:
        _until(lambda: seen.exists() and seen.read_text() == "a1 ")
        write("word = ", 2)
        time.sleep(1.5)
        write("word = 'b'", 3)
        _until(lambda: seen.read_text() == "a1 b1 ")
        os.kill(os.getpid(), 15)

    changing = threading.Thread(target=change)
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        changing.start()
        ended.append(Supervisor([sys.executable, "works.py"], tmp_path).run())
    finally:
        changing.join()
        os.chdir(before)
    assert ended == [0]


def test_only_source_files_of_one_s_own_are_watched(tmp_path: Path) -> None:
    for name in ("shop.py", "a/b.py", ".venv/x.py", "__pycache__/y.py", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    found = {Path(path).relative_to(tmp_path).as_posix() for path, _ in modified(tmp_path)}
    assert found == {"shop.py", "a/b.py"}


def _until(done: Callable[[], bool]) -> None:
    for _ in range(600):
        if done():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to that")
