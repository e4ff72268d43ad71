"""A hot module twice: as Python, and compiled where it was built. Both give the same results."""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from jdbcstore.message.message import MessageFields
from jdbcstore.message.openwire.content import StoredBytes
from jdbcstore.util.core import build, is_pure


@cache
def as_python(name: str) -> ModuleType:
    """Return the hot module of this name as Python: where the compiled ones are in use, loaded again."""
    if is_pure():
        return importlib.import_module(name)
    origin = build.PACKAGE.parent / Path(*name.split(".")).with_suffix(".py")
    spec = importlib.util.spec_from_file_location(f"as_python.{origin.stem}", origin)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDBCSTORE_PURE", "1")
        spec.loader.exec_module(module)
    return module


@cache
def as_compiled(name: str) -> ModuleType | None:
    """Return the compiled version of the hot module of this name; None where it was not built."""
    try:
        return importlib.import_module(build.compiled_name(name))
    except ImportError:
        return None


def check_both(name: str, function: str, *arguments: Any, **named: Any) -> None:
    """Assert that a function of a hot module has the same result as Python and compiled, or is as wrong."""
    compiled = as_compiled(name)
    if compiled is None:
        return
    python = _outcome(getattr(as_python(name), function), arguments, named)
    assert _outcome(getattr(compiled, function), arguments, named) == python, (name, function)


def _outcome(function: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    try:
        return _parts(function(*arguments, **named))
    except Exception as error:
        return type(error)


def _parts(value: Any) -> Any:
    """Return something to compare: objects by their slots."""
    if isinstance(value, MessageFields | StoredBytes):
        names = StoredBytes.__slots__ if isinstance(value, StoredBytes) else MessageFields.__slots__
        return [(name, _parts(getattr(value, name, None))) for name in names]
    return [_parts(part) for part in value] if isinstance(value, tuple | list) else value
