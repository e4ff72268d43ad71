"""Conditions over columns hold where they hold for each message by itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

import pyarrow.compute as pc  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from sqlalchemy.dialects import sqlite  # noqa: E402

from jdbcstore import Message, MessageId, ProducerId  # noqa: E402
from jdbcstore.analytics.arrow.conditions import conditions, fulfilled  # noqa: E402
from jdbcstore.analytics.arrow.selecting import Selecting  # noqa: E402
from jdbcstore.analytics.arrow.table import ALL, STORED, ViewRows  # noqa: E402
from jdbcstore.config import StoreConfig  # noqa: E402
from jdbcstore.database.adapters.sqlite import SqliteAdapter  # noqa: E402
from jdbcstore.database.tables import define_tables  # noqa: E402
from jdbcstore.errors import ConfigurationError, CorruptMessage, InvalidSelector  # noqa: E402
from jdbcstore.message.openwire import decode, encode  # noqa: E402
from jdbcstore.message.selector import Selector  # noqa: E402
from tests.support.openwire.strategies import messages  # noqa: E402
from tests.support.recordings import all_messages  # noqa: E402
from tests.support.selector.table import CASES, MESSAGE, E  # noqa: E402

TABLES = define_tables(SqliteAdapter(), StoreConfig())
RECORDED = [message.msg for message in all_messages()]
ANYTHING = [
    "JMSPriority > 4",
    "JMSType IS NULL",
    "JMSDeliveryMode = 'PERSISTENT' AND JMSXDeliveryCount = 1",
    "JMSDestination LIKE '%A%' OR JMSReplyTo IS NOT NULL",
    "JMSMessageID LIKE 'ID:%' AND NOT JMSRedelivered",
    "JMSTimestamp BETWEEN 1 AND 9000000000000 AND JMSCorrelationID IS NULL",
    "JMSXUserID IS NULL AND JMSExpiration = 0",
    "JMSXGroupID IS NOT NULL OR JMSXGroupSeq > 0",
    "JMSActiveMQBrokerInTime > 0 OR JMSXProducerTXID IS NULL",
    "text = 'x' OR int > 1 OR boolean",
    "",
]


def rows_of(blobs: list[bytes | None]) -> ViewRows:
    return ViewRows({"msg": pa.array(blobs, pa.binary())})


def matches(selector: Selector, blob: bytes | None) -> bool:
    try:
        return selector.matches(decode(blob))
    except CorruptMessage:
        return False


def test_selectors_of_every_kind_and_type() -> None:
    """Beside the message are others of other forms, so that columns differ from row to row."""
    other = Message("x", message_id=MessageId(ProducerId("ID:host-1", 1, 1), 1), properties={"colour": 7})
    blobs = [encode(other), encode(MESSAGE), None, *RECORDED[:3], encode(MESSAGE.replace(properties={}))]
    rows = rows_of(blobs)
    different = {}
    for case in CASES:
        if case.expected == E:
            continue
        expected = [matches(Selector(case.text), blob) for blob in blobs]
        if (found := Selecting(case.text).mask(rows).to_pylist()) != expected:
            different[case.text] = found
    assert different == {}


@pytest.mark.parametrize("text", ANYTHING)
def test_selectors_over_the_recorded_messages(text: str) -> None:
    expected = [matches(Selector(text), blob) for blob in RECORDED]
    assert Selecting(text).mask(rows_of([*RECORDED])).to_pylist() == expected
    assert Selecting(text).mask(rows_of([])).to_pylist() == []


@given(st.lists(messages(), max_size=5), st.data())
@settings(max_examples=60)
def test_selectors_over_any_messages(several: list[Message], data: st.DataObject) -> None:
    blobs = [encode(message) for message in several]
    names = sorted({name for message in several for name in message.properties if name.isidentifier()})
    name = data.draw(st.sampled_from([*names, "none"]))
    for text in (f"{name} IS NULL", f"{name} = 'a' OR {name} > 1", f"{name} <> 0 AND JMSPriority < 9"):
        try:
            selector = Selector(text)
        except InvalidSelector:
            continue  # a word of the language
        assert Selecting(text).mask(rows_of([*blobs])).to_pylist() == [matches(selector, b) for b in blobs]


def stored(**columns: list[Any]) -> ViewRows:
    return ViewRows({name: pa.array(values, STORED[name]) for name, values in columns.items()})


NAMES = ["queue://A", "queue://a", "queue://A ", None, "topic://A"]
PLAIN = stored(
    id=[1, 2, 3, 4, 5], container=NAMES, expiration=[0, 7, 9, None, 1], priority=[0, 4, 9, 0, None]
)
COMPARISONS: dict[str, tuple[Any, list[int]]] = {
    "equal": (("destination", "=", "queue://A"), [1]),
    "equal by Python's name": (("destination", "==", "queue://A"), [1]),
    "different": (("destination", "!=", "queue://A"), [2, 3, 5]),
    "one of": (("container", "in", ["queue://a", "queue://A ", None, "x"]), [2, 3]),
    "one of none": (("container", "in", []), []),
    "none of": (("destination", "not in", ["queue://A"]), [2, 3, 5]),
    "below": (("id", "<", 3), [1, 2]),
    "from": (("expiration", ">=", 1), [2, 3, 5]),
    "nothing equals null": (("expiration", "=", None), []),
    "the kind": (("destination_type", "=", "topic"), [5]),
    "all of several": ([("id", ">", 1), ("id", "<=", 4), ("priority", "in", [4, 9])], [2, 3]),
    "an expression": (pc.field("id") + 1 == pc.field("expiration") - 4, [2]),
    "with others": ([pc.field("destination").is_valid(), ("id", "not in", [1, 2])], [3, 5]),
    "nothing": (None, [1, 2, 3, 4, 5]),
}


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons(name: str) -> None:
    where, ids = COMPARISONS[name]
    assert fulfilled(PLAIN, conditions(where), ["id"]).column("id").to_pylist() == ids


@pytest.mark.parametrize(
    ("condition", "clause"),
    [
        (("destination", "=", "queue://A"), "container = 'queue://A'"),
        (("container", "in", ["a", "b"]), "container IN ('a', 'b')"),
        (("xid", "=", "1"), "xid = '1'"),
        (("id", ">", 5), "id > 5"),
        (("priority", "!=", 5), "priority != 5"),
        (("msgid_seq", "not in", [5]), "(msgid_seq NOT IN (5))"),
        (("expiration", "<=", 5), "expiration <= 5"),
        # A collation may order or distinguish names in its own way.
        (("destination", "!=", "queue://A"), None),
        (("destination", "<", "queue://A"), None),
        (("destination", "not in", ["queue://A"]), None),
        # What not every database takes.
        (("destination", "=", "a\0"), None),
        (("destination", "=", ""), None),
        (("id", "in", [*range(501)]), None),
        (("id", "in", []), None),
        (("id", "=", None), None),
        # Not in the table.
        (("destination_type", "=", "queue"), None),
        (("timestamp", ">", datetime(2026, 1, 1, tzinfo=UTC)), None),
        (("jms_priority", "=", 4), None),
        ("JMSPriority = 4", None),
        (pc.field("id") == 5, None),
    ],
)
def test_what_is_left_to_the_database(condition: Any, clause: str | None) -> None:
    [made] = conditions(condition)
    found = made.clause(TABLES)
    text = None
    if found is not None:
        compiled = found.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True})
        text = str(compiled).replace('"', "").replace("ACTIVEMQ_MSGS.", "")
    assert (text and text.lower()) == (clause and clause.lower())


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (("nonsense", "=", 1), "there is no column 'nonsense'; choose from id, container"),
        (("id", "~", 1), "'~' is not an operator; use one of =, !="),
        (("id", "=", "one"), "of the type int64, which 'one' does not match"),
        (("id", "=", 1 << 64), "of the type int64"),
        (("id", "in", 5), "of the type int64"),
        (("timestamp", ">", "yesterday"), "of the type timestamp"),
        (("properties", "=", 1), "use a selector"),
        (("id", "="), "is not a condition"),
        (5, "is not a condition"),
        ([["id", "=", 1]], "is not a condition"),
        (pc.field("nonsense") == 1, "the expression .* is not valid"),
        (pc.field("id") == "one", "is not valid"),
        (pc.field("id") + 1, "is not valid"),
    ],
)
def test_what_is_wrong_is_said(where: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        conditions(where)
    assert caught.value.option == "where"


def test_a_wrong_selector() -> None:
    with pytest.raises(InvalidSelector):
        conditions("table = ")


def test_what_a_condition_leaves_out_is_decoded_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    column = ALL["body_text"]

    def make(rows: ViewRows) -> Any:
        made.append(len(rows))
        return column.make(rows)

    monkeypatch.setitem(ALL, "body_text", column._replace(make=make))
    rows = rows_of([encode(MESSAGE), encode(MESSAGE.replace(priority=1))])
    left = fulfilled(rows, conditions([("jms_priority", "<", 5)]), ["body_text"])
    assert left.column("body_text").to_pylist() == ["the body"]
    assert made == [1]
