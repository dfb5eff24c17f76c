"""Plant bugs one by one, and see whether the tests named beside each catch it.

The list is `tests/mutants.toml`. Bugs are planted in a copy of the project, never in the project.
"""

import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable
from typing import NamedTuple

from tools.step import ROOT, say

LIST = ROOT / "tests" / "mutants.toml"
TREE = ROOT / "build" / "mutants"
RED, GREEN = 1, 0
"""Exit codes of pytest: some test failed, none did."""


class Mutant(NamedTuple):
    """A bug: a text of a file that occurs there once, what replaces it, and who must notice."""

    name: str
    file: str
    find: str
    replace: str
    tests: list[str]


def main() -> int:
    """Plant every bug, or those whose names contain one of the words given."""
    words = sys.argv[1:]
    chosen = [each for each in read() if not words or any(word in each.name for word in words)]
    copy_project()
    tests = sorted({test for each in chosen for test in each.tests})
    say(f"{len(chosen)} bugs to plant; first their tests without any ...")
    without = run(tests, "-n", "2", "--dist", "loadfile")
    if without.returncode != GREEN:
        say(f"{without.stdout[-3000:]}\nthe tests are red without a bug: `make test` first")
        return 2
    missed = [each.name for each in chosen if not is_caught(each)]
    say(f"{len(chosen) - len(missed)} of {len(chosen)} caught")
    return 1 if missed else 0


def read() -> list[Mutant]:
    """The bugs, in the order of the list."""
    found = tomllib.loads(LIST.read_text())["mutant"]
    return [Mutant(**each) for each in found]


def copy_project() -> None:
    """Copy what git knows, as it stands now."""
    shutil.rmtree(TREE, ignore_errors=True)
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, files.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (TREE / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, TREE / name)
    for tools in (".venv", ".tools"):
        (TREE / tools).symlink_to(ROOT / tools)


def is_caught(mutant: Mutant) -> bool:
    """Plant a bug, run its tests, take it out again, and say what came of it."""
    file = TREE / mutant.file
    healthy = file.read_text()
    file.write_text(planted(mutant, healthy))
    began = time.monotonic()
    try:
        code = run(mutant.tests).returncode
    finally:
        file.write_text(healthy)
    said = {RED: "caught", GREEN: "MISSED"}.get(code, f"broken (pytest ended with {code})")
    say(f"{said:8} {time.monotonic() - began:5.0f} s  {mutant.name}: {', '.join(mutant.tests)}")
    return code == RED


def planted(mutant: Mutant, text: str) -> str:
    """The file with the bug; refused where its place is gone or not the only one."""
    if text.count(mutant.find) != 1:
        raise LookupError(f"{mutant.name}: its text is {text.count(mutant.find)} times there")
    return text.replace(mutant.find, mutant.replace)


def run(tests: Iterable[str], *options: str) -> "subprocess.CompletedProcess[str]":
    """Run tests in the copy until the first fails."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:randomly", *options, *tests]
    environment = {**os.environ, "PYTHONPATH": str(TREE / "src")}
    return subprocess.run(
        command, cwd=TREE, env=environment, capture_output=True, text=True, check=False
    )


if __name__ == "__main__":
    sys.exit(main())
