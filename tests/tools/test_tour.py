"""The tour as its reader has it: text to copy."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tools import tour

BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


RUN_ALL = "import runpy, sys; [runpy.run_path(program) for program in sys.argv[1:]]"


@pytest.mark.parametrize("page", tour.pages().values(), ids=tour.pages())
def test_every_stop_of_a_page_runs_when_it_is_copied(page: str, tmp_path: Path) -> None:
    frame, *stops = BLOCK.findall(page)
    assert stops
    programs = [tmp_path / f"stop_{number}.py" for number in range(len(stops))]
    for program, stop in zip(programs, stops, strict=True):
        program.write_text(_filled(frame, stop))
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL, *programs], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def _filled(frame: str, stop: str) -> str:
    (inside,) = re.findall(rf"^( +){re.escape(tour.STOP)}$", frame, re.MULTILINE)
    return frame.replace(inside + tour.STOP, textwrap.indent(stop, inside))
