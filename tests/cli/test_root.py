import subprocess
import sys

import pytest

from tests.support.command import Command
from waystation import __version__
from waystation.core.errors import InvalidSetting

HEAVY = ("redis", "rich", "yaml", "prometheus_client")


def test_the_version_is_told(waystation: Command) -> None:
    assert waystation("--version").stdout == f"waystation {__version__}\n"


def test_help_says_what_there_is_and_how_to_begin(waystation: Command) -> None:
    result = waystation("--help")
    assert result.returncode == 0
    assert "Queues for jobs, files and people" in result.stdout
    assert "doctor" in result.stdout
    assert "Examples:" in result.stdout
    assert result.stderr == ""


def test_help_loads_nothing_heavy() -> None:
    script = "import sys, waystation.cli.root; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert not set(HEAVY) & set(loaded.stdout.decode().split())


def test_a_misspelt_command_is_answered_with_the_nearest(waystation: Command) -> None:
    result = waystation("docter")
    assert result.returncode == 2
    assert "Did you mean 'doctor'?" in result.stderr


def test_debug_shows_where_an_error_came_from(waystation: Command) -> None:
    # Python prints what is raised here with its traceback.
    with pytest.raises(InvalidSetting):
        waystation("--debug", "config", "show", WAYSTATION_WORKER__LEASE="x")


def test_help_has_a_short_name_in_every_command(waystation: Command) -> None:
    short, long = waystation("bullmq", "jobs", "-h"), waystation("bullmq", "jobs", "--help")
    assert (short.returncode, short.stdout) == (0, long.stdout)
    assert "-h, --help" in long.stdout
    after_an_option = waystation("--debug", "bullmq", "jobs", "-h")
    assert after_an_option.stdout == long.stdout
