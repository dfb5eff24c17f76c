import msgspec
import pytest

from waystation.cli.doctor import Verdict, server
from waystation.core.store.server import Facts, Kind

FIT = Facts(
    kind=Kind.VALKEY,
    version="9.1.0",
    policy="noeviction",
    append_only=True,
    snapshots=False,
    primary=True,
    cluster=False,
    memory_used=50 << 20,
    memory_limit=100 << 20,
    clock_skew_ms=3,
    round_trip_ms=0.2,
)


def test_a_fit_server_is_well_in_every_respect() -> None:
    assert {finding.verdict for finding in server(FIT)} == {Verdict.OK}


@pytest.mark.parametrize(
    ("change", "about", "verdict", "remedy"),
    [
        ({"kind": Kind.REDIS, "version": "6.0.9"}, "server", Verdict.FAIL, "6.2 or newer"),
        ({"primary": False}, "server", Verdict.FAIL, "use the primary's address"),
        ({"policy": "allkeys-lru"}, "eviction", Verdict.FAIL, "CONFIG SET maxmemory-policy"),
        ({"append_only": False}, "persistence", Verdict.WARN, "a restart loses everything"),
        (
            {"append_only": False, "snapshots": True},
            "persistence",
            Verdict.WARN,
            "since the last snapshot",
        ),
        ({"clock_skew_ms": 5000}, "clock", Verdict.WARN, "5000 ms ahead of ours; let both"),
        ({"clock_skew_ms": -5000}, "clock", Verdict.WARN, "5000 ms behind ours; let both"),
        ({"clock_skew_ms": 1500, "round_trip_ms": 2000.0}, "clock", Verdict.OK, "1500 ms ahead"),
        ({"memory_used": 90 << 20}, "memory", Verdict.WARN, "raise maxmemory"),
        ({"memory_used": 200 << 20}, "memory", Verdict.FAIL, "the server refuses new work"),
        ({"memory_limit": 0}, "memory", Verdict.OK, "no limit but what the machine has"),
    ],
)
def test_each_weakness_is_named_with_what_to_do(
    change: dict[str, object], about: str, verdict: Verdict, remedy: str
) -> None:
    findings = {
        finding.about: finding for finding in server(msgspec.structs.replace(FIT, **change))
    }
    assert findings[about].verdict is verdict
    assert remedy in findings[about].sentence
    others = [finding for finding in findings.values() if finding.about != about]
    assert all(finding.verdict is Verdict.OK for finding in others)
