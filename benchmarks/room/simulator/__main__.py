"""A simulated crowd, faster than real time: `python -m benchmarks.room.simulator --visitors N`."""

import argparse
import asyncio
import sys

from benchmarks.room.simulator import Crowd, Simulation, Verdict
from waystation.core.app.progress import watching
from waystation.core.store import embedded
from waystation.core.store.connection import StoreOptions, connect


def main() -> int:
    """Let the crowd come, on a server of its own; 1 when a figure is not as it should be."""
    asked = argparse.ArgumentParser(prog="python -m benchmarks.room.simulator")
    asked.add_argument("--visitors", type=int, default=20_000)
    asked.add_argument("--hours", type=float, default=6.0, help="how long they keep coming")
    asked.add_argument("--seed", type=int, default=1, help="the same seed gives the same crowd")
    given = asked.parse_args()
    verdicts = asyncio.run(_run(Crowd(**vars(given))))
    for each in verdicts:
        mark = " " if not each.wanted else "✓" if each.holds else "✗"
        wanted = f"(wanted {each.wanted})" if each.wanted else ""
        print(f"{mark} {each.name:<52} {each.seen:<24} {wanted}".rstrip())
    return 0 if all(each.holds for each in verdicts) else 1


async def _run(crowd: Crowd) -> list[Verdict]:
    with embedded.ephemeral() as server, watching() as shown:
        shown.begin("people who have come and gone", total=crowd.visitors)
        # A machine that is busy for a while must not end what took hours.
        async with await connect(server.socket_url, StoreOptions(call_timeout=300)) as store:
            simulation = Simulation(
                store, crowd, progress=lambda came, here: shown.reach(came - here)
            )
            return await simulation.run()


if __name__ == "__main__":
    sys.exit(main())
