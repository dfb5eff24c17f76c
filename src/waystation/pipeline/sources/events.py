"""`waystation.events`: what the streams tell, as a DataFrame, once or for ever.

    spark.readStream.format("waystation.events").option("url", "redis://…").option("queues", "mail")

The rows are the events table's. A row whose `_range` is not null is no event: it accounts for a
stretch of a stream, and says how many of its entries were gone before they could be read.
"""
# ruff: noqa: N802 (Spark calls the methods so)

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from waystation.pipeline.options import parse
from waystation.pipeline.sources.columns import ROWS
from waystation.pipeline.sources.following import EventsStream
from waystation.pipeline.sources.present import EventsReader
from waystation.pipeline.sources.streams import EventOptions

NAME = "waystation.events"


class Events(DataSource):
    """The events of any lines and queues."""

    @classmethod
    def name(cls) -> str:
        """How Spark calls it."""
        return NAME

    def schema(self) -> StructType:
        """The events table, and what came of reading."""
        return ROWS

    def reader(self, schema: StructType) -> DataSourceReader:
        """Everything that is there now."""
        return EventsReader(parse(self.options, EventOptions))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Everything that is there and everything that comes."""
        return EventsStream(parse(self.options, EventOptions))
