"""The rows that a real ActiveMQ 5.17.2 wrote, and what was sent to it.

``tests/fixtures/activemq-5.17.2/README.md`` describes the files. :func:`check_message` compares a
message, wherever it was read from, with what its sender put into it.
"""

from __future__ import annotations

import json
import struct
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jdbcstore.message.message import BodyType, Message
from jdbcstore.message.values import Byte, Char, Float, Long, Short, Value
from tests.support import ROOT

DIRECTORY = ROOT / "tests" / "fixtures" / "activemq-5.17.2"

Sent = Mapping[str, Any]
"""What the sender put into a message, as the recording spells it."""


@dataclass(frozen=True)
class RecordedMessage:
    """A row of ACTIVEMQ_MSGS, what was sent, and the headers ActiveMQ's own decoder reads from it."""

    sequence: int
    container: str
    msgid_prod: str
    msgid_seq: int
    expiration: int
    priority: int
    xid: str | None
    msg: bytes
    sent: Sent
    client_decoded: Mapping[str, Any]

    @property
    def case(self) -> str:
        return str(self.sent["case"])

    @property
    def row(self) -> dict[str, Any]:
        """The columns under their names."""
        return {
            "ID": self.sequence,
            "CONTAINER": self.container,
            "MSGID_PROD": self.msgid_prod,
            "MSGID_SEQ": self.msgid_seq,
            "EXPIRATION": self.expiration,
            "MSG": self.msg,
            "PRIORITY": self.priority,
            "XID": self.xid,
        }


@dataclass(frozen=True)
class Recording:
    """One recorded database: its rows, the messages that left none, and what else happened."""

    messages: tuple[RecordedMessage, ...]
    acks: tuple[Mapping[str, Any], ...]
    locks: tuple[Mapping[str, Any], ...]
    unstored: tuple[Sent, ...]
    events: tuple[Mapping[str, Any], ...]

    def case(self, name: str) -> RecordedMessage:
        """The one row of this case."""
        (message,) = (message for message in self.messages if message.case == name)
        return message


