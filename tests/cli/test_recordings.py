"""``browse --json`` on databases that hold the rows of a real ActiveMQ."""

from __future__ import annotations

import base64
import json
import math
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import inspect, text

import jdbcstore
from tests.support import recordings
from tests.support.cli.command_line import CommandLine
from tests.support.databases import Database
from tests.support.recordings import RecordedMessage

ACTIVEMQS_TABLES = {"activemq_msgs", "activemq_acks", "activemq_lock"}
OUR_TABLES = ("JDBCSTORE_ACKS", "JDBCSTORE_STATE", "JDBCSTORE_VERSION")

KEYS = [
    *("id", "destination", "message_id", "type", "timestamp", "expiration", "priority", "correlation_id"),
    *("reply_to", "jms_type", "redelivery_counter", "properties", "body"),
]


@pytest.fixture
def activemqs(cli: CommandLine, database: Database) -> CommandLine:
    """On a database with ActiveMQ's tables and recorded rows, and nothing of ours."""
    jdbcstore.open(database.url, cleanup_period=0.0).close()
    for table in OUR_TABLES:
        quoted = database.engine.dialect.identifier_preparer.quote(table)
        names = inspect(database.engine).get_table_names()
        database.execute(f"DROP TABLE {quoted if table in names else table}")
    recording = recordings.postgres()
    insert(database, "ACTIVEMQ_MSGS", [message.row for message in recording.messages])
    insert(database, "ACTIVEMQ_ACKS", recording.acks)
    return cli


def insert(database: Database, table: str, rows: Any) -> None:
    columns = list(rows[0])
    values = ", ".join(f":{column}" for column in columns)
    with database.engine.connect() as connection:
        connection.execute(text(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})"), list(rows))


def tables(database: Database) -> set[str]:
    return {name.lower() for name in inspect(database.engine).get_table_names()}


def test_browse_shows_every_recorded_row_as_it_was_sent(activemqs: CommandLine, database: Database) -> None:
    recorded = recordings.postgres().messages
    containers = sorted({message.container for message in recorded})

    shown = activemqs.run_all(*(("browse", container, "--json") for container in containers)).lines

    assert all(list(line) == KEYS for line in shown)
    by_id = {line["id"]: line for line in shown}
    assert len(shown) == len(by_id)
    assert sorted(by_id) == [message.sequence for message in recorded]
    dead = by_id[recordings.postgres().case("dead-letter").sequence]
    assert dead["properties"].pop("dlqDeliveryFailureCause").startswith("java.lang.Throwable: ")
    for message in recorded:
        assert exactly(by_id[message.sequence]) == exactly(expected(message)), message.case
    assert tables(database) == ACTIVEMQS_TABLES


def test_status_of_a_database_that_activemq_wrote(activemqs: CommandLine, database: Database) -> None:
    status = activemqs("status", "--json").json

    counts = {one["destination"]: one["message_count"] for one in status["destinations"]}
    assert counts["queue://FX.BODIES"] == 21
    assert counts["queue://FX.XA.ACKED"] == 0  # in doubt
    pending = {
        (one["client_id"], one["subscription_name"]): (one["selector"], one["pending"])
        for one in status["subscriptions"]
    }
    assert pending["fx-client", "plain"] == (None, 4)
    assert pending["fx-client", "selected"] == ("colour = 'red' AND weight > 10", 6)
    assert status["last_id"] == 95
    assert status["lock"] == {"broker_name": None, "time": None}
    assert {name.lower() for name, there in status["tables"].items() if there} == ACTIVEMQS_TABLES
    assert tables(database) == ACTIVEMQS_TABLES


def test_consuming_goes_on_where_activemq_stopped(activemqs: CommandLine) -> None:
    subscription = ("topic://FX.TOPIC", "--client-id", "fx-client", "--subscription", "plain", "--json")

    consumed = activemqs("consume", *subscription, "--count", "2").lines
    left = activemqs("browse", *subscription).lines

    assert [line["id"] for line in consumed] == [79, 80]
    assert [line["id"] for line in left] == [81, 82]


@pytest.mark.backends("sqlite", "postgresql")
def test_messages_in_doubt_are_pointed_out_and_not_consumed(activemqs: CommandLine) -> None:
    browsed = activemqs("browse", "queue://FX.XA", "--json")
    consumed = activemqs("consume", "queue://FX.XA", "--count", "5", "--json")

    assert [line["id"] for line in browsed.lines] == [91, 92]
    assert "ID 92 is in a prepared XA transaction" in browsed.err
    assert [line["id"] for line in consumed.lines] == [91]


STOMP: dict[str, dict[str, Any]] = {
    "stomp-text": {
        "priority": 7,
        "correlation_id": "stomp-corr",
        "jms_type": "stomp.type",
        "reply_to": "queue://FX.REPLY",
        "properties": {"custom": "va:lue"},
    },
    "stomp-bytes": {"properties": {"content-type": "application/octet-stream"}},
}


