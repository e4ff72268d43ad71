"""What the destinations of one store share."""

from __future__ import annotations

from dataclasses import dataclass

from jdbcstore.checkpoint import CheckpointedStore
from jdbcstore.clock import Clock
from jdbcstore.ids import XATransactionId
from jdbcstore.journaled.bodies import Bodies
from jdbcstore.journaled.checkpointer import Checkpointer
from jdbcstore.journaled.overlay import Overlay
from jdbcstore.journaled.subscriptions import Subscriptions
from jdbcstore.journaled.writing import JournalWriter


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
