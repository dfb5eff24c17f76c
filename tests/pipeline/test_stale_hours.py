"""Hours on record until the tables of gold are refreshed for them."""

import datetime as dt

from waystation.pipeline.refresh import stale_hours
from waystation.pipeline.refresh.stale_hours import Hours

NINE, TEN = (dt.datetime(2026, 3, 2, hour, tzinfo=dt.UTC) for hour in (9, 10))


def test_hours_that_another_driver_is_about_to_change_stay_on_record(root: str) -> None:
    stale_hours.record(root, 7, Hours((NINE,)))
    # As a driver that has not committed its fold yet.
    stale_hours.record(root, 8, Hours((TEN,)), of="-places")
    stale = stale_hours.read(root, until=7)
    assert stale.hours.starts == (NINE,)
    # As two drivers that have refreshed the same hours.
    for _ in range(2):
        stale_hours.clear(root, stale)
    assert stale_hours.read(root, until=8).hours.starts == (TEN,)
