"""The laws, and what is close to the server, on Redis instead of the Valkey of the wheel."""

import os
import subprocess
import sys

from tests.support.programs import require_program
from tests.support.project import ROOT
from waystation.core.store import embedded

RETOLD = (
    "tests/laws",
    "tests/core/store/test_leader.py",
    "tests/core/store/test_script.py",
    "tests/bullmq/test_gaps.py",
    "tests/bullmq/test_getters.py",
    "tests/bullmq/test_queue.py",
    "tests/waitingroom/test_state_machine.py",
)


def test_what_holds_on_valkey_holds_on_redis() -> None:
    program = require_program("redis-server", package="redis-server")
    with embedded.ephemeral(program=program) as server:
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *RETOLD],
            env={**os.environ, "WAYSTATION_TEST_URL": server.url},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 0, ended.stdout[-5000:]