@cache
def load(name: str) -> Recording:
    """The recording in this file."""
    with (DIRECTORY / name).open(encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    tables: dict[str, list[Any]] = {}
    for line in lines:
        tables.setdefault(line.get("table", "events"), []).append(line)
    return Recording(
        messages=tuple(_message(line) for line in tables["ACTIVEMQ_MSGS"]),
        acks=tuple(line["row"] for line in tables["ACTIVEMQ_ACKS"]),
        locks=tuple(line["row"] for line in tables.get("ACTIVEMQ_LOCK", [])),
        unstored=tuple(line["sent"] for line in tables.get("none", [])),
        events=tuple(tables.get("events", [])),
    )


def postgres() -> Recording:
    """All that one run against empty tables left."""
    return load("postgres.jsonl")


def prioritised_topic() -> Recording:
    """Only the prioritised topic, from a database where its subscription works."""
    return load("postgres-acks-pk-renamed.jsonl")


def all_messages() -> tuple[RecordedMessage, ...]:
    return postgres().messages + prioritised_topic().messages


def _message(line: Mapping[str, Any]) -> RecordedMessage:
    row = line["row"]
    return RecordedMessage(
        sequence=row["ID"],
        container=row["CONTAINER"],
        msgid_prod=row["MSGID_PROD"],
        msgid_seq=row["MSGID_SEQ"],
        expiration=row["EXPIRATION"],
        priority=row["PRIORITY"],
        xid=row["XID"],
        msg=b64decode(row["MSG_b64"]),
        sent=line["sent"],
        client_decoded=line["client_decoded"],
    )


def typed(value: Mapping[str, Any]) -> Value:
    """The Python value of a recorded one, under its Java type."""
    kind = value["t"]
    if kind in _SIMPLE:
        simple: Value = _SIMPLE[kind](value["v"])
        return simple
    if kind == "float":
        return Float.from_bits(value["bits"] & 0xFFFF_FFFF)
    if kind == "double":
        return float(struct.unpack(">d", struct.pack(">Q", value["bits"] & 0xFFFF_FFFF_FFFF_FFFF))[0])
    if kind == "string":
        if "utf16be_b64" in value:
            return b64decode(value["utf16be_b64"]).decode("utf-16-be", "surrogatepass")
        return str(value["v"])
    if kind == "bytes":
        return b64decode(value["b64"])
    if kind == "map":
        return {name: typed(inner) for name, inner in value["v"].items()}
    if kind == "list":
        return [typed(inner) for inner in value["v"]]
    if kind == "null":
        return None
    raise AssertionError(f"the recording has a value of type {kind}")


_SIMPLE: dict[str, Any] = {
    "boolean": bool,
    "byte": Byte,
    "short": Short,
    "int": int,
    "long": Long,
    "char": lambda code: Char(chr(code)),
}


def exactly(value: object) -> object:
    """Something that is equal only for values of the same Java type with the same bits."""
    if isinstance(value, Float):
        return "float", value.bits
    if isinstance(value, float):
        return "double", struct.pack(">d", value)
    if isinstance(value, Mapping):
        return "map", {name: exactly(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value).__name__, [exactly(inner) for inner in value]
    return type(value).__name__, value


def sent_body(sent: Sent) -> object:
    """The body of the Python message that is the same as the one sent; an object's is not known."""
    body, kind = sent["body"], BodyType(sent["kind"])
    if kind is BodyType.MAP:
        return {entry["k"]: typed(entry["x"]) for entry in body}
    if kind is BodyType.STREAM:
        return tuple(typed(value) for value in body)
    if kind is BodyType.BYTES and isinstance(body, list):
        return b"".join(_as_written(value) for value in body)
    return None if body is None else typed(body)


def _as_written(value: Mapping[str, Any]) -> bytes:
    """What Java's DataOutput writes for this value."""
    kind, plain = value["t"], typed(value)
    if kind == "string":
        raw = str(plain).encode()  # nothing in the recording that Java would write in another way
        return struct.pack(">H", len(raw)) + raw
    if kind == "char":
        return struct.pack(">H", ord(str(plain)))
    if isinstance(plain, bytes):
        return plain
    codes = {"boolean": "?", "byte": "b", "short": "h", "int": "i", "long": "q", "float": "f", "double": "d"}
    return struct.pack(f">{codes[kind]}", plain)


# Set through properties by the sender, but kept in fields of their own.
_PROPERTIES_THAT_ARE_HEADERS = ("JMSXGroupID", "JMSXGroupSeq")

# Properties the broker added when it moved a message to the dead letter queue.
_ADDED_ON_THE_WAY = {"dead-letter": {"dlqDeliveryFailureCause", "originalExpiration"}}

_REDELIVERED = {"persist-redelivered"}

_STOMP_TEXT = {
    "priority": 7,
    "correlation_id": "stomp-corr",
    "type": "stomp.type",
    "reply_to": "queue://FX.REPLY",
}
_STOMP_PROPERTIES = {
    "stomp-text": {"custom": "va:lue"},
    "stomp-bytes": {"content-type": "application/octet-stream"},
}


def check_message(message: Message, sent: Sent) -> None:
    """Assert that this message says what was sent: headers, typed properties, body."""
    check_headers(message, sent)
    check_properties(message, sent)
    check_body(message, sent)


def check_headers(message: Message, sent: Sent) -> None:
    if sent["case"].startswith("stomp-"):
        _check_stomp_headers(message, sent)
        return
    case, properties = sent["case"], sent["properties"]
    assert str(message.message_id) == sent["jms_message_id"]
    assert sent["destination"] in _addresses(message), case
    assert message.persistent is (sent["delivery_mode"] == "persistent")
    assert message.priority == sent["priority"]
    assert message.timestamp_ms == sent["timestamp"]
    assert message.expiration_ms == sent["expiration"]
    assert message.correlation_id == _text(sent["correlation_id"])
    assert message.jms_type == _text(sent["type"])
    assert (message.reply_to and message.reply_to.qualified_name) == sent["reply_to"]
    assert message.group_id == properties.get("JMSXGroupID", {"v": None})["v"]
    assert message.group_sequence == properties.get("JMSXGroupSeq", {"v": 0})["v"]
    assert message.redelivery_counter == (case in _REDELIVERED)


def _text(recorded: object) -> object:
    """Some headers are recorded with their Java type and some without."""
    return typed(recorded) if isinstance(recorded, Mapping) else recorded


def _addresses(message: Message) -> set[str]:
    """Where the sender may have sent it: a composite, or a dead letter's first queue, is the original."""
    both = (message.destination, message.original_destination)
    return {destination.qualified_name for destination in both if destination is not None}


def _check_stomp_headers(message: Message, sent: Sent) -> None:
    expected: Mapping[str, Any] = _STOMP_TEXT if sent["case"] == "stomp-text" else {"priority": 4}
    assert str(message.destination) == sent["container"]
    assert message.persistent
    assert message.priority == expected["priority"]
    assert message.correlation_id == expected.get("correlation_id")
    assert message.jms_type == expected.get("type")
    assert (message.reply_to and message.reply_to.qualified_name) == expected.get("reply_to")


def check_properties(message: Message, sent: Sent) -> None:
    case = sent["case"]
    expected: dict[str, Value]
    if case in _STOMP_PROPERTIES:
        expected = {**_STOMP_PROPERTIES[case]}
    else:
        expected = {name: typed(value) for name, value in sent["properties"].items()}
    for name in _PROPERTIES_THAT_ARE_HEADERS:
        expected.pop(name, None)
    added = _ADDED_ON_THE_WAY.get(case, set())
    assert message.properties.keys() - expected.keys() == added
    assert exactly({name: message.properties[name] for name in expected}) == exactly(expected), case


def check_body(message: Message, sent: Sent) -> None:
    assert message.body_type == sent["kind"]
    if message.body_type is BodyType.OBJECT:
        _check_object(message.body, sent["body"])
    else:
        assert exactly(message.body) == exactly(sent_body(sent)), sent["case"]


def _check_object(body: object, sent: Mapping[str, Any] | None) -> None:
    """Java's serialised form ends with the value in these simple cases; it is never looked into else."""
    if sent is None or sent["t"] == "null":
        assert body is None
        return
    assert isinstance(body, bytes)
    assert body.startswith(b"\xac\xed\x00\x05")
    value = typed(sent)
    assert body.endswith((value.encode() if isinstance(value, str) else struct.pack(">i", value)) + b"y")


def check_same(messages: Sequence[Message], recorded: Sequence[RecordedMessage]) -> None:
    """Assert that these are the recorded messages, in this order."""
    assert [message.sequence for message in messages] == [row.sequence for row in recorded]
    for message, row in zip(messages, recorded, strict=True):
        check_message(message, row.sent)
