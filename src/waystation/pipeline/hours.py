"""Hours: the set of hours that a batch of events touched."""

import datetime as dt

import msgspec

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Hours(msgspec.Struct, frozen=True):
    """Hours in which something happened, each by its start in UTC."""

    starts: tuple[dt.datetime, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.starts)

    @property
    def days(self) -> list[dt.date]:
        """The days of these hours and the days next to them, because clocks differ."""
        day = dt.timedelta(days=1)
        return sorted({hour.date() + step * day for hour in self.starts for step in (-1, 0, 1)})

    @property
    def dates(self) -> list[dt.date]:
        """The days of these hours."""
        return sorted({hour.date() for hour in self.starts})

    @property
    def bounds(self) -> tuple[dt.datetime, dt.datetime]:
        """The first instant of these hours, and the one after the last."""
        if not self.starts:
            return _EPOCH, _EPOCH
        return min(self.starts), max(self.starts) + dt.timedelta(hours=1)
