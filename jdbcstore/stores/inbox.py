"""An inbox: the messages that a consumer has processed, noted in the transactions in which it did.

A broker delivers a message again if its acknowledgement was lost. A consumer that notes the message's ID in
the transaction of its work finds the ID the second time, and then only acknowledges the message.
"""

from __future__ import annotations

import contextlib
from typing import Any

from jdbcstore.config import StoreConfig
from jdbcstore.config.fields import LONGEST
from jdbcstore.database.callers import CallersConnection
from jdbcstore.database.inbox import InboxTable
from jdbcstore.errors import ConfigurationError
from jdbcstore.message.ids import MessageId
from jdbcstore.stores.claims.keys import key_of
from jdbcstore.stores.shared.cleanup_timer import CleanupTimer
from jdbcstore.util.closing import Closing

_WEEK = 7 * 86_400.0


class Inbox(Closing):
    """The messages that a consumer has processed, in the database of the application. Thread-safe.

    ``consumer`` is a name: each consumer processes each message once, and the processes that share its work
    have the same name. After ``retention`` seconds a message is forgotten: choose a time after which no
    broker delivers it again, not even one restored from a backup. Needs no other table.

    :raises ConfigurationError: the URL or an option cannot work
    :raises StoreUnavailable: the database does not answer
    :raises SchemaError: the table is missing and must not be created, or is another
    """

    def __init__(
        self,
        url: str,
        consumer: str,
        config: StoreConfig | None = None,
        *,
        user: str | None = None,
        password: str | None = None,
        retention: float = _WEEK,
    ) -> None:
        if not consumer:
            raise ConfigurationError("an inbox needs the name of its consumer", option="consumer")
        if not 0 < retention <= LONGEST:
            raise ConfigurationError(
                f"retention={retention} must be more than 0 seconds, or nothing is processed once, "
                f"and at most {LONGEST:,.0f}",
                option="retention",
            )
        config = config or StoreConfig()
        self._consumer = key_of(consumer)
        self._age_ms = round(retention * 1000)
        self._table = InboxTable(url, config, user=user, password=password)
        with contextlib.ExitStack() as opened:
            opened.callback(self._table.close)
            self._table.prepare()
            opened.pop_all()
        self._cleanup = CleanupTimer(self.clean, config.cleanup_period)
        self._cleanup.start()

    def accept(self, connection: Any, message_id: str | MessageId) -> bool:
        """Note a message in the transaction that is open on a connection; return whether it is there first.

        If so, process it in this transaction: the note exists if and only if that is committed. If not, the
        message was processed before. Of two transactions with the same message, one waits for the other.

        :param connection: of SQLAlchemy, its ORM, Django, or the driver, to the same database
        :raises TypeError: the message id is neither a str nor a MessageId
        :raises ConfigurationError: the connection cannot be joined, or is in autocommit mode
        :raises TransactionError: the transaction has failed before

        Errors of the driver are not translated: they belong to the application's transaction.
        """
        if not isinstance(message_id, str | MessageId):
            # Two messages without an id would be one.
            raise TypeError(
                f"an inbox notes messages by their id, a str or a MessageId, not {type(message_id).__name__}"
            )
        joined = CallersConnection(self._table, self._table.engine.dialect, connection)
        joined.check()
        note = {"consumer": self._consumer, "msgid": key_of(str(message_id))}
        return joined.change(self._table.statements.add, **note) == 1

    def clean(self) -> int:
        """Forget entries older than ``retention``; return their number. Also runs in the background.

        :raises StoreUnavailable: the database does not answer
        :raises StoreClosed: :meth:`close` was called
        """
        return self._table.clean(self._consumer, self._age_ms)

    def close(self) -> None:
        """Stop the cleanup, and wait until its connection is closed."""
        self._cleanup.stop()
        self._table.close()
        self._cleanup.join()
