"""Closing a store: what was accepted is written, or its callers are told; nothing is left behind."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from jdbcstore import Message
from jdbcstore.errors import OutcomeUnknown, StoreClosed
from jdbcstore.testing import OpenStore
from jdbcstore.testing.contract.test_closing import *
from jdbcstore.testing.messages import message_id
from jdbcstore.testing.polling import wait_until
from jdbcstore.testing.without import NO_WAITING
from tests.support.databases import Database


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize("attempt", range(5))
def test_closed_at_once(open_store: OpenStore, attempt: int) -> None:
    """The fixture finds a connection that background work took while the store was closing."""
    open_store(cleanup_period=0.001 * attempt)


@pytest.mark.usefixtures("database")
def test_closed_under_readers(open_store: OpenStore) -> None:
    store = open_store()
    queue = store.queue("A")
    reading = threading.Barrier(4)
    ends: list[type[BaseException]] = []

    def read() -> None:
        queue.message_count()
        reading.wait()
        try:
            while True:
                queue.message_count()
        except StoreClosed as closed:
            ends.append(type(closed))

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    reading.wait()
    store.close()
    for thread in threads:
        thread.join()

    assert ends == [StoreClosed] * 3


@NO_WAITING
def test_a_close_that_takes_too_long_says_what_it_gave_up(open_store: OpenStore, database: Database) -> None:
    store = open_store()
    queue = store.queue("ORDERS")

    with database.blocked():
        futures = [queue.add_message_async(Message("x", message_id=message_id(n))) for n in range(6)]
        with pytest.raises(StoreClosed) as closed:
            store.close(timeout=0.2)
        errors = [future.exception(0) for future in futures]

    assert closed.value.unwritten == 6
    assert "6" in str(closed.value) or "unwritten" in str(closed.value)
    assert {type(error) for error in errors} <= {StoreClosed, OutcomeUnknown}
    with pytest.raises(StoreClosed):
        queue.add_message(Message("y"))
    store.close()
    wait_until(lambda: database.connections() == 0)
    # What was given up is not there; what was in hand may be.
    written = {number for (number,) in database.rows("SELECT MSGID_SEQ FROM ACTIVEMQ_MSGS")}
    assert written <= {number for number, error in enumerate(errors) if isinstance(error, OutcomeUnknown)}


_FORGETFUL = """
import sys, jdbcstore
queue = jdbcstore.open(sys.argv[1], cleanup_period=0).queue("Q")
for number in range(3_000):
    queue.add_message_async(jdbcstore.Message(str(number)))
"""


@pytest.mark.backends("sqlite")
def test_a_program_that_ends_without_closing_writes_what_is_queued(database: Database) -> None:
    command = [sys.executable, "-c", _FORGETFUL, database.url]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
    assert database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == [(3_000,)]
    assert "close the store" in ended.stderr