def expected(message: RecordedMessage) -> dict[str, Any]:
    """The JSON of what was sent, and of what the broker is known to change on the way."""
    sent = message.sent
    headers: dict[str, Any] = {
        "id": message.sequence,
        "destination": message.container,
        "message_id": f"{message.msgid_prod}:{message.msgid_seq}",
        "type": sent["kind"],
        "timestamp": sent.get("timestamp", message.client_decoded["timestamp"]),
        "expiration": sent.get("expiration", 0),
        "priority": sent.get("priority", 4),
        "correlation_id": plain(sent.get("correlation_id")),
        "reply_to": sent.get("reply_to"),
        "jms_type": plain(sent.get("type")),
        "redelivery_counter": message.client_decoded["redelivery_counter"],
        "properties": {name: plain(value) for name, value in sent.get("properties", {}).items()},
        "body": body(message),
    }
    if message.case == "dead-letter":
        headers["properties"]["originalExpiration"] = 0
    return {**headers, **STOMP.get(message.case, {})}


def body(message: RecordedMessage) -> Any:
    sent, kind = message.sent["body"], message.sent["kind"]
    if kind == "map":
        return {entry["k"]: plain(entry["x"]) for entry in sent}
    if kind == "stream":
        return [plain(value) for value in sent]
    if kind == "bytes":
        return base64.b64encode(recordings.sent_body(message.sent)).decode()  # type: ignore[arg-type]
    if kind == "object":
        # What Java's serialisation made of it is not in the ground truth; ActiveMQ's decoder knows.
        return None if plain(sent) is None else content(message)
    return plain(sent)


def content(message: RecordedMessage) -> str:
    """The bytes of an object body, as the decoder of ActiveMQ's client found them."""
    raw = base64.b64decode(message.client_decoded["content_b64"])
    if message.client_decoded["compressed"]:
        raw = zlib.decompress(raw)
    return base64.b64encode(raw).decode()


def plain(value: Any) -> Any:
    """A recorded value as JSON has it."""
    if not isinstance(value, Mapping):
        return value
    if "bits" in value:
        return number(value["t"], value["bits"])
    if "utf16be_b64" in value:
        return base64.b64decode(value["utf16be_b64"]).decode("utf-16-be", "surrogatepass")
    match value["t"]:
        case "char":
            return chr(value["v"])
        case "map":
            return {name: plain(inner) for name, inner in value["v"].items()}
        case "list":
            return [plain(inner) for inner in value["v"]]
    return value.get("b64", value.get("v"))


def number(kind: str, bits: int) -> float | str:
    size, code, unsigned = (4, ">f", ">I") if kind == "float" else (8, ">d", ">Q")
    value: float = struct.unpack(code, struct.pack(unsigned, bits % (1 << 8 * size)))[0]
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def exactly(value: Any) -> str:
    """A text that differs wherever JSON does: 1 from 1.0 and from true."""
    return json.dumps(value, sort_keys=True)


@pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
@pytest.mark.parametrize("outcome", ["commit", "rollback"])
def test_recorded_transactions_in_doubt_are_listed_and_decided(
    activemqs: CommandLine, database: Database, outcome: str
) -> None:
    events = [event["xid"] for event in recordings.postgres().events if event.get("state") == "prepared"]
    subscription = ("topic://FX.XA.TOPIC", "--client-id", "fx-xa", "--subscription", "xadur")

    listed = activemqs("xa", "list", "--json").lines

    assert tables(database) == ACTIVEMQS_TABLES
    for found, xid in zip(listed, events, strict=True):
        assert found["format_id"] == xid["format_id"]
        assert found["global_transaction_id"] == base64.b64decode(xid["gtrid_b64"]).hex()
        assert found["branch_qualifier"] == base64.b64decode(xid["bqual_b64"]).hex()
    durable = {"client_id": "fx-xa", "subscription_name": "xadur"}
    neither = {"client_id": None, "subscription_name": None}
    assert [write for found in listed for write in found["writes"]] == [
        {"destination": "queue://FX.XA", "added": 1, "acknowledged": 0, **neither},
        {"destination": "queue://FX.XA.ACKED", "added": 0, "acknowledged": 1, **neither},
        {"destination": "topic://FX.XA.TOPIC", "added": 0, "acknowledged": 1, **durable},
    ]

    xids = [found["xid"] for found in listed]
    activemqs.run_all(*(("xa", outcome, xid) for xid in reversed(xids)))

    left = activemqs.run_all(
        ("browse", "queue://FX.XA", "--json"),
        ("browse", "queue://FX.XA.ACKED", "--json"),
        ("browse", *subscription, "--json"),
        ("xa", "list", "--json"),
    )
    ids = [line["id"] for line in left.lines]
    assert ids == ([91, 96] if outcome == "commit" else [91, 89, 93])
    assert database.rows("SELECT ID FROM ACTIVEMQ_MSGS WHERE XID IS NOT NULL") == []
    marks = "SELECT LAST_ACKED_ID, XID FROM ACTIVEMQ_ACKS WHERE SUB_NAME = 'xadur'"
    assert database.rows(marks) == [(93 if outcome == "commit" else 92, None)]
    again = activemqs.run("xa", outcome, xids[0])
    assert (again.code, again.out) == (6, "")
    assert "is not prepared" in again.err
