"""Messages that are processed once, because their ids are noted in the transaction that does it."""

from __future__ import annotations

import math
import threading
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from jdbcstore import Inbox, Message, StoreConfig
from jdbcstore.database.inbox import InboxTable
from jdbcstore.errors import ConfigurationError, SchemaError, StoreClosed, TransactionError
from tests.support.claims.callers import WAYS, Caller, create_effects, effects, opened
from tests.support.databases import Database

pytestmark = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")

ID = "ID:host-1:1:1:1:{}"


def test_a_message_is_first_until_its_transaction_commits(database: Database) -> None:
    create_effects(database)
    with Inbox(database.url, "billing") as inbox, Inbox(database.url, "Billing") as other:
        for way in WAYS:
            with opened(database.url, way) as caller:
                for commits in (False, True, False):
                    if is_first := inbox.accept(caller.connection, ID.format(way)):
                        caller.write(way)
                    caller.commit() if commits else caller.rollback()
                assert not is_first
                assert other.accept(caller.connection, ID.format(way)), "each consumer has its own"
                assert inbox.accept(caller.connection, "ID:" + "x" * 300)
                assert not inbox.accept(caller.connection, "ID:" + "x" * 300)
                assert inbox.accept(caller.connection, "ID:" + "x" * 299)
                caller.rollback()
    assert effects(database) == sorted(WAYS)
    database.expect_closed()


def test_what_is_no_message_id_is_refused(database: Database) -> None:
    message = Message("without an id")
    with Inbox(database.url, "billing") as inbox, opened(database.url, "driver") as caller:
        for given in (message, message.message_id, b"ID:1"):
            with pytest.raises(TypeError, match="by their id"):
                inbox.accept(caller.connection, given)  # type: ignore[arg-type]


@pytest.mark.backends("postgresql", "mariadb", "mysql")
@pytest.mark.needs("row_locks")
def test_of_two_transactions_with_one_message_the_second_waits(database: Database) -> None:
    with Inbox(database.url, "billing") as inbox:
        for commits in (True, False):
            found: list[bool] = []
            message = ID.format(commits)
            with opened(database.url, "core") as one, opened(database.url, "core") as other:

                def accept(other: Caller, message: str, found: list[bool]) -> None:
                    found.append(inbox.accept(other.connection, message))
                    other.commit()

                assert inbox.accept(one.connection, message)
                thread = threading.Thread(target=accept, args=(other, message, found))
                thread.start()
                one.commit() if commits else one.rollback()
                thread.join()
            assert found == [not commits]


def test_what_is_old_is_forgotten(database: Database) -> None:
    by_hand = StoreConfig(cleanup_period=0.0)
    with (
        Inbox(database.url, "billing", by_hand, retention=60.0) as inbox,
        opened(database.url, "core") as caller,
    ):
        inbox.accept(caller.connection, "old")
        inbox.accept(caller.connection, "new")
        caller.commit()
        database.execute("UPDATE JDBCSTORE_INBOX SET PROCESSED = PROCESSED - 61000 WHERE MSGID = 'old'")
        assert inbox.clean() == 1
        assert inbox.accept(caller.connection, "old")
        assert not inbox.accept(caller.connection, "new")


def test_closing_waits_for_a_cleanup(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    cleaning, closing, threads = threading.Event(), threading.Event(), list[threading.Thread]()
    clean, close = InboxTable.clean, InboxTable.close

    def clean_late(table: InboxTable, consumer: str, age_ms: int) -> int:
        threads.append(threading.current_thread())
        cleaning.set()
        assert closing.wait(60)
        return clean(table, consumer, age_ms)

    def begin_to_close(table: InboxTable) -> None:
        close(table)
        closing.set()

    monkeypatch.setattr(InboxTable, "clean", clean_late)
    monkeypatch.setattr(InboxTable, "close", begin_to_close)
    inbox = Inbox(database.url, "billing")
    assert cleaning.wait(60)
    inbox.close()
    assert not threads[0].is_alive()
    database.expect_closed()
    with pytest.raises(StoreClosed):
        inbox.clean()


def refused(reason: str) -> AbstractContextManager[object]:
    return pytest.raises(ConfigurationError, match=reason)


def test_inboxes_that_cannot_be(database: Database, tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"inbox\.sql"):
        Inbox(database.url, "billing", StoreConfig(create_tables_on_startup=False))
    with pytest.raises(ConfigurationError, match="name of its consumer"):
        Inbox(database.url, "")
    for retention in (0.0, math.nan, math.inf, 1e300):
        with pytest.raises(ConfigurationError, match="retention"):
            Inbox(database.url, "billing", retention=retention)
    with pytest.raises(ConfigurationError, match="not supported on"):
        Inbox("oracle://host/db", "billing", StoreConfig(adapter="oracle"))
    with Inbox(database.url, "billing") as inbox:
        with opened(database.url, "core", "AUTOCOMMIT") as caller, refused("begin a transaction"):
            inbox.accept(caller.connection, "1")
        with opened(f"sqlite:///{tmp_path}/other.db", "core") as caller, refused("same (database|driver)"):
            inbox.accept(caller.connection, "1")
        with opened(database.url, "core") as caller:
            caller.connection.close()
            with pytest.raises(TransactionError, match="closed"):
                inbox.accept(caller.connection, "1")
    Inbox(database.url, "billing", StoreConfig(create_tables_on_startup=False)).close()


def test_the_table_is_checked(database: Database) -> None:
    database.execute("CREATE TABLE JDBCSTORE_INBOX (other INTEGER)")
    with pytest.raises(SchemaError, match="no column"):
        Inbox(database.url, "billing")
