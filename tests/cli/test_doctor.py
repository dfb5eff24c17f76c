import json
import socket

import pytest
from redis import Redis

from tests.support.command import Command, Finished
from waystation.core.store.embedded import Ephemeral


def refused(result: Finished, code: int = 2) -> str:
    """The one line of a command that could not begin."""
    assert result.returncode == code
    assert "Traceback" not in result.stdout + result.stderr
    [line] = result.stderr.splitlines()
    return line


def verdicts(result: Finished) -> dict[str, str]:
    return {line.split()[1]: line.split()[0] for line in result.stdout.splitlines()}


def test_a_suitable_server_passes(waystation: Command, own_server: Ephemeral) -> None:
    result = waystation("doctor", WAYSTATION_STORE__URL=own_server.url)
    assert result.returncode == 0
    assert result.stderr == ""
    assert {
        "python",
        "server",
        "eviction",
        "persistence",
        "clock",
        "memory",
        "java",
        "spark",
    } <= set(verdicts(result))
    assert "fail" not in verdicts(result).values()


def test_without_a_url_the_embedded_server_is_looked_at(waystation: Command) -> None:
    result = waystation("doctor")
    assert result.returncode == 0
    assert verdicts(result)["embedded"] == "ok"
    assert verdicts(result)["eviction"] == "ok"


def test_it_can_speak_json(waystation: Command, own_server: Ephemeral) -> None:
    result = waystation("doctor", "--json", WAYSTATION_STORE__URL=own_server.url)
    page = json.loads(result.stdout)
    assert page["verdict"] in ("ok", "warn")
    assert {"about", "verdict", "sentence"} == set(page["findings"][0])


def test_a_server_that_may_evict_is_refused(waystation: Command, own_server: Ephemeral) -> None:
    with Redis.from_url(own_server.url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
    result = waystation("doctor", WAYSTATION_STORE__URL=own_server.url)
    line = refused(result)
    assert "noeviction" in line
    assert "allkeys-lru" in line
    assert verdicts(result)["eviction"] == "fail"
    assert "java" in verdicts(result)


def test_a_closed_port_is_refused_and_the_machine_still_looked_at(waystation: Command) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    result = waystation("doctor", WAYSTATION_STORE__URL=f"redis://:hunter2@127.0.0.1:{port}")
    line = refused(result, 69)
    assert f"127.0.0.1:{port}" in line
    assert verdicts(result)["store"] == "fail"
    assert "java" in verdicts(result)
    assert "hunter2" not in result.stdout + result.stderr


@pytest.mark.parametrize(
    ("url", "came"),
    [
        ("http://example.org", "'http://example.org'"),
        ("redis://me:hunter2@host:port/0", "'redis://***'"),
        ("hunter2", "'***'"),
    ],
)
def test_a_bad_url_is_refused_without_being_repeated(
    waystation: Command, url: str, came: str
) -> None:
    line = refused(waystation("doctor", WAYSTATION_STORE__URL=url))
    assert "store.url (WAYSTATION_STORE__URL) must be redis://host:port/db" in line
    assert line.endswith(f"got {came}")


def test_an_unknown_setting_is_refused(waystation: Command) -> None:
    line = refused(waystation("doctor", WAYSTATION_STORE__ULR="redis://host"))
    assert line == (
        "waystation: store.ulr (WAYSTATION_STORE__ULR) is not a setting; did you mean store.url?"
    )
