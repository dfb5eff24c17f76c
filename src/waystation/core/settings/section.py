"""What every section of the settings is made of."""

from typing import Any, get_origin

import msgspec
from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from waystation.core.durations import format_duration, parse_duration
from waystation.core.errors import InvalidOption, InvalidSetting
from waystation.core.settings.sources import read_text


class Section(BaseModel):
    """Settings that belong together; a key that is not declared is refused."""

    model_config = ConfigDict(
        allow_inf_nan=False, extra="forbid", frozen=True, use_attribute_docstrings=True
    )

    @model_validator(mode="before")
    @classmethod
    def _empty_means_defaults(cls, value: Any) -> Any:
        return {} if value is None else value

    @field_validator("*", mode="before")
    @classmethod
    def _collections_from_text(cls, value: Any, info: ValidationInfo) -> Any:
        # An environment variable has no other way to say `a, b` or `{a: 1}`.
        kind = get_origin(cls.model_fields[info.field_name or ""].annotation)
        if not isinstance(value, str) or kind not in (list, tuple, dict):
            return value
        text = value.strip()
        bare = kind is not dict and not text.startswith("[")
        try:
            return read_text(f"[{text}]" if bare else text)
        except InvalidSetting:
            # What YAML cannot read, such as `**/*.pdf, *.txt`, is still a list to a person.
            return [part.strip() for part in text.split(",")] if bare else value


class Duration(msgspec.Struct, frozen=True):
    """Marks seconds that people write as `500ms`, `30s` or `1h30m`."""

    at_least: str = "0s"

    def __get_pydantic_core_schema__(
        self, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_before_validator_function(
            self._seconds,
            handler(source),
            serialization=core_schema.plain_serializer_function_ser_schema(format_duration),
        )

    def __get_pydantic_json_schema__(self, *_: object) -> dict[str, Any]:
        return {"type": "string", "examples": ["500ms", "30s", "1h30m"]}

    def _seconds(self, value: Any) -> Any:
        if isinstance(value, int | float):
            return value
        try:
            seconds = parse_duration(value if isinstance(value, str) else "")
        except InvalidOption:
            raise wanted("a duration such as 500ms, 30s or 1h30m") from None
        if seconds < parse_duration(self.at_least):
            raise wanted(f"a duration of at least {self.at_least}")
        return seconds


def wanted(what: str) -> PydanticCustomError:
    """Say what a setting wants; what came instead is added when the complaint is written."""
    return PydanticCustomError("wanted", "{what}", {"what": what})
