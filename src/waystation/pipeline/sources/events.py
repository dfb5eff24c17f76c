"""`waystation.events` and `waystation.streams`: Redis streams as DataFrames, at once or followed.

    spark.readStream.format("waystation.events").option("url", "redis://…").option("queues", "mail")
    spark.readStream.format("waystation.streams").option("streams", "orders,clicks:*")

The rows of the first are those of the table `events`; a row of the second is an entry, with its
fields as text. A row whose `_range` is not null reports on a range of a stream, and how many of its
entries were gone before they could be read.
"""
# ruff: noqa: N802 (Spark calls the methods so)

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from waystation.pipeline.options import parse
from waystation.pipeline.sources.columns import ENTRY_ROWS, ROWS
from waystation.pipeline.sources.redis_streams import ENTRY_FORM, EVENT_FORM
from waystation.pipeline.sources.stream_readers import StreamsFollower, StreamsReader
from waystation.pipeline.sources.streams import AnyStreamOptions, AnyStreams, EventOptions, Streams

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


class RedisStreams(DataSource):
    """The entries of any streams."""

    @classmethod
    def name(cls) -> str:
        """The name that Spark knows it by."""
        return "waystation.streams"

    def schema(self) -> StructType:
        """Stream, id, instant and fields of an entry, and `_range`."""
        return ENTRY_ROWS

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read what the streams hold now."""
        options = parse(self.options, AnyStreamOptions)
        return StreamsReader(options, AnyStreams(options), ENTRY_FORM)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Read what the streams hold and what is added to them."""
        options = parse(self.options, AnyStreamOptions)
        return StreamsFollower(options, AnyStreams(options), ENTRY_FORM)
