"""What every shape does, and how a value that does not fit is reported."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Any

Schema = dict[str, Any]


class Direction(Enum):
    """Values that arrive may have several forms; values that are sent have one."""

    INPUT = "input"
    OUTPUT = "output"


class InvalidValue(Exception):
    """A value that does not fit its hint, with the place as a JSON Pointer."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{path or '/'}: {message}" for path, message in problems))
        self.problems = problems

    @classmethod
    def at(cls, path: str, message: str) -> InvalidValue:
        return cls([(path, message)])


class Definitions:
    """`$defs` of one schema: classes that refer to themselves, or occur in several places."""

    def __init__(self) -> None:
        self.schemas: dict[str, Schema] = {}
        self._names: dict[object, str] = {}

    def refer(self, key: object, name: str, build: Callable[[], Schema]) -> Schema:
        known = self._names.get(key)
        if known is None:
            known = name
            while known in self.schemas:
                known += "_"
            self._names[key] = known
            # Before it is built: it may refer to itself.
            self.schemas[known] = {}
            self.schemas[known] = build()
        return {"$ref": f"#/$defs/{known}"}

    def add(self, schemas: dict[str, Schema]) -> None:
        self.schemas.update(schemas)

    def attach(self, schema: Schema) -> Schema:
        return {**schema, "$defs": self.schemas} if self.schemas else schema


class Shape(ABC):
    @abstractmethod
    def schema(self, direction: Direction, definitions: Definitions) -> Schema:
        """What the server checks."""

    @abstractmethod
    def load(self, value: Any, path: str) -> Any:
        """The value as the hint promises it; otherwise `InvalidValue`."""

    def document(self, direction: Direction) -> Schema:
        """A schema that stands alone."""
        definitions = Definitions()
        return definitions.attach(self.schema(direction, definitions))


class AnyShape(Shape):
    def schema(self, direction: Direction, definitions: Definitions) -> Schema:
        return {}

    def load(self, value: Any, path: str) -> Any:
        return value


class DescribedShape(Shape):
    """`Annotated[hint, "description"]`."""

    def __init__(self, inner: Shape, description: str) -> None:
        self._inner = inner
        self._description = description

    def schema(self, direction: Direction, definitions: Definitions) -> Schema:
        return {**self._inner.schema(direction, definitions), "description": self._description}

    def load(self, value: Any, path: str) -> Any:
        return self._inner.load(value, path)


def describe(value: object) -> str:
    """The type of a value in the words of JSON Schema, for error texts."""
    names: dict[type, str] = {
        bool: "boolean",
        int: "integer",
        float: "number",
        str: "string",
        list: "array",
        dict: "object",
    }
    return "null" if value is None else names.get(type(value), type(value).__name__)


def expected(what: str, value: object, path: str) -> InvalidValue:
    return InvalidValue.at(path, f"expected {what}, got {describe(value)}")


def child(path: str, key: object) -> str:
    return f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}"


def tagged(tag: str, content: Schema, description: str) -> Schema:
    """An object that carries a tag of the wire. The description says how a script writes such a value."""
    return {"type": "object", "properties": {tag: content}, "required": [tag], "description": description}
