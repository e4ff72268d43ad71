"""A database that may not grow any more."""

from __future__ import annotations

from typing import Any

import pytest

import jdbcstore
from jdbcstore import Message, MessageReference
from jdbcstore.database.adapters.sqlite import SqliteAdapter
from jdbcstore.errors import StoreUnavailable
from tests.support.faults.effects import WAIT

PAGES = 120


@pytest.mark.backends("sqlite")
def test_a_full_disk_loses_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = SqliteAdapter.on_connect

    def connect_to_a_small_disk(adapter: SqliteAdapter, connection: Any) -> None:
        connect(adapter, connection)
        connection.execute(f"PRAGMA max_page_count = {PAGES}").close()

    monkeypatch.setattr(SqliteAdapter, "on_connect", connect_to_a_small_disk)
    with jdbcstore.open(url, cleanup_period=0) as store:
        queue = store.queue("Q")
        stored: list[MessageReference] = []
        full = 0
        while not full:
            for future in [queue.add_message_async(Message("x" * 5_000)) for _ in range(10)]:
                error = future.exception(WAIT)
                if error is None:
                    stored.append(future.result())
                else:
                    assert isinstance(error, StoreUnavailable)
                    assert "no space left" in str(error)
                    full += 1
        with pytest.raises(StoreUnavailable, match="no space left"):
            queue.add_messages([Message("x" * 5_000) for _ in range(PAGES)])
        assert [message.sequence for message in queue.recover()] == [one.sequence for one in stored]

        queue.acknowledge(*stored[:30])
        again = queue.add_messages([Message("x" * 5_000) for _ in range(20)])
        assert len(stored) > 40
        assert [message.sequence for message in queue.recover()] == [
            one.sequence for one in [*stored[30:], *again]
        ]
