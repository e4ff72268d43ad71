"""SubscriptionInfo of OpenWire, in which KahaDB keeps a durable subscription."""

from __future__ import annotations

import struct

from jdbcstore.abc import SubscriptionInfo
from jdbcstore.errors import InvalidDestination
from jdbcstore.message.destination import Destination
from jdbcstore.message.openwire.decoder import Reader
from jdbcstore.message.openwire.wire_format import VERSION
from jdbcstore.message.openwire.wire_format import Malformed as NotOpenWire
from jdbcstore.tools.importing.protobuf import MalformedLog

_TYPE = 55
_HEAD = struct.Struct(">iB")


def read_subscription(topic: Destination | None, blob: bytes) -> SubscriptionInfo:
    """Return the subscription in these bytes, of any version of OpenWire since 3.

    :param topic: that it is to; None for its own
    :raises MalformedLog: it is none
    """
    try:
        size, kind = _HEAD.unpack_from(blob)
        if size != len(blob) - 4 or kind != _TYPE:
            raise MalformedLog("it is not a SubscriptionInfo", 0)
        reader = Reader(blob, _HEAD.size, VERSION)
        client_id, destination = reader.string(), reader.nested(Destination)
        selector, name = reader.string(), reader.string()
        subscribed = reader.nested(Destination)
    except (NotOpenWire, InvalidDestination, IndexError, struct.error) as error:
        raise MalformedLog(f"it cannot be decoded: {error}", 0) from error
    # Before version 11 nothing follows, and since then whether messages of its own connection are left out.
    if reader.at not in (len(blob), len(blob) - 1):
        raise MalformedLog("more bytes follow than there should be", 0)
    topic = topic or destination
    if topic is None:
        raise MalformedLog("it has no topic", 0)
    return SubscriptionInfo(client_id or "", name or "", topic, subscribed or destination or topic, selector)
