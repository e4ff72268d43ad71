"""A queue: what is added is there, in order, until it is acknowledged."""

from __future__ import annotations

import pytest

from jdbcstore import Message
from jdbcstore.errors import SchemaError
from jdbcstore.testing import OpenStore
from jdbcstore.testing.contract.test_queue import *
from jdbcstore.testing.messages import content, fill
from tests.support.databases import Database


@pytest.mark.backends("sqlite")
@pytest.mark.variants("sqlite-journaled")
def test_a_row_that_no_sequence_can_come_behind(open_store: OpenStore, database: Database) -> None:
    with open_store() as store:
        fill(store.queue("ORDERS"), "a")
    database.execute(f"UPDATE ACTIVEMQ_MSGS SET ID = {2**63 - 1}")

    with pytest.raises(SchemaError, match=r"9223372036854775807.* acknowledge the message"):
        open_store().queue("ORDERS").add_message(Message("b"))

    database.execute("UPDATE ACTIVEMQ_MSGS SET ID = 7")
    queue = open_store().queue("ORDERS")
    fill(queue, "b")
    assert content(queue) == ["a", "b"]
