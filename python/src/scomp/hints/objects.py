"""Hints that are classes with fields: dataclasses and TypedDicts. Both refer to themselves through `$defs`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, cast

from ..values import UNDEFINED
from .base import Definitions, Direction, InvalidValue, Schema, Shape, child, expected


@dataclasses.dataclass(frozen=True)
class Field:
    name: str
    shape: Shape
    is_required: bool


class ObjectShape(Shape):
    """Fields are read late: a class may be declared before the classes that it names."""

    def __init__(
        self, cls: type[Any], fields: Callable[[], list[Field]], create: Callable[[dict[str, Any]], Any]
    ) -> None:
        self._cls = cls
        self._read_fields = fields
        self._fields: list[Field] | None = None
        self._create = create

    @property
    def fields(self) -> list[Field]:
        if self._fields is None:
            self._fields = self._read_fields()
        return self._fields

    def schema(self, direction: Direction, definitions: Definitions) -> Schema:
        return definitions.refer(
            self._cls, self._cls.__name__, lambda: object_schema(self.fields, direction, definitions)
        )

    def load(self, value: Any, path: str) -> Any:
        return self._create(load_fields(self.fields, value, path))


def object_schema(fields: list[Field], direction: Direction, definitions: Definitions) -> Schema:
    schema: Schema = {
        "type": "object",
        "properties": {field.name: field.shape.schema(direction, definitions) for field in fields},
    }
    required = [field.name for field in fields if field.is_required]
    if required:
        schema["required"] = required
    return schema


def load_fields(fields: list[Field], value: Any, path: str) -> dict[str, Any]:
    """The members that are fields. Further members are ignored, as the schema allows them."""
    if not isinstance(value, dict):
        raise expected("object", value, path)
    members = cast("dict[str, Any]", value)
    loaded: dict[str, Any] = {}
    problems: list[tuple[str, str]] = []
    for field in fields:
        if field.name not in members or (members[field.name] is UNDEFINED and not field.is_required):
            if field.is_required:
                problems.append((child(path, field.name), "is required"))
            continue
        try:
            loaded[field.name] = field.shape.load(members[field.name], child(path, field.name))
        except InvalidValue as error:
            problems += error.problems
    if problems:
        raise InvalidValue(problems)
    return loaded
