import subprocess
import sys

from tests.cli.conftest import Waystation
from waystation import __version__

HEAVY = ("redis", "rich", "yaml", "prometheus_client")


def test_the_version_is_told(waystation: Waystation) -> None:
    assert waystation("--version").stdout == f"waystation {__version__}\n"


def test_help_says_what_there_is_and_how_to_begin(waystation: Waystation) -> None:
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


def test_a_misspelt_command_is_answered_with_the_nearest(waystation: Waystation) -> None:
    result = waystation("docter")
    assert result.returncode == 2
    assert "Did you mean 'doctor'?" in result.stderr


def test_debug_shows_where_an_error_came_from(waystation: Waystation) -> None:
    result = waystation("--debug", "config", "show", WAYSTATION_WORKER__LEASE="x")
    assert "Traceback" in result.stderr


def test_help_has_a_short_name_in_every_command(waystation: Waystation) -> None:
    short, long = waystation("bullmq", "jobs", "-h"), waystation("bullmq", "jobs", "--help")
    assert (short.returncode, short.stdout) == (0, long.stdout)
    assert "-h, --help" in long.stdout
    after_an_option = waystation("--debug", "bullmq", "jobs", "-h")
    assert after_an_option.stdout == long.stdout
