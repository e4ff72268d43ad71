"""Rows that do not decode: they stay, they are reported, and the others are still delivered."""

from __future__ import annotations

import pytest

from jdbcstore import Message, MessageStore, Store, pages
from jdbcstore.abc import Recoverable
from jdbcstore.errors import CorruptMessage, StoreError
from jdbcstore.testing.messages import bodies, content, fill
from jdbcstore.testing.tables import RawTables
from jdbcstore.testing.without import NO_WAITING, REFERENCES, TOPICS_ELSEWHERE

GARBAGE = b"\0\0\0\5\x17ABCD"
"""As long as it says, of a type that exists, and nothing more."""


def damage(database: RawTables, *sequences: int, blob: bytes | None = GARBAGE) -> None:
    for sequence in sequences:
        assert database.execute("UPDATE ACTIVEMQ_MSGS SET MSG = :m WHERE ID = :i", m=blob, i=sequence) == 1


def corrupt(source: Recoverable, limit: int) -> list[int | None]:
    return [error.sequence for page in pages(source, limit) for error in page.corrupt]


@pytest.fixture
def filled(queue: MessageStore) -> MessageStore:
    fill(queue, *"abcdef")
    return queue


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 500])
def test_the_others_are_delivered(filled: MessageStore, database: RawTables, limit: int) -> None:
    damage(database, 1, 3, 4)
    damage(database, 6, blob=None)

    assert content(filled, limit) == ["b", "e"]
    assert corrupt(filled, limit) == [1, 3, 4, 6]
    assert filled.message_count() == 6


@pytest.mark.ours
def test_the_error_says_where_and_keeps_the_bytes(filled: MessageStore, database: RawTables) -> None:
    damage(database, 3)

    [error] = filled.recover().corrupt

    assert (error.sequence, error.container, error.blob) == (3, "queue://ORDERS", GARBAGE)
    assert "ID 3 of queue://ORDERS" in str(error)
    with pytest.raises(CorruptMessage) as raised:
        filled.get_message(3)
    assert raised.value.blob == GARBAGE


@pytest.mark.ours
@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"\0",
        bytes(4),
        b"\x7f\xff\xff\xff\x17",
        b"\xff\xff\xff\xff\x17",
        b"\0\0\0\1\x63",
        b"rO0ABXNy" * 100,
    ],
)
def test_any_garbage(filled: MessageStore, database: RawTables, blob: bytes) -> None:
    damage(database, 2, blob=blob)

    assert content(filled) == ["a", "c", "d", "e", "f"]
    assert corrupt(filled, 500) == [2]


@pytest.mark.ours
@pytest.mark.parametrize("cut", [1, 5, 40, 100])
def test_a_blob_that_was_cut(filled: MessageStore, database: RawTables, cut: int) -> None:
    [(blob,)] = database.rows("SELECT MSG FROM ACTIVEMQ_MSGS WHERE ID = 2")
    damage(database, 2, blob=bytes(blob)[:-cut])

    assert corrupt(filled, 500) == [2]


@REFERENCES
@pytest.mark.ours
def test_a_body_that_is_damaged_is_found_when_it_is_read(filled: MessageStore, database: RawTables) -> None:
    """Bodies are decoded when someone looks at them."""
    filled.add_message(Message("\N{SNOWMAN}" * 20))
    [(blob,)] = database.rows("SELECT MSG FROM ACTIVEMQ_MSGS WHERE ID = 7")
    damage(database, 7, blob=bytes(blob).replace("\N{SNOWMAN}".encode(), b"\xff\xff\xff"))

    message = filled.recover()[6]

    with pytest.raises(CorruptMessage, match="ID 7 of queue://ORDERS"):
        _ = message.body


def test_acknowledging_the_id_removes_the_row(filled: MessageStore, database: RawTables) -> None:
    damage(database, 3, 4)

    filled.acknowledge(*[error.sequence for error in filled.recover().corrupt if error.sequence is not None])

    assert content(filled) == ["a", "b", "e", "f"]
    assert corrupt(filled, 500) == []


@pytest.mark.variants("sqlite-journaled")
def test_a_damaged_row_can_be_stored_anew(filled: MessageStore, database: RawTables) -> None:
    good = filled.get_message(3)
    damage(database, 3)

    filled.update_message(good)

    assert content(filled) == list("abcdef")


def test_statistics_count_damaged_rows(filled: MessageStore, database: RawTables) -> None:
    damage(database, 1)
    damage(database, 2, blob=None)

    statistics = filled.statistics()

    assert statistics.message_count == 6
    assert statistics.message_bytes > 4 * len(GARBAGE)
    assert filled.remove_all_messages() == 6


def test_expired_and_damaged(filled: MessageStore, database: RawTables) -> None:
    fill(filled, "g", "h", expiration_ms=1)
    damage(database, 8)

    page = filled.recover_expired()

    assert bodies(page) == ["g"]
    assert [error.sequence for error in page.corrupt] == [8]
    assert filled.remove_expired() == 2


@TOPICS_ELSEWHERE
@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("limit", [1, 3, 500])
@pytest.mark.new_database
def test_in_a_subscription(store: Store, database: RawTables, prioritized: bool, limit: int) -> None:
    topic = store.topic("PRICES", prioritized=prioritized)
    subscription = topic.subscribe("client", "ticker")
    for body in "abcdef":
        fill(topic, body, priority=ord(body) % 2)
    damage(database, 2, 5)

    assert sorted(map(str, content(subscription, limit))) == ["a", "c", "d", "f"]
    assert sorted(corrupt(subscription, limit), key=str) == [2, 5]
    assert subscription.message_count() == 6
    subscription.acknowledge(2, 5, 1)
    assert corrupt(subscription, limit) == []
    assert subscription.message_count() == 3
    assert store.cleanup() == 3


def test_rows_with_null_columns(filled: MessageStore, store: Store, database: RawTables) -> None:
    """Every column but the key may be NULL."""
    database.execute("UPDATE ACTIVEMQ_MSGS SET PRIORITY = NULL, EXPIRATION = NULL WHERE ID < 3")
    database.execute("UPDATE ACTIVEMQ_MSGS SET MSGID_PROD = NULL, MSGID_SEQ = NULL WHERE ID = 2")

    assert content(filled) == list("abcdef")
    assert bodies(filled.recover_expired()) == []
    assert filled.remove_expired() == 0
    assert not filled.prioritized
    filled.acknowledge(filled.recover()[1])
    filled.acknowledge(*filled.recover(limit=1))
    assert content(filled) == list("cdef")
    assert store.last_sequence() == 6


@NO_WAITING
def test_missing_tables_are_told_of_and_survived(
    filled: MessageStore, store: Store, database: RawTables
) -> None:
    database.rename("ACTIVEMQ_MSGS", "HIDDEN")
    try:
        for use in (
            filled.recover,
            filled.message_count,
            store.destinations,
            lambda: filled.add_message(Message("x")),
            lambda: filled.acknowledge(1),
            filled.remove_all_messages,
            lambda: filled.add_message_async(Message("x")).result(180),
        ):
            with pytest.raises(StoreError):
                use()
    finally:
        database.rename("HIDDEN", "ACTIVEMQ_MSGS")

    assert content(filled) == list("abcdef")
    fill(filled, "g")
    assert content(filled) == list("abcdefg")
