"""The statements of JDBCSTORE_INBOX, the messages that consumers have processed."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, bindparam, delete, literal_column, select

from jdbcstore.database.statements.builder import StatementBuilder


class InboxStatements(StatementBuilder):
    """Noting a message once, and deleting old notes; times are the database's."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        i = self._tables.inbox
        now = literal_column(self._adapter.now_ms, BigInteger())
        mine = self._equal(i.c.consumer, bindparam("consumer", type_=i.c.consumer.type))
        names = {key: bindparam(key, type_=i.c[key].type) for key in ("consumer", "msgid")}
        self.add = self._compile(lambda: self._adapter.insert_once(i).values(**names, processed=now))
        """Finds no row if the message is there."""
        before = now - bindparam("age_ms", type_=BigInteger())
        self.find_old = self._page_of(
            lambda: select(i.c.processed).where(mine, i.c.processed < before).order_by(i.c.processed)
        )
        up_to = bindparam("up_to", type_=BigInteger())
        self.remove_old = self._compile(lambda: delete(i).where(mine, i.c.processed <= up_to))
