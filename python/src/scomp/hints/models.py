"""Hints that pydantic checks: its models, its dataclasses, and types that only it knows.

Pydantic is optional. Its schemas are made with the forms of the wire, so that a Date of a script fits a `datetime`.
"""

from __future__ import annotations

from typing import Any

from .base import Definitions, Direction, InvalidValue, Schema, Shape, child, tagged
from .scalars import SCALARS


def is_model(hint: object) -> bool:
    """Whether it is a model or a dataclass of pydantic, found without importing pydantic."""
    return isinstance(hint, type) and hasattr(hint, "__pydantic_validator__")


def model_shape(hint: Any) -> Shape | None:
    """A shape that pydantic checks; `None` without pydantic, or if it does not know the hint."""
    try:
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticUserError
    except ImportError:
        return None
    try:
        return _ModelShape(TypeAdapter(hint))
    except PydanticUserError:
        return None


class _ModelShape(Shape):
    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter

    def schema(self, direction: Direction, definitions: Definitions) -> Schema:
        mode = "validation" if direction is Direction.INPUT else "serialization"
        schema: Schema = self._adapter.json_schema(mode=mode, schema_generator=_wire_schema_class(direction))
        definitions.add(schema.pop("$defs", {}))
        return schema

    def load(self, value: Any, path: str) -> Any:
        from pydantic import ValidationError

        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            problems: list[tuple[str, str]] = []
            for problem in error.errors(include_url=False, include_context=False, include_input=False):
                place = path
                for part in problem["loc"]:
                    place = child(place, part)
                problems.append((place, problem["msg"]))
            raise InvalidValue(problems) from None


def _wire_schema_class(direction: Direction) -> Any:
    from datetime import date, datetime
    from decimal import Decimal

    from pydantic.json_schema import GenerateJsonSchema

    def scalar(hint: type) -> Schema:
        return SCALARS[hint].schema(direction, Definitions())

    class WireSchema(GenerateJsonSchema):
        def datetime_schema(self, schema: Any) -> Schema:
            return scalar(datetime)

        def date_schema(self, schema: Any) -> Schema:
            return scalar(date)

        def bytes_schema(self, schema: Any) -> Schema:
            return scalar(bytes)

        def decimal_schema(self, schema: Any) -> Schema:
            return scalar(Decimal)

        def set_schema(self, schema: Any) -> Schema:
            return self._set(super().set_schema(schema))

        def frozenset_schema(self, schema: Any) -> Schema:
            return self._set(super().frozenset_schema(schema))

        def _set(self, items: Schema) -> Schema:
            items.pop("uniqueItems", None)
            form = tagged("$set", items, "A Set.")
            return form if direction is Direction.OUTPUT else {"anyOf": [items, form]}

    return WireSchema
