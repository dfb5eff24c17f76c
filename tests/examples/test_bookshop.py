"""The bookshop of the examples: its own tests, and its programs as the README starts them."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import LIMIT_S
from tests.support.processes import running
from tests.support.project import ROOT

pytestmark = pytest.mark.slow


def test_its_own_tests_pass() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "examples/bookshop"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=4 * LIMIT_S,
    )
    assert done.returncode == 0, done.stdout
    assert "8 passed" in done.stdout


def test_a_delivery_is_counted_once_whatever_happens() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "waystation", "drill", "examples.bookshop.drills"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=4 * LIMIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("receive  idempotent")


def test_a_script_adds_deliveries_that_a_worker_puts_on_the_shelf(
    tmp_path: Path, redis_url: str
) -> None:
    place = {"WAYSTATION_STORE__URL": redis_url, "PYTHONPATH": str(ROOT)}
    (tmp_path / "list.csv").write_text("number,isbn,copies\nD-1,978-0,12\nD-2,978-0,30\n")

    def program(name: str, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", f"examples.bookshop.{name}", *arguments],
            cwd=tmp_path,
            env=os.environ | place,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    program("stock", "978-0", "Emma", "3")
    command = ("-m", "waystation", "tasks", "work", "examples.bookshop.tasks:tasks")
    with running(tmp_path, *command, **place):
        for _ in range(2):
            assert program("deliveries", "list.csv") == (
                "D-1 is on the shelf\nD-2 is on the shelf\n"
            )

    with sqlite3.connect(tmp_path / "bookshop.db") as database:
        assert database.execute("select stock from books").fetchall() == [(45,)]
    database.close()
