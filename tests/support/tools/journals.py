"""Journals to be replayed, and damage to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jdbcstore import Destination, JdbcStore, Message, StoreConfig
from jdbcstore.config.journal import JournalConfig
from jdbcstore.journal.inspection import segments
from jdbcstore.message.patterns import DestinationPattern
from jdbcstore.stores.journaled import JournaledStore
from jdbcstore.tools.journal_history import JournalHistory
from jdbcstore.tools.replay import ReplaySelection
from tests.support.tools.replayed import ORDERS

LONG_AGO = 1_500_000_000_000


def open_store(folder: Path, **options: Any) -> JournaledStore:
    """Small files, and nothing by itself."""
    small: dict[str, Any] = {
        "journal_log_file_size": 8192,
        "checkpoint_interval": 0.0,
        "journal_retention": 3600.0,
    }
    config = JournalConfig(directory=str(folder / "journal"), **{**small, **options})
    behind = JdbcStore(f"sqlite:///{folder}/mq.db", StoreConfig(cleanup_period=0.0), journaled=True)
    return JournaledStore(behind, config)


def history(
    folder: Path, *destinations: str, since_ms: int | None = None, until_ms: int | None = None, **options: Any
) -> JournalHistory:
    patterns = tuple(DestinationPattern(Destination.parse(one)) for one in destinations)
    return JournalHistory(folder / "journal", ReplaySelection(patterns, since_ms, until_ms), **options)


def send(store: JournaledStore, count: int, to: Destination = ORDERS, first: int = 0) -> None:
    place = store.topic(to) if to.is_topic else store.queue(to)
    for number in range(first, first + count):
        place.add_message(Message(f"{number}", timestamp_ms=LONG_AGO + number))


def file_of(folder: Path, number: int) -> Path:
    return next(file.path for file in segments(folder / "journal") if file.number == number)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[1000] ^= 0x10
    path.write_bytes(data)
