"""The writer of a store that was opened to be read: it has no thread, and refuses."""

from __future__ import annotations

from typing import Any, NoReturn

from jdbcstore.errors import ConfigurationError
from jdbcstore.stores.jdbc.writer.units import Call, Unit
from jdbcstore.stores.jdbc.writer.writer import Writer
from jdbcstore.util.futures import Waiter


class ReadOnlyWriter(Writer):
    """Every write is a :class:`ConfigurationError`."""

    def __init__(self) -> None:
        """Starts nothing."""

    @property
    def last_sequence(self) -> int:
        return 0

    def execute(self, unit: Unit) -> Any:  # noqa: ARG002
        _refuse()

    def _enqueue(self, unit: Unit | Call) -> None:  # noqa: ARG002
        _refuse()

    def _wait_written(self, unit: Unit | Call, waiter: Waiter[Any]) -> Any:  # noqa: ARG002
        _refuse()

    def close(self, timeout: float | None = None) -> None:
        """There is nothing to write."""


def _refuse() -> NoReturn:
    raise ConfigurationError("this store was opened with read_only; open it without to write")
