"""Python's versions of what the compiled core has from Cython and from C.

The build replaces the import of this module: the decorators and types become Cython's, and the functions
those of ``slots.pxd``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
Py_ssize_t: TypeAlias = int
longlong: TypeAlias = int
bint: TypeAlias = bool
Places: TypeAlias = Any
"""Some of the slots of a class."""
_set = object.__setattr__


def declare(_kind: type, value: T) -> T:
    """Return the value of a module's variable, which only the module's own C code sees."""
    return value


def cclass(cls: type[T]) -> type[T]:
    """Mark a class whose attributes are fields of a C struct."""
    return cls


def ccall(function: F) -> F:
    """Mark a method that C calls directly, and Python as any other."""
    return function


def cfunc(function: F) -> F:
    """Mark a method for C only."""
    return function


def places(_cls: type, names: Sequence[str]) -> Places:
    """Return the slots of these names; :func:`same` alone needs more than one."""
    return names, attrgetter(*names)


def sample(target: object, places: Places) -> Any:
    """Return what :func:`same` compares with: the values that an object has in these slots, and keeps."""
    return places[1](target)


def same(target: object, sample: Any, places: Places) -> bool:
    """Return whether an object has the same values in these slots as that of the sample; false also where C
    finds that they are not the same objects."""
    return bool(places[1](target) == sample)


def put(target: object, places: Places, index: int, value: object) -> None:
    """Set a slot of an object that is not shared yet."""
    _set(target, places[0][index], value)


def copy(target: object, other: object, places: Places) -> None:
    """Set all of these slots as the other one has them."""
    for name in places[0]:
        _set(target, name, getattr(other, name))


def read(target: object, places: Places) -> Any:
    """Return the values of these slots, of which there are several."""
    return places[1](target)


def new(cls: type[T], places: Places, values: tuple[Any, ...]) -> T:  # noqa: ARG001
    """Return an object with these values in its slots, which are the arguments of its class."""
    return cls(*values)


def new_tuple(cls: type[T], values: tuple[Any, ...]) -> T:
    """Return a named tuple with these values."""
    return tuple.__new__(cls, values)  # type: ignore[type-var]
