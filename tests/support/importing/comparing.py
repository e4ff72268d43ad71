"""Comparison of what was imported with what a broker itself has delivered."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from typing import Any

from jdbcstore.message.message import Message
from tests.support.interop.typed import describe

COUNTED_AGAIN = ("redelivered", "redelivery_counter")
"""What a broker counts when it has started again."""
by_id = itemgetter("message_id")


def seen(message: Message) -> dict[str, Any]:
    """Return a message as its broker saw it."""
    return {k: v for k, v in describe(message).items() if k not in COUNTED_AGAIN}


def comparable(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in message.items() if k not in COUNTED_AGAIN} for message in messages]


def contents(folder: Path) -> dict[Path, tuple[int, bytes]]:
    """Return all files below a folder, and when each was changed."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in found}
