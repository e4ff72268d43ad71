"""Large bodies in pieces: there as long as a message has them, and gone afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from sqlalchemy.exc import DBAPIError

from jdbcstore import BodyType, Message, Store, XATransactionId
from jdbcstore.abc import KeepsLargeBodies, LargeBodies
from jdbcstore.errors import BodyInPieces, LargeBodyMissing
from jdbcstore.message.openwire.pieces import PIECE_SIZE, LargeBody, body_in_pieces, with_body_in_pieces
from jdbcstore.testing.messages import fill
from jdbcstore.testing.provider import OpenStore
from jdbcstore.testing.tables import RawTables

CONTENT = bytes(range(256)) * (PIECE_SIZE // 256) + b"the end"


def pieces_of(store: Store) -> LargeBodies:
    if not isinstance(store, KeepsLargeBodies):
        pytest.skip("this store does not keep bodies in pieces")
    return store.large_bodies


def upload(store: Store, content: bytes = CONTENT) -> LargeBody:
    bodies = pieces_of(store)
    body = bodies.begin()
    for piece, at in enumerate(range(0, len(content), PIECE_SIZE)):
        bodies.add(body, piece, content[at : at + PIECE_SIZE])
    body.end(len(content))
    return body


def large(store: Store, **fields: object) -> Message:
    properties = {"colour": "red", "number": 7}
    return with_body_in_pieces(
        Message(properties=properties, **fields),  # type: ignore[arg-type]
        BodyType.BYTES,
        upload(store),
    )


def read(store: Store, message: Message) -> bytes:
    assert body_in_pieces(message) is not None
    return b"".join(pieces_of(store).pieces_of(message))


def count(database: RawTables) -> tuple[int, int]:
    """Return the number of bodies and the pieces that are stored."""
    [[bodies]] = database.rows("SELECT COUNT(*) FROM JDBCSTORE_LARGE WHERE MSG_ID = 0")
    [[pieces]] = database.rows("SELECT COUNT(*) FROM JDBCSTORE_PIECES")
    return bodies, pieces


@pytest.fixture
def large_tables(database: RawTables) -> Iterator[None]:
    """Drop the tables that no other case has; a store that does not keep bodies in pieces has none."""
    yield
    for table in ("JDBCSTORE_PIECES", "JDBCSTORE_LARGE"):
        with contextlib.suppress(DBAPIError):
            database.execute(f"DROP TABLE {table}")


pytestmark = [pytest.mark.usefixtures("large_tables"), pytest.mark.new_database]


def test_a_message_has_its_headers_and_its_body(store: Store, open_store: OpenStore) -> None:
    store.queue("ORDERS").add_message(large(store, correlation_id="c", priority=7))

    [message] = open_store().queue("ORDERS").recover()

    assert (message.properties["colour"], message.correlation_id, message.priority) == ("red", "c", 7)
    assert (message.body_type, message.body_size) == (BodyType.BYTES, len(CONTENT))
    assert read(store, message) == CONTENT
    with pytest.raises(BodyInPieces, match=f"{len(CONTENT)} bytes is kept in pieces"):
        _ = message.body
    store.queue("ORDERS").update_message(message.replace(redelivery_counter=3))
    [message] = store.queue("ORDERS").recover()
    assert message.redelivery_counter == 3
    assert read(store, message) == CONTENT


def test_it_is_removed_after_the_last_message_that_has_it(store: Store, database: RawTables) -> None:
    message = large(store)
    store.queue("A").add_message(message)
    with store.transaction() as both:
        both.queue("B").add_message(message)
        both.topic("T").add_message(message)
    store.topic("T").subscribe("client", "name", retroactive=True)
    del message
    assert store.cleanup() == 0

    store.queue("A").remove_all_messages()
    with store.transaction() as move:  # as a dead letter
        [moved] = store.queue("B").recover()
        move.queue("DLQ").add_message(moved.replace(destination=None))
        move.queue("B").acknowledge(moved)
    del moved
    store.cleanup()
    [dead] = store.queue("DLQ").recover()
    assert read(store, dead) == CONTENT
    store.queue("DLQ").acknowledge(dead)
    del dead
    store.cleanup()
    assert count(database) == (1, 2)

    [topical] = store.topic("T").subscription("client", "name").recover()
    assert read(store, topical) == CONTENT
    store.topic("T").subscription("client", "name").acknowledge(topical)
    store.cleanup()
    assert count(database) == (1, 2)  # this process has it still
    del topical
    store.cleanup()
    assert count(database) == (0, 0)


def test_what_no_message_got_is_removed(store: Store, database: RawTables) -> None:
    body = upload(store)
    store.cleanup()
    assert count(database) == (1, 2)
    del body
    store.cleanup()
    assert count(database) == (0, 0)


def test_a_transaction_in_doubt_keeps_it(store: Store, open_store: OpenStore) -> None:
    xid = XATransactionId(1, b"global", b"branch")
    branch = store.xa.start(xid)
    branch.queue("ORDERS").add_message(large(store))
    assert branch.prepare()
    store.close()
    del branch
    again = open_store()
    again.cleanup()
    again.xa.commit(xid)
    again.cleanup()
    [message] = again.queue("ORDERS").recover()
    assert read(again, message) == CONTENT


def test_a_message_is_not_added_without_its_pieces(store: Store, database: RawTables) -> None:
    message = large(store)
    database.execute("UPDATE JDBCSTORE_LARGE SET TOUCHED = -1")  # as another process, which removes it
    queue = store.queue("ORDERS")
    others = fill(queue, "a")
    outcomes = queue.add_each_async([Message("b"), message, Message("c")]).result()

    assert isinstance(outcomes[1], LargeBodyMissing)
    assert [message.body for message in queue.recover()] == ["a", "b", "c"]
    assert len(others) == 1
    both = store.transaction()
    both.queue("ORDERS").add_message(message)
    both.queue("ORDERS").add_message(Message("d"))
    with pytest.raises(LargeBodyMissing):
        both.commit()
    assert queue.message_count() == 3


def test_a_damaged_name_is_an_error(store: Store, database: RawTables) -> None:
    reference = store.queue("ORDERS").add_message(large(store))
    [[blob]] = database.rows("SELECT MSG FROM ACTIVEMQ_MSGS")
    damaged = bytearray(blob)
    damaged[20] ^= 1
    database.execute(
        "UPDATE ACTIVEMQ_MSGS SET MSG = :m WHERE ID = :i", m=bytes(damaged), i=reference.sequence
    )
    page = store.queue("ORDERS").recover()
    assert [*page] == []
    assert "does not match its checksum" in str(page.corrupt[0])
