"""Recovery after an unclean shutdown, with all messages in the journal.

``python -m benchmarks.recovery FOLDER COUNT`` is the process that is shut down.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from benchmarks.ours import BODY
from jdbcstore import JdbcStore, Message, MessageReference, StoreConfig
from jdbcstore.config.journal import JournalConfig
from jdbcstore.stores.journaled import JournaledStore

_IN_FLIGHT = 1000
_ALL = 1 << 40


class Rate(NamedTuple):
    """Records per second, opening included, and per second of CPU."""

    elapsed: float
    cpu: float


def rates(count: int, rounds: int) -> dict[str, list[Rate]]:
    """Measure with memory for all messages, and with the default limit."""
    found: dict[str, list[Rate]] = {"memory for all": [], "default `memory_limit`": []}
    with tempfile.TemporaryDirectory() as folder:
        left = Path(folder, "left")
        left.mkdir()
        subprocess.run([sys.executable, "-m", "benchmarks.recovery", left, str(count)], check=True)
        for _ in range(rounds):
            for config, measured in zip((_roomy(), JournalConfig()), found.values(), strict=True):
                again = Path(folder, "again")
                shutil.copytree(left, again)
                measured.append(_rate(again, count, config))
                shutil.rmtree(again)
    return found


def _rate(folder: Path, count: int, config: JournalConfig) -> Rate:
    start, cpu_start = time.perf_counter(), time.process_time()
    store = _opened(folder, config)
    elapsed, cpu = time.perf_counter() - start, time.process_time() - cpu_start
    with store:
        if store.queue("BENCHMARK").message_count() != count:
            raise AssertionError("messages are missing")
    return Rate(count / elapsed, count / cpu)


def _opened(folder: Path, config: JournalConfig) -> JournaledStore:
    behind = JdbcStore(f"sqlite:///{folder}/store.db", StoreConfig(cleanup_period=0.0), journaled=True)
    return JournaledStore(behind, replace(config, directory=str(folder / "journal")))


def _roomy() -> JournalConfig:
    return JournalConfig(memory_limit=_ALL, checkpoint_size=_ALL)


def _leave(folder: Path, count: int) -> None:
    """Add this many messages, each a record of its own, and end as a killed process does."""
    queue = _opened(folder, _roomy()).queue("BENCHMARK")
    waiting: deque[Future[MessageReference]] = deque()
    for _ in range(count):
        if len(waiting) == _IN_FLIGHT:
            waiting.popleft().result()
        waiting.append(queue.add_message_async(Message(BODY)))
    for future in waiting:
        future.result()
    os._exit(0)


if __name__ == "__main__":
    _leave(Path(sys.argv[1]), int(sys.argv[2]))
