"""Twenty-five questions, each with the answer that a plain decode of the rows gives.

They are the same for every way of asking: a session of Spark, Spark Connect, a cluster, DuckDB. An answer is
a list of rows, each a list of what JSON has, so that a process of its own can print it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jdbcstore.message import openwire
from jdbcstore.message.message import Message
from tests.support.analytics.corpus import Stored

Answer = list[list[Any]]
VIEWS = ("messages", "messages_decoded", "subscriptions", "pending", "destinations", "in_doubt", "lock")


@dataclass(frozen=True)
class Said:
    """One row, as Python reads it."""

    id: int
    destination: str
    msgid_prod: str | None
    msgid_seq: int | None
    expiration: int | None
    priority: int | None
    xid: str | None
    size: int
    message: Message

    @property
    def body(self) -> str | None:
        assert self.message.body is None or isinstance(self.message.body, str)
        return self.message.body

    @property
    def n(self) -> int | None:
        n = self.message.properties.get("n")
        assert n is None or isinstance(n, int)
        return None if n is None else int(n)


def plain(stored: Iterable[Stored]) -> list[Said]:
    """The rows with their messages, by the codec alone."""
    return [
        Said(
            id=row["ID"],
            destination=row["CONTAINER"],
            msgid_prod=row["MSGID_PROD"],
            msgid_seq=row["MSGID_SEQ"],
            expiration=row["EXPIRATION"],
            priority=row["PRIORITY"],
            xid=row["XID"],
            size=len(row["MSG"]),
            message=openwire.decode(row["MSG"]),
        )
        for row in (each.row for each in stored)
    ]


@dataclass(frozen=True)
class Question:
    """SQL over the views, and its answer from the plain rows."""

    sql: str
    """``{messages}`` and the like are the names of the views. Literals with a backslash are raw."""
    right: Callable[[Sequence[Said]], Iterable[Iterable[Any]]]
    ordered: bool = False
    """Whether the order of the answer is part of it."""

    def asked(self, names: Mapping[str, str] | str = "") -> str:
        """The SQL for views with these names, or with this prefix."""
        asked = self.sql
        for view in VIEWS:
            name = f"{names}{view}" if isinstance(names, str) else names[view]
            asked = asked.replace(f"{{{view}}}", name)
        return asked

    def asked_of_duckdb(self, names: Mapping[str, str] | str = "") -> str:
        """The same for DuckDB, where a backslash is one in any literal."""
        return re.sub(r"\br'", "'", self.asked(names))

    def answer(self, rows: Sequence[Said]) -> Answer:
        """What is right."""
        return self.normal(self.right(rows))

    def normal(self, rows: Iterable[Iterable[Any]]) -> Answer:
        """Rows as answers are compared."""
        lists = [[*row] for row in rows]
        return lists if self.ordered else sorted(lists, key=repr)


def _where(holds: Callable[[Said], Any]) -> Callable[[Sequence[Said]], Answer]:
    """The IDs of those for which it holds."""
    return lambda rows: [[row.id] for row in rows if holds(row)]


def _counted(key: Callable[[Said], Any]) -> Callable[[Sequence[Said]], Answer]:
    return lambda rows: [[value, number] for value, number in Counter(map(key, rows)).items()]


def _kind(row: Said) -> str:
    return row.destination.partition("://")[0]


def _is(value: Any, holds: Callable[[Any], bool]) -> bool:
    return value is not None and holds(value)


def _depths(rows: Sequence[Said]) -> Answer:
    committed = [row for row in rows if row.xid is None]
    names = {row.destination for row in committed}
    of = {name: [row for row in committed if row.destination == name] for name in names}
    return [
        [name, len(these), sum(row.size for row in these), min(row.id for row in these)]
        for name, these in of.items()
    ]


QUESTIONS = {
    "all": Question("SELECT count(*), min(id), max(id) FROM {messages}",
        lambda rows: [[len(rows), min(row.id for row in rows), max(row.id for row in rows)]]),
    "all, decoded": Question("SELECT count(*), sum(message_size) FROM {messages_decoded}",
        lambda rows: [[len(rows), sum(row.size for row in rows)]]),
    "names are grouped exactly": Question(
        "SELECT destination, count(*) FROM {messages} GROUP BY destination",
        _counted(lambda r: r.destination)),
    "kinds": Question(
        "SELECT destination_type, count(*) FROM {messages} GROUP BY destination_type", _counted(_kind)),
    "case matters": Question(
        "SELECT id FROM {messages} WHERE destination IN ('queue://orders', 'topic://orders')",
        _where(lambda r: r.destination.endswith("://orders"))),
    "blanks at the end count": Question(
        "SELECT id FROM {messages} WHERE destination IN ('queue://ORDERS ', 'topic://ORDERS ')",
        _where(lambda r: r.destination.endswith("://ORDERS "))),
    "a backslash is one": Question(
        r"SELECT id FROM {messages} WHERE destination IN (r'queue://A\B', r'topic://A\B')",
        _where(lambda r: r.destination.endswith("://A\\B"))),
    "a literal is no SQL": Question(
        r"SELECT id FROM {messages_decoded} WHERE body_text = r'x\' || chr(39) || ') OR 1=1 -- '"
        r" OR msgid_prod = r'\'",
        _where(lambda r: r.body == "x\\') OR 1=1 -- " or r.msgid_prod == "\\")),
    "patterns": Question("SELECT id FROM {messages} WHERE destination LIKE '%orders%'",
        _where(lambda r: "orders" in r.destination)),
    "beginnings": Question("SELECT id FROM {messages} WHERE msgid_prod LIKE 'or%' OR xid LIKE '%B'",
        _where(lambda r: (r.msgid_prod or "").startswith("or") or (r.xid or "").endswith("B"))),
    "not one of": Question("SELECT id FROM {messages} WHERE msgid_prod NOT IN ('a', 'A', 'ss')",
        _where(lambda r: r.msgid_prod not in (None, "a", "A", "ss"))),
    "not equal": Question("SELECT id FROM {messages} WHERE xid <> 'b' AND NOT destination = 'queue://a'",
        _where(lambda r: r.xid not in (None, "b") and r.destination != "queue://a")),
    "names in the order of their bytes": Question(
        "SELECT id, msgid_prod FROM {messages} WHERE msgid_prod IS NOT NULL"
        " ORDER BY msgid_prod DESC, id LIMIT 9",
        lambda rows: [[row.id, row.msgid_prod] for row in
            sorted(sorted((r for r in rows if r.msgid_prod is not None), key=lambda r: r.id),
                key=lambda r: str(r.msgid_prod), reverse=True)[:9]], ordered=True),
    "a range of names": Question("SELECT id FROM {messages} WHERE destination < 'queue://a' AND xid >= 'B'",
        _where(lambda r: r.destination < "queue://a" and _is(r.xid, lambda x: x >= "B"))),
    "null": Question("SELECT id FROM {messages} WHERE xid IS NULL AND priority IS NOT NULL",
        _where(lambda r: r.xid is None and r.priority is not None)),
    "numbers": Question("SELECT id FROM {messages} WHERE msgid_seq > 4 AND msgid_seq <= 9007199254740993",
        _where(lambda r: _is(r.msgid_seq, lambda n: 4 < n <= 2**53 + 1))),
    "one of several numbers": Question(
        "SELECT id FROM {messages} WHERE priority IN (1, 4, 9) AND expiration <> 0 AND id BETWEEN 10 AND 60",
        _where(lambda r: r.priority in (1, 4, 9) and r.expiration not in (None, 0) and 10 <= r.id <= 60)),
    "the newest": Question("SELECT id, body_text FROM {messages_decoded} ORDER BY id DESC LIMIT 5",
        lambda rows: [[row.id, row.body] for row in sorted(rows, key=lambda r: -r.id)[:5]], ordered=True),
    "types": Question(
        "SELECT id FROM {messages_decoded} WHERE jms_type = 'orders' OR jms_type = 'ORDERS '",
        _where(lambda r: r.message.jms_type in ("orders", "ORDERS "))),
    "a property": Question(
        "SELECT id, properties['n'].long FROM {messages_decoded} WHERE properties['n'].long > 50",
        lambda rows: [[row.id, row.n] for row in rows if _is(row.n, lambda n: n > 50)]),
    "types of a property": Question(
        "SELECT properties['n'].type, count(*) FROM {messages_decoded} GROUP BY properties['n'].type",
        lambda rows: [[kind, number] for kind, number in
            Counter(None if r.n is None else "long" if r.n >= 2**31 else "int" for r in rows).items()]),
    "lengths": Question(
        "SELECT count(body_text), sum(length(body_text)) FROM {messages_decoded} WHERE id % 2 = 0",
        lambda rows: [[len(there := [r.body for r in rows if r.body is not None and not r.id % 2]),
            sum(map(len, there))]]),
    "a view joined with another": Question(
        "SELECT a.id FROM {messages} a JOIN {messages_decoded} b"
        " ON a.msgid_prod = b.body_text AND a.id = b.id",
        _where(lambda r: r.body is not None and r.msgid_prod == r.body)),
    "totals": Question(
        "SELECT destination, depth, bytes, oldest_id FROM {destinations} WHERE depth > 0", _depths),
    "in doubt": Question("SELECT id, destination FROM {in_doubt} WHERE error IS NULL",
        lambda rows: [[row.id, row.destination] for row in rows if row.xid is not None]),
}  # fmt: skip
"""The questions by name; none names ``lock`` or ``subscriptions``, which say nothing of the rows."""
