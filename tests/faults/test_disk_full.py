"""A database that may not grow any more."""

from __future__ import annotations

import gc
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import jdbcstore
from jdbcstore import BodyType, Message, MessageReference
from jdbcstore.database.adapters.sqlite import SqliteAdapter
from jdbcstore.errors import StoreUnavailable
from jdbcstore.message.openwire.pieces import PIECE_SIZE, with_body_in_pieces
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


@pytest.mark.backends("sqlite")
def test_the_removal_of_a_large_body_needs_little_room(url: str) -> None:
    """Some builds of SQLite overwrite what is deleted, for which a full disk has no room."""
    file = Path(url.removeprefix("sqlite:///"))
    with jdbcstore.JdbcStore(url, jdbcstore.StoreConfig(cleanup_period=0)) as store:
        body = store.large_bodies.begin()
        for piece in range(8):
            store.large_bodies.add(body, piece, bytes(PIECE_SIZE))
        body.end(8 * PIECE_SIZE)
        queue = store.queue("Q")
        queue.add_message(with_body_in_pieces(Message(), BodyType.BYTES, body))
        del body
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        queue.remove_all_messages()
        gc.collect()
        store.cleanup()
        assert not store.large_bodies.exist()
        assert file.with_name(f"{file.name}-wal").stat().st_size < PIECE_SIZE


@pytest.mark.backends("sqlite")
def test_a_new_file_is_not_readable_by_all(tmp_path: Path) -> None:
    umask = os.umask(0o022)
    try:
        with jdbcstore.open(f"sqlite:///{tmp_path}/new.db") as store:
            store.queue("Q").add_message(Message("one"))
            modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("new.db*")}
    finally:
        os.umask(umask)
    assert modes == dict.fromkeys(("new.db", "new.db-shm", "new.db-wal"), 0o640)
