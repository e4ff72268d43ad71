"""The table of messages that consumers have processed; ActiveMQ's tables need not be in its database."""

from __future__ import annotations

from functools import cached_property

from sqlalchemy import NullPool

from jdbcstore.config import StoreConfig
from jdbcstore.database.engine import Database
from jdbcstore.database.schema import check_table, create_table, inspect_tables
from jdbcstore.database.statements.inbox import InboxStatements
from jdbcstore.errors import ConfigurationError, StoreClosed

_PAGE = 1000


class InboxTable(Database):
    """The table of an inbox. Any thread may use it.

    :raises ConfigurationError: the URL cannot work, or not with this vendor
    """

    def __init__(
        self, url: str, config: StoreConfig, *, user: str | None = None, password: str | None = None
    ) -> None:
        super().__init__(url, config, user=user, password=password)
        if not self.adapter.shares_queues:
            raise ConfigurationError(
                f"an inbox is not supported on {self.adapter.name}: use PostgreSQL, MySQL, MariaDB or SQLite",
                option="url",
            )
        self.engine = self.connect_with(limited=True, poolclass=NullPool)
        self._closed = False

    @cached_property
    def statements(self) -> InboxStatements:
        """The statements about it."""
        return InboxStatements(self.tables, self.adapter, self.engine.dialect, ours=True, hinted=False)

    def prepare(self) -> None:
        """Create the table, or check it.

        :raises SchemaError: it is missing and must not be created, or is another
        :raises StoreUnavailable: the database does not answer
        """
        table = self.tables.inbox
        with self.translated():
            columns = inspect_tables(self.engine, self.adapter, [table]).columns
            if table in columns:
                check_table(table, columns[table])
            else:
                self.check_creates(table, "inbox.sql")
                create_table(self.engine, self.adapter, table)

    def clean(self, consumer: str, age_ms: int) -> int:
        """Delete entries that a consumer processed before that time; return their number.

        :raises StoreUnavailable: the database does not answer
        :raises StoreClosed: :meth:`close` was called
        """
        sql, total = self.statements, 0
        with self.translated(), self.engine.connect() as connection:
            while not self._closed:
                values = {"consumer": consumer, "age_ms": age_ms, "limit": _PAGE}
                row = sql.find_old.row(**values)
                rows = connection.exec_driver_sql(sql.find_old.text, row).fetchall()
                if not rows:
                    return total
                row = sql.remove_old.row(consumer=consumer, up_to=rows[-1][0])
                total += connection.exec_driver_sql(sql.remove_old.text, row).rowcount
        raise StoreClosed

    def close(self) -> None:
        """End a cleanup after its current statement."""
        self._closed = True
        self.engine.dispose()
