"""Lists, dictionaries and sets that are named in capitals: what a test changes there, later tests see."""

from __future__ import annotations

from types import ModuleType
from typing import Any


class Constants:
    """The contents of a module's constants at one moment."""

    def __init__(self, module: ModuleType) -> None:
        self._each: list[tuple[str, Any, Any]] = [
            (name, value, value.copy())
            for name, value in vars(module).items()
            if name.isupper() and isinstance(value, list | dict | set)
        ]

    def changed(self) -> list[str]:
        """Return the names of those whose contents are others now."""
        return [name for name, value, before in self._each if value != before]
