"""The durable subscriptions in the reference store of an AMQ store, beside its journal: ``kr-store/state``.

::

    index-kaha    items of 51 bytes: 7A 55, whether it is in use (1), two neighbours (16), the places of its
                  key and of its value: file (4), offset (8) and size (4)
    data-kaha-N   values: 1 (1), size (4), and here the size (4) of a SubscriptionInfo of OpenWire, and that

Everything else of it can be made again from the journal, and is not read. These are not in the journal if
ActiveMQ has removed the file in which they were created; and of a subscription's end nothing is there.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

from jdbcstore.tools.importing.amq.commands import SUBSCRIPTION, read_subscribed
from jdbcstore.tools.importing.logged import Subscribed
from jdbcstore.tools.importing.protobuf import MalformedLog

STATE = Path("kr-store", "state")
_INDEX, _DATA = "index-kaha", "data-kaha-"
_ITEM = struct.Struct(">2s?qqiqiiqi")
_MAGIC = b"zU"
_VALUE = struct.Struct(">bi")
_SIZE = struct.Struct(">i")


class KnownSubscriptions(NamedTuple):
    """The subscriptions by key."""

    present: dict[str, Subscribed]
    gone: set[str]
    """Keys of subscriptions that have been deleted."""


def read_subscriptions(folder: Path) -> KnownSubscriptions | None:
    """Return the subscriptions of a folder's reference store; None if it is not there, or is damaged."""
    state = folder / STATE
    try:
        index = (state / _INDEX).read_bytes()
        values = {path.name: path.read_bytes() for path in state.glob(f"{_DATA}*")}
    except OSError:
        return None
    if len(index) % _ITEM.size or not index:
        return None
    present: dict[str, Subscribed] = {}
    for magic, is_used, _, _, *places in _ITEM.iter_unpack(index):
        if magic != _MAGIC:
            return None
        for number, offset, size in (places[:3], places[3:]):
            content = values.get(f"{_DATA}{number}", b"")
            if not is_used or number < 0:
                continue
            if not _is_whole(content, offset, size):
                return None
            subscription = _subscription(content, offset, size)
            if subscription is not None:
                present[subscription.key] = subscription
    gone = {subscription.key for content in values.values() for subscription in _all(content)} - set(present)
    return KnownSubscriptions(present, gone)


def _is_whole(content: bytes, offset: int, size: int) -> bool:
    """Return whether there is a value of this size."""
    end = offset + _VALUE.size + size
    return offset >= 0 and end <= len(content) and _VALUE.unpack_from(content, offset) == (1, size)


def _subscription(content: bytes, offset: int, size: int) -> Subscribed | None:
    start = offset + _VALUE.size
    data = content[start : start + size]
    if len(data) < 9 or data[8] != SUBSCRIPTION or _SIZE.unpack_from(data)[0] != len(data) - 4:
        return None
    try:
        return read_subscribed(data[4:])
    except MalformedLog:
        return None


def _all(content: bytes) -> list[Subscribed]:
    subscriptions, at = [], 0
    while at + _VALUE.size <= len(content):
        kind, size = _VALUE.unpack_from(content, at)
        if kind != 1 or size < 0:
            break
        subscription = _subscription(content, at, size)
        if subscription is not None:
            subscriptions.append(subscription)
        at += _VALUE.size + size
    return subscriptions
