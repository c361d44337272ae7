"""Type hints as JSON Schemas for the server, and as checks and conversions of what arrives.

A hint becomes a `Shape` once, when a binding is declared. Shapes know the wire: a `datetime` is declared as an object
with `$date`, because that is what the server checks.
"""

from .base import Direction, InvalidValue, Schema, Shape
from .build import shape_of
from .parameters import Parameters

__all__ = ["Direction", "InvalidValue", "Parameters", "Schema", "Shape", "shape_of"]
