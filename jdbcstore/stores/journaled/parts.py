"""What the destinations of one store share."""

from __future__ import annotations

from dataclasses import dataclass

from jdbcstore.message.ids import XATransactionId
from jdbcstore.stores.journaled.bodies import Bodies
from jdbcstore.stores.journaled.checkpointer import Checkpointer
from jdbcstore.stores.journaled.overlay import Overlay
from jdbcstore.stores.journaled.subscriptions import Subscriptions
from jdbcstore.stores.journaled.writing import JournalWriter
from jdbcstore.stores.shared.checkpoint import CheckpointedStore
from jdbcstore.util.clock import Clock


@dataclass(frozen=True, slots=True)
class Parts:
    """What the destinations of one store share."""

    store: CheckpointedStore
    """What is behind the journal."""
    overlay: Overlay
    writer: JournalWriter
    checkpointer: Checkpointer
    bodies: Bodies
    subscriptions: Subscriptions
    clock: Clock
    behind_prepared: set[XATransactionId]
    """XA transactions that are prepared in the store behind, since before there was a journal."""
