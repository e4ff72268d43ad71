"""The cost of a checkpoint of many messages on PostgreSQL: complete, and as references into the journal."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.ours import BODY
from jdbcstore import JdbcStore, JournaledStore, Message, StoreConfig
from jdbcstore.config.journal import JournalConfig
from tests.support.databases import PostgresqlDatabase

_BATCH = 1_000
WORK = ("the checkpoint", "reading all of them", "acknowledging nine of ten, and a checkpoint", "closing")


def costs(database: PostgresqlDatabase, folder: Path, count: int, *, quick: bool) -> list[tuple[float, int]]:
    """Measure seconds, and bytes of PostgreSQL's WAL, of each step."""
    config = JournalConfig(
        directory=str(folder / f"journal {quick}"),
        use_quick_journal=quick,
        journal_log_files=50,
        checkpoint_interval=0.0,
        checkpoint_size=1 << 40,
        memory_limit=1 << 40,
    )
    store = JournaledStore(JdbcStore(database.url, StoreConfig(cleanup_period=0.0), journaled=True), config)
    queue = store.queue("BENCHMARK")
    for _ in range(count // _BATCH):
        queue.add_messages(Message(BODY) for _ in range(_BATCH))

    def read() -> None:
        page = queue.recover(_BATCH)
        while not page.at_end:
            page = queue.recover(_BATCH, page.cursor)

    def acknowledge() -> None:
        last = store.last_sequence()
        queue.acknowledge(*(number for number in range(last - count + 1, last + 1) if number % 10))
        store.checkpoint()

    return [_cost(database, work) for work in (store.checkpoint, read, acknowledge, store.close)]


def _cost(database: PostgresqlDatabase, work: Callable[[], None]) -> tuple[float, int]:
    before, begin = _logged(database), time.monotonic()
    work()
    return time.monotonic() - begin, _logged(database) - before


def _logged(database: PostgresqlDatabase) -> int:
    [(written,)] = database.rows("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')")
    return int(written)
