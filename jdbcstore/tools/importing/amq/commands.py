"""The commands of OpenWire in an AMQ store's journal: messages, acknowledgements, subscriptions, outcomes."""

from __future__ import annotations

import struct

from jdbcstore.errors import CorruptMessage, InvalidDestination
from jdbcstore.message import openwire
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import ConsumerId, MessageId
from jdbcstore.message.openwire.decoder import Reader
from jdbcstore.message.openwire.wire_format import BODY_TYPES, OLD_VERSION
from jdbcstore.message.openwire.wire_format import Malformed as NotOpenWire
from jdbcstore.tools.importing.kahadb.subscription import read_subscription
from jdbcstore.tools.importing.logged import AckedMessage, AddedMessage, Command, Ended, Outcome, Subscribed
from jdbcstore.tools.importing.protobuf import MalformedLog
from jdbcstore.tools.importing.replay import BodyPlace
from jdbcstore.tools.importing.rows import name_of

PREPARE, XA_COMMIT, XA_ROLLBACK, LOCAL_COMMIT, LOCAL_ROLLBACK = range(1, 6)
SUBSCRIPTION = 55
_OUTCOMES = {
    PREPARE: Outcome.PREPARED,
    XA_COMMIT: Outcome.COMMITTED,
    XA_ROLLBACK: Outcome.ROLLED_BACK,
    LOCAL_COMMIT: Outcome.COMMITTED,
    LOCAL_ROLLBACK: Outcome.ROLLED_BACK,
}
_MESSAGE_ACK, _TOPIC_ACK, _QUEUE_ACK, _TRACE, _TRANSACTION = 22, 50, 52, 53, 54
_FRAME = struct.Struct(">iB")
_ACK_HEAD = struct.Struct(">i?")
_i32, _i64 = struct.Struct(">i"), struct.Struct(">q")


def read_command(data: bytes, place: BodyPlace) -> Command | None:
    """Return the command in these bytes, which are at a place; None if it changes nothing.

    :raises MalformedLog: it is none
    """
    try:
        size, kind = _FRAME.unpack_from(data)
        if size != len(data) - 4:
            raise MalformedLog(f"a command says that it has {size} bytes, and {len(data) - 4} follow", 0)
        if kind in BODY_TYPES:
            return _read_message(data, place)
        if kind == SUBSCRIPTION:
            return read_subscribed(data)
        reader = Reader(data, _FRAME.size, OLD_VERSION)
        command = _read(kind, reader)
    except (NotOpenWire, CorruptMessage, InvalidDestination, IndexError, struct.error) as error:
        reason = error.reason if isinstance(error, CorruptMessage) else str(error)
        raise MalformedLog(f"a command cannot be decoded: {reason}", 0) from error
    if reader.at != len(data):
        raise MalformedLog("more bytes follow a command than there should be", reader.at)
    return command


def _read_message(data: bytes, place: BodyPlace) -> AddedMessage:
    message = openwire.decode(data, version=OLD_VERSION)
    if message.message_id is None or message.destination is None:
        raise MalformedLog("a message has no id, or no destination", 0)
    return AddedMessage(message.destination, name_of(message.message_id), place, message.transaction_id)


def read_subscribed(data: bytes) -> Subscribed:
    """Return the subscription in these bytes.

    :raises MalformedLog: it is none
    """
    info = read_subscription(None, data)
    return Subscribed(key_of(info.client_id, info.subscription_name), info)


def _read(kind: int, reader: Reader) -> Command | None:
    if kind == _TOPIC_ACK:
        destination, message_id = _destination(reader), _id(reader)
        reader.number(_i64)
        name, client_id = reader.string(), reader.string()
        key = key_of(client_id or "", name or "")
        return AckedMessage(destination, message_id, key, reader.transaction_id())
    if kind == _QUEUE_ACK:
        return _read_queue_ack(reader)
    if kind == _TRACE:
        reader.string()
        return None
    if kind == _TRANSACTION:
        transaction, how, _ = reader.transaction_id(), reader.byte(), reader.byte()
        if transaction is None or how not in _OUTCOMES:
            raise MalformedLog("an outcome without a transaction", 0)
        return Ended(transaction, _OUTCOMES[how])
    raise MalformedLog(f"there is no command of type {kind}", 0)


def _read_queue_ack(reader: Reader) -> AckedMessage:
    destination = _destination(reader)
    if reader.byte() != 1 or reader.byte() != _MESSAGE_ACK:
        raise MalformedLog("an acknowledgement is missing", reader.at)
    reader.fixed(_ACK_HEAD)
    reader.nested(Destination)
    transaction = reader.transaction_id()
    reader.nested(ConsumerId)
    reader.byte()
    reader.nested(MessageId)
    name = _id(reader)
    reader.number(_i32)
    return AckedMessage(destination, name, None, transaction)


def _destination(reader: Reader) -> Destination:
    destination = reader.nested(Destination)
    if destination is None:
        raise MalformedLog("an acknowledgement has no destination", reader.at)
    return destination


def _id(reader: Reader) -> str:
    id_ = reader.nested(MessageId)
    if id_ is None:
        raise MalformedLog("an acknowledgement has no message", reader.at)
    return name_of(id_)


def key_of(client_id: str, name: str) -> str:
    """Return the key of a durable subscription in the replay."""
    return f"{client_id}\0{name}"
