"""The times and the job that scenarios are written with.

Delays are whole hours, which no run reaches, or a few milliseconds, which every run waits for.
"""

from collections.abc import Sequence

from tests.wire.scenario import Job, Json

SOON = 20
HOUR = 3_600_000
NEW_YEAR_2030 = 1_893_456_000_000
NEW_YEAR_2031 = 1_924_992_000_000


def doing(name: str, *steps: Sequence[Json], **options: Json) -> Job:
    """A job that carries what its worker does."""
    return Job(name, {"do": [list(step) for step in steps]}, options)
