"""An error that somebody keeps, with its traceback, keeps no connection open."""

from __future__ import annotations

import pytest

from jdbcstore import Message, Store
from jdbcstore.errors import SchemaError
from tests.support.databases import Database


@pytest.mark.backends("sqlite", "postgresql")
def test_a_kept_error_keeps_no_connection(store: Store, database: Database) -> None:
    """A statement that was run before is not prepared again, so that it fails in another place."""
    queue = store.queue("Q")
    queue.add_message(Message("x"))
    [*queue.recover()]
    database.execute("ALTER TABLE ACTIVEMQ_MSGS RENAME TO GONE")
    with pytest.raises(SchemaError) as reading:
        [*queue.recover()]
    with pytest.raises(SchemaError) as writing:
        queue.add_message(Message("y"))
    store.close()
    database.expect_closed()
    del reading, writing
