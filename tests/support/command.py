"""`waystation` in this process: what it prints and how it ends, without the start of a Python."""

import io
import os
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from waystation.cli.root import run

Finished = CompletedProcess[str]


class Command:
    """The command in a directory of its own, and of our environment with nothing but this."""

    def __init__(
        self, home: Path, printed: pytest.CaptureFixture[str], *first: str, **environ: str
    ) -> None:
        self._home = home
        self._printed = printed
        self._first = first
        self._environ = environ

    def __call__(self, *args: str, given: str = "", **environ: str) -> Finished:
        """Run it with these words behind the first, and this on its input."""
        words = [*self._first, *args]
        self._printed.readouterr()
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self._home)
            patch.setattr("sys.stdin", io.StringIO(given))
            for name in [each for each in os.environ if "WAYSTATION" in each]:
                patch.delenv(name)
            for name, value in {**self._environ, **environ}.items():
                patch.setenv(name, value)
            with pytest.raises(SystemExit) as ended:
                run(words)
        out, err = self._printed.readouterr()
        return Finished(words, int(ended.value.code or 0), out, err)
