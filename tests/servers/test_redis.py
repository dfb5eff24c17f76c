"""The laws, and what is close to the server, on Redis instead of the Valkey of the wheel."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.scripts.test_failed_scripts import WALKS
from tests.support.programs import require_program
from tests.support.project import ROOT
from waystation.core.store import embedded
from waystation.core.store.embedded import Ephemeral

# Laws that start servers of their own or ask none, that are about Python's side of a handler, and
# those that need Spark: they hold on every server or on none.
APART = (
    "any_history", "deployments", "durability", "every_callable", "failures_are_logged",
    "full_store", "given_up", "hostile_handlers", "hostile_listeners", "how_tos", "keywords",
    "logging", "outgoing_requests", "recipes_of_telemetry", "wrong_kinds",
)  # fmt: skip
SPARK = "tests/laws/test_failing.py::test_what_a_handler_raised_is_in_the_history"
FULL = (
    "tests/laws",
    *(f"--ignore=tests/laws/test_{law}.py" for law in APART),
    f"--deselect={SPARK}_with_class_and_message",
    "tests/core/store/test_leader.py",
    "tests/core/store/test_script.py",
    "tests/bullmq/test_gaps.py",
    "tests/bullmq/test_getters.py",
    "tests/bullmq/test_queue.py",
    "tests/waitingroom/test_state_machine.py",
)


BRIEFLY = (
    "tests/laws/test_holding.py",
    "tests/core/store/test_leader.py",
    "tests/bullmq/test_queue.py",
)


@pytest.fixture
def server() -> Iterator[Ephemeral]:
    program = require_program("redis-server", package="redis-server")
    with embedded.ephemeral(program=program) as server:
        yield server


@pytest.mark.parametrize("package", WALKS)
async def test_every_script_runs_on_redis(server: Ephemeral, package: str) -> None:
    await WALKS[package](server.url)


@pytest.mark.parametrize(
    "tests",
    [pytest.param(BRIEFLY, id="some"), pytest.param(FULL, id="all", marks=pytest.mark.long)],
)
def test_what_holds_on_valkey_holds_on_redis(server: Ephemeral, tests: tuple[str, ...]) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--randomly-seed=1", *tests],
        env={**os.environ, "WAYSTATION_TEST_URL": server.url},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-5000:]
