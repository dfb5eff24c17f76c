"""Spark types as Arrow types. Internal."""

from typing import Any

from pyspark.sql import types as spark
from pyspark.sql.types import StructType

from waystation.core.errors import InvalidInput
from waystation.pipeline.storage.arrow import Kind, pa

_PLAIN: dict[type[spark.DataType], Kind] = {
    spark.BooleanType: pa.bool_(),
    spark.ByteType: pa.int8(),
    spark.ShortType: pa.int16(),
    spark.IntegerType: pa.int32(),
    spark.LongType: pa.int64(),
    spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(),
    spark.StringType: pa.string(),
    spark.BinaryType: pa.binary(),
    spark.DateType: pa.date32(),
    # The session's time zone is UTC.
    spark.TimestampType: pa.timestamp("us", tz="UTC"),
    spark.TimestampNTZType: pa.timestamp("us"),
}


def schema_of(columns: StructType) -> Any:
    """A Spark schema as an Arrow schema."""
    return pa.schema(_fields(columns))


def _fields(columns: StructType) -> list[Any]:
    return [_field(each.name, each.dataType, each.nullable) for each in columns]


def _field(name: str, kind: spark.DataType, nullable: bool) -> Any:
    return pa.field(name, _kind(kind), nullable=nullable)


def _kind(kind: spark.DataType) -> Kind:
    match kind:
        case spark.ArrayType():
            return pa.list_(_field("element", kind.elementType, kind.containsNull))
        case spark.MapType():
            return pa.map_(
                _field("key", kind.keyType, False),
                _field("value", kind.valueType, kind.valueContainsNull),
            )
        case StructType():
            return pa.struct(_fields(kind))
        case spark.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case _ if type(kind) in _PLAIN:
            return _PLAIN[type(kind)]
        case _:
            raise InvalidInput(f"a table cannot hold a column of the type {kind.simpleString()}")
