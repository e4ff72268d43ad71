"""How an engine is set up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Limits of an engine."""

    max_pending_count: int = 2_000
    """Writes on their way to the store; keep it well below the store's own limit, where it blocks."""
    max_pending_bytes: int = 16 * 1024 * 1024
    memory_limit: int = 64 * 1024 * 1024
    """Bytes of messages in memory."""
    temp_limit: int = 10 * 1024 * 1024 * 1024
    """Bytes of messages in temporary files."""
    folder: Path | None = None
    """Where temporary files are; None is the system's own."""
    concurrent_store_and_dispatch_queues: bool = False
    """Whether messages of queues are given out while they are being written."""
    audited: bool = False
    """Whether the store has ``enable_audit``: it then drops a message id that it has seen, wherever."""
