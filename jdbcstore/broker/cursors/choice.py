"""The cursor that a policy names for what is not, or not only, in the store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from jdbcstore.broker.cursors import MemoryCursor
from jdbcstore.broker.cursors.file import FileCursor
from jdbcstore.broker.entry import Source
from jdbcstore.broker.memory import MemoryUsage
from jdbcstore.errors import SpillFailed
from jdbcstore.message.message import Message


def memory_or_file(
    policy: str,
    name: str,
    source_of: Callable[[Message], Source],
    memory: MemoryUsage,
    *,
    lanes: int = 1,
    folder: Path | None = None,
    on_lost: Callable[[SpillFailed], None] | None = None,
    files: MemoryUsage | None = None,
) -> MemoryCursor | FileCursor:
    """In memory if the policy is one of ActiveMQ's ``vm...Cursor``; else in files, beyond some memory."""
    if policy.startswith("vm"):
        return MemoryCursor(memory, lanes)
    return FileCursor(name, source_of, memory, lanes=lanes, folder=folder, on_lost=on_lost, files=files)
