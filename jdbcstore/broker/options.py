"""The options of an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from jdbcstore.config.plugins import PluginConfig
from jdbcstore.config.virtual import DEFAULT_VIRTUAL_TOPICS, CompositeConfig, VirtualTopicConfig
from jdbcstore.message.destination import Destination


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Limits and switches of an engine."""

    max_pending_count: int = 2_000
    """Pending writes to the store; keep it well below the store's own limit, which blocks."""
    max_pending_bytes: int = 16 * 1024 * 1024
    memory_limit: int = 64 * 1024 * 1024
    """Bytes of messages in memory."""
    temp_limit: int = 10 * 1024 * 1024 * 1024
    """Bytes of messages in temporary files."""
    data_folders: tuple[Path, ...] = ()
    """The folders of the journal and of the database's file, whose free space is watched."""
    disk_free_limit: int = 0
    """Free bytes of these folders, below which persistent messages are rejected; 0 means no limit."""
    folder: Path | None = None
    """The folder of temporary files; None means the system's."""
    concurrent_store_and_dispatch_queues: bool = False
    """Whether messages of queues are dispatched while they are being written."""
    virtual_topics: tuple[VirtualTopicConfig, ...] = DEFAULT_VIRTUAL_TOPICS
    composite_destinations: tuple[CompositeConfig, ...] = ()
    destinations: tuple[Destination, ...] = ()
    """Declared queues and topics, which always exist."""
    plugins: tuple[PluginConfig, ...] = ()
    name: str = "localhost"
    """The name of the broker, for statistics."""
    addresses: Callable[[], Mapping[str, str]] = dict
    """The client addresses by scheme, for statistics."""
    max_uncommitted_count: int = 0
    """The most messages that a transaction may send; 0 means unlimited."""
    scheduler_support: bool = False
    """Whether scheduled messages are enabled."""
    max_scheduler_repeats: int = 1000
    """The most repetitions of a scheduled message."""
    reject_durables: bool = False
    """Whether durable subscribers are rejected."""
    offline_durable_timeout: float = 0.0
    """Seconds without a consumer after which a durable subscription is deleted; 0 means never."""
    offline_durable_period: float = 300.0
    """Seconds between two searches for these subscriptions; 0 means never."""
    counted: bool = False
    """Whether the stored messages of each queue are counted when the engine starts."""
    bounds_stored: bool = False
    """Whether ``memory_limit`` also bounds stored messages, if the store is in memory."""
    audited: bool = False
    """Whether the store has ``enable_audit``, and so drops a message id that it has seen in any
    destination."""
