"""The parameters of a function as the members of a binding's input.

`def notify(message: str, level: str = "info")` takes `{message, level?}`. A lone positional-only parameter takes the
input as a whole: `def save(order: Order, /)`. A parameter with the hint `Call` receives the call itself.
"""

from __future__ import annotations

import inspect
import typing
from typing import Any

from ..calls import Call
from ..values import UNDEFINED, AnyFunction
from .base import AnyShape, Definitions, Direction, InvalidValue, Schema, Shape, child
from .build import ANY, shape_of
from .objects import Field, load_fields, object_schema

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class Parameters:
    def __init__(self, function: AnyFunction) -> None:
        hints = _hints_of(function)
        self._whole: Shape | None = None
        self._fields: list[Field] = []
        self._extra: Shape | None = None
        self._call_parameter: str | None = None
        self.result: Any = hints.get("return", inspect.Parameter.empty)
        for parameter in inspect.signature(function).parameters.values():
            self._add(parameter, hints.get(parameter.name, Any))

    def schema(self) -> Schema | None:
        """The schema of the input; `None` if anything fits."""
        if self._whole is not None:
            return None if isinstance(self._whole, AnyShape) else self._whole.document(Direction.INPUT)
        definitions = Definitions()
        schema = object_schema(self._fields, Direction.INPUT, definitions)
        # A misspelt argument is an error in Python too, and a model learns the right name from it.
        extra = self._extra
        schema["additionalProperties"] = False if extra is None else extra.schema(Direction.INPUT, definitions)
        return definitions.attach(schema)

    def load(self, input: Any, call: Call) -> Arguments:
        """The arguments for the function; `InvalidValue` if the input does not fit."""
        named: dict[str, Any] = {} if self._call_parameter is None else {self._call_parameter: call}
        if self._whole is not None:
            return (self._whole.load(input, ""),), named
        members: dict[str, Any] = {} if input is UNDEFINED or input is None else input
        named.update(load_fields(self._fields, members, ""))
        known = {field.name for field in self._fields}
        for name in members:
            if name in known:
                continue
            if self._extra is None:
                raise InvalidValue.at(child("", name), "is not a parameter")
            named[name] = self._extra.load(members[name], child("", name))
        return (), named

    def _add(self, parameter: inspect.Parameter, hint: Any) -> None:
        if hint is Call:
            self._call_parameter = parameter.name
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            if self._whole is not None or self._fields:
                raise TypeError("a positional-only parameter takes the whole input: there can be only one")
            self._whole = shape_of(hint)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            raise TypeError(f"*{parameter.name}: a binding has one input, whose members are named")
        elif self._whole is not None:
            raise TypeError(f"{parameter.name}: the positional-only parameter takes the whole input")
        elif parameter.kind is parameter.VAR_KEYWORD:
            self._extra = shape_of(hint)
        else:
            self._fields.append(Field(parameter.name, shape_of(hint), parameter.default is parameter.empty))


def output_schema(result: Any) -> Schema | None:
    """The schema of what a function returns; `None` if it says nothing, or `Any`."""
    if result is inspect.Parameter.empty:
        return None
    shape = shape_of(result)
    return None if shape is ANY else shape.document(Direction.OUTPUT)


def _hints_of(function: AnyFunction) -> dict[str, Any]:
    target = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    return typing.get_type_hints(inspect.unwrap(target), include_extras=True)
