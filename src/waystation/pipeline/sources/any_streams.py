"""`waystation.streams`: any Redis streams as a DataFrame.

    spark.readStream.format("waystation.streams").option("streams", "orders,clicks:*")

A row is an entry, with its fields as text. A row whose `_range` is not null is no entry: it reports
on a range of a stream, and how many of its entries were gone before they could be read.
"""
# ruff: noqa: N802 (Spark calls the methods so)

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from waystation.pipeline.options import parse
from waystation.pipeline.sources.columns import ENTRY_ROWS
from waystation.pipeline.sources.redis_streams import ENTRY_FORM
from waystation.pipeline.sources.stream_readers import StreamsFollower, StreamsReader
from waystation.pipeline.sources.streams import AnyStreamOptions, AnyStreams

NAME = "waystation.streams"


class RedisStreams(DataSource):
    """The entries of any streams."""

    @classmethod
    def name(cls) -> str:
        """The name that Spark knows it by."""
        return NAME

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
