"""From a type hint to its shape."""

from __future__ import annotations

import collections.abc
import dataclasses
import types
import typing
from collections.abc import Callable
from enum import Enum
from typing import Any, cast

from .base import AnyShape, DescribedShape, Shape
from .containers import (
    ConvertedList,
    FunctionShape,
    ListShape,
    MapShape,
    RecordShape,
    SetShape,
    TupleShape,
    UnionShape,
)
from .models import is_model, model_shape
from .objects import Field, ObjectShape
from .scalars import SCALARS, EnumShape, LiteralShape

ANY = AnyShape()
_LISTS = (list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
_SETS: dict[object, Callable[[list[Any]], Any]] = {
    set: set,
    frozenset: frozenset,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
}
_DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_CALLABLE: Any = collections.abc.Callable  # pyright: ignore[reportUnknownMemberType]
_AWAITABLES = (collections.abc.Awaitable, collections.abc.Coroutine)


def shape_of(hint: Any) -> Shape:
    """The shape of a hint; `TypeError` for one that no value of a script can fit."""
    if hint is Any or hint is object:
        return ANY
    if isinstance(hint, typing.TypeVar):
        return ANY
    scalar = SCALARS.get(hint) if _is_hashable(hint) else None
    if scalar is not None:
        return scalar
    if hasattr(hint, "__supertype__"):  # NewType
        return shape_of(hint.__supertype__)
    origin = typing.get_origin(hint)
    if origin is not None:
        return _generic_shape(hint, origin, typing.get_args(hint))
    return _class_shape(hint)


def _generic_shape(hint: Any, origin: Any, args: tuple[Any, ...]) -> Shape:
    if origin is typing.Annotated:
        return _annotated_shape(hint, args)
    if origin in (typing.Union, types.UnionType):
        return _union_shape(args)
    if origin is typing.Literal:
        return LiteralShape(args)
    if _is_qualifier(origin):
        return shape_of(args[0])
    if origin is tuple:
        return _tuple_shape(args)
    if origin is _CALLABLE:
        return _function_shape(args)
    if origin in _AWAITABLES:
        return shape_of(args[-1])
    return _container_shape(origin, [shape_of(arg) for arg in args], args) or _fallback_shape(hint)


def _container_shape(origin: Any, shapes: list[Shape], args: tuple[Any, ...]) -> Shape | None:
    if origin in _LISTS:
        return ListShape(shapes[0])
    if origin in _SETS:
        return SetShape(shapes[0], _SETS[origin])
    if origin in _DICTS:
        return RecordShape(shapes[1]) if args[0] is str else MapShape(shapes[0], shapes[1])
    return None


def _class_shape(hint: Any) -> Shape:
    if is_model(hint):
        return model_shape(hint) or ANY
    if hint in _LISTS:
        return ListShape(ANY)
    if hint in _SETS:
        return SetShape(ANY, _SETS[hint])
    if hint in _DICTS:
        return RecordShape(ANY)
    if hint is tuple:
        return ConvertedList(ANY, tuple)
    if hint is _CALLABLE or hint is types.FunctionType:
        return FunctionShape(None, None)
    if isinstance(hint, type):
        if issubclass(hint, Enum):
            return EnumShape(hint)
        cls = cast("type[Any]", hint)
        if dataclasses.is_dataclass(cls):
            return _dataclass_shape(cls)
        if issubclass(hint, dict) and hasattr(cast("Any", hint), "__required_keys__"):
            return _typed_dict_shape(cast("Any", hint))
    return _fallback_shape(hint)


def _fallback_shape(hint: Any) -> Shape:
    shape = model_shape(hint)
    if shape is None:
        raise TypeError(f"the type hint {hint!r} has no JSON Schema")
    return shape


def _annotated_shape(hint: Any, args: tuple[Any, ...]) -> Shape:
    inner, *metadata = args
    texts = [note for note in metadata if isinstance(note, str)]
    # Constraints such as `Field(gt=0)` are pydantic's to check.
    if len(texts) < len(metadata):
        constrained = model_shape(hint)
        if constrained is not None:
            return DescribedShape(constrained, texts[0]) if texts else constrained
    return DescribedShape(shape_of(inner), texts[0]) if texts else shape_of(inner)


def _union_shape(args: tuple[Any, ...]) -> Shape:
    # `float` takes every integer, so `int` is tried first wherever it stands.
    ordered = sorted(args, key=lambda arg: arg is float)
    return UnionShape([shape_of(arg) for arg in ordered])


def _tuple_shape(args: tuple[Any, ...]) -> Shape:
    if len(args) == 2 and args[1] is Ellipsis:
        return ConvertedList(shape_of(args[0]), tuple)
    return TupleShape([shape_of(arg) for arg in args if arg != ()])


def _function_shape(args: tuple[Any, ...]) -> Shape:
    if len(args) != 2:
        return FunctionShape(None, None)
    parameters, result = args
    # `x-fn` declares one input; calls with any other number of arguments are not checked.
    single = cast("list[Any]", parameters) if isinstance(parameters, list) else []
    parameter: Any = single[0] if len(single) == 1 else None
    return FunctionShape(None if parameter is None else _checked(parameter), _checked(result))


def _checked(hint: Any) -> Shape | None:
    shape = shape_of(hint)
    # What a callback returns is often ignored, and `None` would forbid it to return anything.
    return None if isinstance(shape, AnyShape) or shape is SCALARS[None] else shape


def _dataclass_shape(cls: type[Any]) -> Shape:
    def fields() -> list[Field]:
        hints = typing.get_type_hints(cls, include_extras=True)
        return [
            Field(
                field.name,
                shape_of(hints[field.name]),
                field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
            )
            for field in dataclasses.fields(cls)
            if field.init
        ]

    return ObjectShape(cls, fields, lambda members: cls(**members))


def _typed_dict_shape(cls: Any) -> Shape:
    def fields() -> list[Field]:
        hints = typing.get_type_hints(cls, include_extras=True)
        required: frozenset[str] = cls.__required_keys__
        return [Field(name, shape_of(hint), _qualified(hint, default=name in required)) for name, hint in hints.items()]

    return ObjectShape(cls, fields, lambda members: members)


def _qualified(hint: Any, *, default: bool) -> bool:
    """Whether a key is required: `Required` and `NotRequired` decide over `total`."""
    name = _qualifier_name(typing.get_origin(hint))
    if name == "Required":
        return True
    return False if name == "NotRequired" else default


def _is_qualifier(origin: Any) -> bool:
    return _qualifier_name(origin) in ("Required", "NotRequired", "ReadOnly", "Final", "ClassVar")


def _qualifier_name(origin: Any) -> str:
    # By name: `typing` has them since 3.11, `typing_extensions` has its own before.
    return getattr(origin, "_name", None) or getattr(origin, "__name__", "") or ""


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
