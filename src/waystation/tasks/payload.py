"""Payloads: the arguments and the result of a task as JSON, checked against its annotations."""

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from waystation.core import codec, typed
from waystation.core.errors import InvalidInput, InvalidOption, InvalidResult, UnreadableData
from waystation.core.failure import message_of
from waystation.tasks.dependencies import Dependency
from waystation.tasks.kept import Kept

MARK = "$task"
"""The field of a job's data that says what is no argument: its version and its context."""

REFERENCE = "#/$defs/{name}"


class Payload:
    """What a function takes and returns, as the data and the result of a job."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        self.signature = inspect.signature(function)
        hints = _hints(name, function)
        fields = [
            (each.name, hints.get(each.name, Any), _field(each))
            for each in self.signature.parameters.values()
            if not isinstance(each.default, Dependency)
        ]
        self._result: Any = hints.get("return", Any)
        try:
            # By name only, because in Python a parameter without a default may follow one with.
            self._arguments = msgspec.defstruct(
                name, fields, forbid_unknown_fields=True, kw_only=True
            )
            for kind in (self._arguments, self._result):
                msgspec.json.Decoder(kind, dec_hook=typed.decode_hook)
        except (TypeError, ValueError) as error:
            raise InvalidOption(f"the annotations of {name} cannot be used: {error}") from None
        self._kept = {name: Kept(kind) for name, kind, _ in fields}
        self._kept_result = Kept(self._result)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call as a job's data, or a sentence on what is wrong with them."""
        try:
            given = self.signature.bind_partial(*args, **kwargs).arguments
        except TypeError as error:
            raise InvalidInput(f"{self.name}: {error}") from None
        for name in given:
            if isinstance(self.signature.parameters[name].default, Dependency):
                raise InvalidInput(f"{self.name}: the worker provides {name}, do not pass it")
        try:
            data = typed.plain(given)
            back = self._converted(data)
            for name, value in given.items():
                self._kept[name].check(value, data[name], getattr(back, name), name)
        except (msgspec.ValidationError, RecursionError, TypeError, ValueError) as error:
            why = message_of(error)
            raise InvalidInput(f"the arguments of {self.name} do not fit: {why}") from None
        return data

    def read(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments that a job's data has."""
        try:
            found = self._converted(data)
        except (msgspec.ValidationError, TypeError, ValueError) as error:
            raise UnreadableData(
                f"{self.name} cannot take the job's data: {typed.why_not(error)}"
            ) from None
        fields = self._arguments.__struct_fields__
        return {name: value for name in fields if (value := getattr(found, name)) is not UNSET}

    def write_result(self, result: Any) -> Any:
        """A result as JSON takes it."""
        try:
            plain = typed.plain(result)
            back = plain if self._result is Any else self.read_result(plain)
            self._kept_result.check(result, plain, back, "the result")
        except (
            msgspec.ValidationError,
            InvalidInput,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            raise InvalidResult(
                f"{self.name} returned what it does not promise: {typed.why_not(error)}"
            ) from None
        return plain

    def read_result(self, plain: Any) -> Any:
        """A stored result as the annotation promises it."""
        return typed.converted(plain, self._result)

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the data."""
        written = _schema(self._arguments)
        properties: dict[str, Any] = written["properties"]
        properties[MARK] = {"type": "object", "description": "For the worker; leave it out."}
        for each in self.signature.parameters.values():
            if each.default is not each.empty and each.name in properties:
                _say_default(properties[each.name], each.default)
        return written

    def result_schema(self) -> dict[str, Any]:
        """The JSON Schema of the result."""
        return _schema(self._result)

    def _converted(self, data: Mapping[str, Any]) -> Any:
        return typed.converted(data, self._arguments)


def plain_of(value: Any) -> Any:
    """A value as JSON takes it; what cannot be written is an InvalidInput."""
    try:
        codec.refuse_unlike(value, "the value")
        return typed.plain(value)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the value cannot be written as JSON: {error}") from None


def _field(parameter: inspect.Parameter) -> Any:
    if parameter.default is parameter.empty:
        return msgspec.field()
    # The function has the default itself; only what was given is passed to it.
    return msgspec.field(default_factory=lambda: UNSET)


def _hints(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise InvalidOption(f"the annotations of {name} cannot be read: {error}") from None


def _schema(kind: Any) -> dict[str, Any]:
    """The schema of a type, with everything that it refers to under one `$defs`."""
    known: dict[str, Any] = {}

    def of_model(model: Any) -> dict[str, Any]:
        if describe := getattr(model, "model_json_schema", None):
            written: dict[str, Any] = describe(ref_template=REFERENCE.replace("name", "model"))
            known.update(written.pop("$defs", {}))
            return written
        return {}

    [written], parts = msgspec.json.schema_components(
        [kind], schema_hook=of_model, ref_template=REFERENCE
    )
    parts = {**parts, **known}
    # The data itself is written out, so that a reader sees the fields first.
    reference = written.get("$ref", "")
    name = reference.rpartition("/")[2]
    if reference and name in parts:
        written = parts.pop(name)
    return {**written, "$defs": parts} if parts else written


def _say_default(field: dict[str, Any], default: Any) -> None:
    try:
        field["default"] = typed.plain(default)
    except (TypeError, ValueError):
        return
