"""Vendors that are reached through their JDBC driver, in this process's Java machine."""

from __future__ import annotations

import logging
from typing import Any, ClassVar

from sqlalchemy import URL, LargeBinary
from sqlalchemy.dialects import registry
from sqlalchemy.types import TypeEngine

from jdbcstore.config.placeholders import Template
from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.adapters.sqlstate import failure_of
from jdbcstore.database.adapters.switched import SwitchedAdapter
from jdbcstore.database.adapters.types import Worded
from jdbcstore.database.adapters.urls import URL_PROPERTY, bridged
from jdbcstore.errors import ConfigurationError

log = logging.getLogger(__name__)

for _name, _dialect in {
    "derby": "DerbyDialect",
    "db2": "Db2Dialect",
    "h2": "LimitDialect",
    "hsqldb": "LimitDialect",
    "sybase": "SybaseDialect",
    "any": "JdbcDialect",
}.items():
    registry.register(f"jdbc.{_name}", "jdbcstore.database.adapters.jdbc.dialect", _dialect)

BRIDGE = ("jpype", "jdbc")
"""Python module and extra."""


class BridgedAdapter(SwitchedAdapter):
    """Plain SQL through any JDBC driver, what fails judged by its SQLSTATE."""

    failures: ClassVar[dict[str | int, Failure]] = {}
    """What this vendor's own states and numbers mean."""
    binary_type: ClassVar[TypeEngine[Any]] = Worded(LargeBinary(), "BLOB")
    write_at_once: ClassVar[str] = ""
    """A statement, for an administrator, that has a commit on disk before it is acknowledged."""

    def __init__(self) -> None:
        super().__init__()
        self._warned = False

    @classmethod
    def url_from_jdbc(cls, text: str) -> URL:
        return bridged(text, next(iter(cls.drivers)))

    @classmethod
    def with_driver(cls, url: URL) -> URL:
        if URL_PROPERTY in url.query:
            return url
        raise ConfigurationError(f"{cls.name} is reached through its JDBC driver; write a URL jdbc:...")

    def engine_options(self, url: URL) -> dict[str, Any]:  # noqa: ARG002
        return {}

    def on_connect(self, connection: Any) -> None:
        connection.read_committed()
        if self.write_at_once:
            self._write_at_once(connection)

    def _write_at_once(self, connection: Any) -> None:
        from jpype.dbapi2 import Error

        cursor = connection.cursor()
        try:
            cursor.execute(self.write_at_once)
        except Error as error:
            if self._warned:
                return
            self._warned = True
            log.warning(
                "%s may acknowledge a commit before it is on disk, unless an administrator has said %s: %s",
                self.name,
                self.write_at_once,
                error,
            )
        finally:
            cursor.close()

    def limit_answers(self, connection: Any, seconds: float) -> None:
        connection.limit_answers(seconds)

    def limit_query(self, connection: Any, seconds: float) -> None:
        connection.limit_query(seconds)

    def abort(self, connection: Any) -> None:
        connection.abort()

    def check_statement(self, cursor: Any, template: Template, *, reads: bool) -> int | None:
        found: int | None = cursor.connection.describe(template.render(lambda *_: "?"))
        return found if reads else None

    def max_message_size(self, cursor: Any) -> int:  # noqa: ARG002
        return 2**31 - 1

    def classify(self, error: BaseException) -> Failure:
        from jdbcstore.database.adapters.jdbc.dbapi import states

        for state, number in states(error):
            failure = self.failures.get(state) or self.failures.get(number) or failure_of(state)
            if failure is not Failure.OTHER:
                return failure
        return Failure.OTHER
