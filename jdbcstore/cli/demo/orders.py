"""What the messages of the demo say, and where they go."""

from __future__ import annotations

import hashlib

ORDER = "order"
"""The header that names an order, however often it is sent."""
AGAIN = "again"
"""The header of one that was sent before, and may have been stored then."""
MOVED = "DEMO.MOVED"
"""The queue of the consumer's own store."""


def producer_of(message_id: str) -> int:
    """The number with which the name of its producer ends, before session, producer and sequence."""
    return int(message_id.rsplit(":", 3)[0].rpartition("-")[2])


def body_of(message_id: str) -> str:
    """About a kilobyte that belongs to this message id and no other."""
    digest = hashlib.sha256(message_id.encode()).hexdigest()
    return f"order {message_id}: {digest * 15}"
