"""The writer of a store that was opened to be read: it has no thread, and refuses."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NoReturn

from jdbcstore.connection import Connection
from jdbcstore.errors import ConfigurationError
from jdbcstore.units import Unit
from jdbcstore.writer import Writer


class ReadOnlyWriter(Writer):
    """Every write is a :class:`ConfigurationError`."""

    def __init__(self) -> None:
        """Starts nothing."""

    @property
    def last_sequence(self) -> int:
        return 0

    def execute(self, unit: Unit) -> Any:  # noqa: ARG002
        _refuse()

    def submit(self, unit: Unit) -> Future[Any]:  # noqa: ARG002
        _refuse()

    def call_numbered(
        self,
        count: Callable[[Connection], int],  # noqa: ARG002
        function: Callable[[Connection, int], Any],  # noqa: ARG002
    ) -> Any:
        _refuse()

    def close(self, timeout: float | None = None) -> None:
        """There is nothing to write."""


def _refuse() -> NoReturn:
    raise ConfigurationError("this store was opened with read_only; open it without to write")
