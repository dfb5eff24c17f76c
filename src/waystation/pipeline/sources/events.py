"""`waystation.events`: the event streams as a DataFrame, in one batch or as a stream.

    spark.readStream.format("waystation.events").option("url", "redis://…").option("queues", "mail")

The rows are those of the table `events`. A row whose `_range` is not null is no event: it reports
on a range of a stream, and how many of its entries were gone before they could be read.
"""
# ruff: noqa: N802 (Spark calls the methods so)

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from waystation.pipeline.options import parse
from waystation.pipeline.sources.columns import ROWS
from waystation.pipeline.sources.redis_streams import EVENT_FORM
from waystation.pipeline.sources.stream_readers import StreamsFollower, StreamsReader
from waystation.pipeline.sources.streams import EventOptions, Streams

NAME = "waystation.events"


class Events(DataSource):
    """The events of any products and queues."""

    @classmethod
    def name(cls) -> str:
        """The name that Spark knows it by."""
        return NAME

    def schema(self) -> StructType:
        """The columns of the table `events`, and `_range`."""
        return ROWS

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read what the streams hold now."""
        return EventsReader(parse(self.options, EventOptions))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Read what the streams hold and what is added to them."""
        return EventsStream(parse(self.options, EventOptions))


class EventsReader(StreamsReader):
    """Reads the event streams as they are now."""

    def __init__(self, options: EventOptions) -> None:
        super().__init__(options, Streams(options), EVENT_FORM)


class EventsStream(StreamsFollower):
    """Follows the event streams from offset to offset."""

    def __init__(self, options: EventOptions) -> None:
        super().__init__(options, Streams(options), EVENT_FORM)
