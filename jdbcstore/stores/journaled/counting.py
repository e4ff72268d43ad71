"""How many messages there are, in the store behind and in what is laid over it together.

The store is asked while no transaction of a checkpoint is written, so that what it has is known exactly.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from jdbcstore.abc import Cursor, DurableSubscription, Statistics
from jdbcstore.message.message import Message
from jdbcstore.message.openwire import REFERENCE_SIZE
from jdbcstore.stores.journaled.layers import Layer
from jdbcstore.stores.journaled.parts import Parts
from jdbcstore.stores.journaled.reading import Source, read_page
from jdbcstore.stores.shared.checkpoint import CheckpointedDestination
from jdbcstore.stores.shared.encoding import EncodedMessage

_END = 2**63 - 1


@dataclass(slots=True)
class _Laid:
    """What the layers add to a source, take from it, and change in it."""

    count: int = 0
    size: int = 0
    gone: list[int] = field(default_factory=list)
    """Messages of the store behind, if it has them, that are not seen."""
    updated: dict[int, int] = field(default_factory=dict)
    """Such messages that are seen with other contents, and their bytes then."""


def count_messages(parts: Parts, source: Source, behind: CheckpointedDestination) -> int:
    """How many messages of a destination are seen."""
    with parts.checkpointer.gate:
        laid = _laid(parts, source)
        gone: Collection[int] = behind.present(laid.gone) if laid.gone else ()
        return behind.message_count() - len(gone) + laid.count


def count_pending(parts: Parts, source: Source, behind: DurableSubscription) -> int:
    """How many messages a subscription has not acknowledged."""
    with parts.checkpointer.gate:
        laid = _laid(parts, source)
        gone: Collection[int] = pending(behind, laid.gone) if laid.gone else ()
        return behind.message_count() - len(gone) + laid.count


def pending(behind: DurableSubscription, sequences: Sequence[int]) -> set[int]:
    """Those of these that the store behind would still give to the subscription."""
    wanted, last, found = set(sequences), max(sequences), set[int]()
    # One position stands for every lane.
    after = Cursor((min(sequences) - 1,))
    while True:
        page = behind.recover(500, after)
        seen = [one.sequence or 0 for one in (*page, *page.corrupt)]
        found |= wanted.intersection(seen)
        after = page.cursor
        if page.at_end or (len(after.positions) == 1 and after.positions[0] >= last):
            return found


def summarize(parts: Parts, source: Source, behind: CheckpointedDestination) -> Statistics:
    """The number and bytes of a destination's messages, and when the first was sent."""
    with parts.checkpointer.gate:
        laid = _laid(parts, source)
        asked = [*laid.gone, *laid.updated]
        referred = parts.bodies.sizes(parts.checkpointer.mark, source.container)
        present = behind.present(asked) if asked else {}
        more = sum(size - REFERENCE_SIZE for size in referred.values())
        present.update((sequence, referred[sequence]) for sequence in present.keys() & referred.keys())
        stored = behind.statistics()
        oldest = stored.oldest_timestamp_ms
        if present or not stored.message_count:
            oldest = _oldest(source, behind)
    gone = [present[sequence] for sequence in laid.gone if sequence in present]
    more += sum(size - present[sequence] for sequence, size in laid.updated.items() if sequence in present)
    return Statistics(
        stored.message_count - len(gone) + laid.count,
        stored.message_bytes - sum(gone) + more + laid.size,
        oldest,
    )


def _oldest(source: Source, behind: CheckpointedDestination) -> int | None:
    """When the message with the lowest sequence was sent."""
    heads: list[Message] = []
    for lane in range(source.lanes):
        only = Cursor(tuple(-1 if other == lane else _END for other in range(source.lanes)))
        heads += read_page(source, behind.recover, 1, only)
    first = min(heads, key=lambda message: message.sequence or 0, default=None)
    return None if first is None else first.timestamp_ms


def _laid(parts: Parts, source: Source) -> _Laid:
    overlay, laid = parts.overlay, _Laid()
    with overlay.lock:
        oldest, written = overlay.oldest, overlay.written
        hidden = set[int]().union(*source.hidden(oldest))
        for layer in oldest.chain():
            place = layer.places.get(source.container)
            if place is None:
                continue
            if layer is overlay.active:
                laid.count += place.count
                laid.size += place.size
            else:
                # What a checkpoint has written is counted by the store behind.
                rest = [number for lane in place.lanes.values() for number in lane.behind(written)]
                laid.count += len(rest)
                laid.size += sum(len(layer.adds[number].blob) for number in rest)
            for sequence, message in place.updates.items():
                if sequence in hidden:
                    continue
                added = _added(oldest, source.container, sequence) if sequence > written else None
                if added is None:
                    laid.updated[sequence] = len(message.blob)
                else:
                    laid.size += len(message.blob) - len(added.blob)
        for sequence in hidden:
            added = _added(oldest, source.container, sequence) if sequence > written else None
            if added is None:
                laid.gone.append(sequence)
            else:
                laid.count -= 1
                laid.size -= len(added.blob)
    return laid


def _added(oldest: Layer, container: str, sequence: int) -> EncodedMessage | None:
    for layer in oldest.chain():
        message = layer.adds.get(sequence)
        if message is not None and message.container == container:
            return message
    return None
