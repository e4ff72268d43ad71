"""Sends while the disk of the store is nearly full, and after the database itself had no space left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import jdbcstore
from jdbcstore import Message
from jdbcstore.broker.engine import Engine
from jdbcstore.broker.options import EngineOptions
from jdbcstore.broker.store_io import room
from jdbcstore.database.adapters.sqlite import SqliteAdapter
from jdbcstore.errors import DestinationFull, StorageFull
from jdbcstore.message.destination import Destination

Q = Destination.queue("Q")
HUGE = 1 << 60


def run(folder: Path, main: Callable[[Engine], Any], limit: int) -> None:
    async def bounded() -> None:
        with jdbcstore.open(f"sqlite:///{folder}/mq.db", cleanup_period=0) as store:
            engine = Engine(store, options=EngineOptions(data_folders=(folder,), disk_free_limit=limit))
            await engine.start()
            try:
                async with asyncio.timeout(120):
                    await main(engine)
            finally:
                await engine.stop()

    asyncio.run(bounded())


def message(body: str = "x") -> Message:
    return Message(body, destination=Q)


def test_sends_are_rejected_below_the_limit_and_removals_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(engine: Engine) -> None:
        await engine.send(message("kept"), "c")
        monkeypatch.setattr(engine.outbox.room, "_limit", HUGE)
        engine.outbox.room.look()
        with pytest.raises(DestinationFull, match="disk_free_limit"):
            await engine.send(message(), "c")
        transaction = engine.begin("c")
        with pytest.raises(DestinationFull, match="disk_free_limit"):
            await transaction.send(message())
        transaction.rollback()
        await engine.send(Message("not stored", destination=Q, persistent=False), "c")
        assert engine.outbox.room.refused == 2
        monkeypatch.setattr(engine.outbox.room, "_limit", 1)
        engine.outbox.room.look()
        await engine.send(message("again"), "c")

    run(tmp_path, main, limit=1)


def test_a_database_without_space_gets_a_message_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = SqliteAdapter.on_connect

    def connect_to_a_small_disk(adapter: SqliteAdapter, connection: Any) -> None:
        connect(adapter, connection)
        connection.execute("PRAGMA max_page_count = 120").close()

    monkeypatch.setattr(SqliteAdapter, "on_connect", connect_to_a_small_disk)
    monkeypatch.setattr(room, "_RETRY", 0.01)

    async def main(engine: Engine) -> None:
        changed = asyncio.Event()
        pauses: list[float | None] = []

        def change(pause: float | None) -> None:
            pauses.append(pause)
            changed.set()

        engine.outbox.room.on_change = change

        async def fill() -> None:
            while True:
                await engine.send(message("x" * 20_000), "c")

        with pytest.raises(StorageFull, match="no space left"):
            await fill()
        assert pauses[:1] == [0.01]
        while engine.outbox.room.refusal is not None:
            changed.clear()
            await changed.wait()
        await engine.loop.run(engine.store.queue(Q.name).remove_all_messages)
        await engine.send(message("again"), "c")

    run(tmp_path, main, limit=0)
