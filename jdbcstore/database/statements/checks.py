"""Whether the database can run the user's statements, asked when a store opens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jdbcstore.database.adapters.base import Adapter, Failure
from jdbcstore.database.statements.given import Replacement
from jdbcstore.errors import ConfigurationError


def check_replacements(
    replacements: Iterable[Replacement],
    adapter: Adapter,
    cursor: Any,
    driver_errors: tuple[type[Exception], ...],
) -> None:
    """Let the database prepare each; a lost connection passes as the driver's own error.

    :raises ConfigurationError: it refuses one, or it would return other columns than are needed
    """
    for property_, template in replacements:
        reads = bool(property_.columns)
        try:
            found = adapter.check_statement(cursor, template, reads=reads)
        except driver_errors as error:
            if adapter.classify(error) is Failure.DISCONNECTED:
                raise
            reason = " ".join(str(error).split())
            behind = f" ({adapter.limit_clause} ? is put behind it)" if "limit" in template.names else ""
            raise ConfigurationError(
                f"{property_.name}: the database refuses it{behind}: {reason}; correct it, or leave it out",
                option=f"statements.{property_.name}",
            ) from error
        if found is not None and not property_.any_columns and found != len(property_.columns):
            wanted = f"{len(property_.columns)}: {', '.join(property_.columns)}" if reads else "none"
            raise ConfigurationError(
                f"{property_.name} returns {found} columns, and must return {wanted}",
                option=f"statements.{property_.name}",
            )
