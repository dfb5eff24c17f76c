"""A crowd at a room that is open: `python -m benchmarks.room.loadtest URL`, as in the how-to."""

import argparse
import asyncio
import sys

from benchmarks.room.loadtest import Visits
from benchmarks.room.simulator import Crowd


def main() -> int:
    """Send the crowd, and say what it met; 1 when a figure is not as it should be."""
    asked = argparse.ArgumentParser(prog="python -m benchmarks.room.loadtest")
    asked.add_argument("url", help="the room, such as http://127.0.0.1:8080/api/v1/queues/shop")
    asked.add_argument("--visitors", type=int, default=20_000)
    asked.add_argument("--minutes", type=float, default=6.0, help="how long they keep coming")
    asked.add_argument("--session", type=float, default=10.0, help="seconds that half of them stay")
    given = asked.parse_args()
    crowd = Crowd(visitors=given.visitors, hours=given.minutes / 60, session_median_s=given.session)
    verdicts = asyncio.run(Visits(given.url, crowd).run())
    for each in verdicts:
        mark = " " if not each.wanted else "✓" if each.holds else "✗"
        print(f"{mark} {each.name:<52} {each.seen}")
    return 0 if all(each.holds for each in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
