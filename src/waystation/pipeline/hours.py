"""Hours: the set of hours that a batch of events touched."""

import datetime as dt
from typing import TYPE_CHECKING, Any

import msgspec

from waystation.pipeline.storage.arrow import pa

if TYPE_CHECKING:
    from pyspark.sql import Column

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MOST_LISTED = 100
"""Hours that a filter names one by one; more are filtered as one range."""


class Hours(msgspec.Struct, frozen=True):
    """Hours in which something happened, each by its start in UTC."""

    starts: tuple[dt.datetime, ...] = ()

    def __post_init__(self) -> None:
        # More than a filter names are a range for every reader and writer alike: a row that is
        # computed for some hours must not replace those of the hours in between.
        if len(self.starts) > MOST_LISTED:
            first, after = self.bounds
            many, hour = (after - first) // dt.timedelta(hours=1), dt.timedelta(hours=1)
            every = tuple(first + number * hour for number in range(many))
            msgspec.structs.force_setattr(self, "starts", every)

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

    def contain(self, instant: "Column") -> "Column":
        """Spark filter: the instant lies in one of these hours."""
        # Whoever has a column of Spark's has imported Spark.
        from pyspark.sql import functions as F

        hour = F.date_trunc("hour", instant)
        if len(self.starts) <= MOST_LISTED:
            return hour.isin([F.lit(each) for each in self.starts])
        return hour.between(F.lit(min(self.starts)), F.lit(max(self.starts)))

    def arrow_filter(self, hour: Any) -> Any:
        """Arrow filter: the start of an hour is one of these."""
        if len(self.starts) <= MOST_LISTED:
            return hour.isin(pa.array(self.starts, pa.timestamp("us", tz="UTC")))
        return (hour >= min(self.starts)) & (hour <= max(self.starts))

    def arrow_range(self, instant: Any) -> Any:
        """Arrow filter: an instant lies between the first and the last of these hours."""
        first, after = self.bounds
        return (instant >= first) & (instant < after)

    def delta_range(self, column: str) -> str:
        """delta-rs predicate: an instant lies in one of these hours."""
        hour, spans = dt.timedelta(hours=1), [(each, each) for each in self.starts]
        if len(spans) > MOST_LISTED:
            spans = [(min(self.starts), max(self.starts))]
        return " OR ".join(
            f"({column} >= '{first.isoformat()}' AND {column} < '{(last + hour).isoformat()}')"
            for first, last in spans
        )

    def delta_predicate(self, column: str) -> str:
        """delta-rs predicate: the start of an hour is one of these."""
        if len(self.starts) <= MOST_LISTED:
            return " OR ".join(f"{column} = '{each.isoformat()}'" for each in self.starts)
        first, last = min(self.starts), max(self.starts)
        return f"{column} >= '{first.isoformat()}' AND {column} <= '{last.isoformat()}'"
