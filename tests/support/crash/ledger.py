"""What the storing processes said, held against what is in the database."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, text

from jdbcstore.message import openwire
from tests.support.crash.work import RANKED, SUBSCRIPTIONS

QUEUES = ("queue://ONE", "queue://FUTURE", "queue://MANY")
NEWS, IN = "topic://NEWS", "topic://IN"


class Tables:
    """The rows of one moment between two storing processes, and the rules they keep by themselves."""

    def __init__(self, connection: Connection, decoded: dict[int, tuple[str, bytes]]) -> None:
        self._connection = connection
        self.ids: dict[str, dict[str, int]] = defaultdict(dict)
        """By destination: message name -> ID."""
        self._priorities: dict[int, int] = {}
        for id_, container, producer, number, blob, priority in self._rows(
            "SELECT ID, CONTAINER, MSGID_PROD, MSGID_SEQ, MSG, PRIORITY FROM ACTIVEMQ_MSGS"
        ):
            name = f"{producer}:{number}"
            if decoded.get(id_) != (name, blob):
                message = openwire.decode(bytes(blob), sequence=id_, container=container)
                assert message.body == name, f"{name} holds {message.body!r}"
                decoded[id_] = (name, blob)
            assert name not in self.ids[container], f"{name} is stored twice in {container}"
            self.ids[container][name] = id_
            self._priorities[id_] = priority

    def pending(self, topic: str, subscription: str) -> set[str]:
        """The messages that this subscription has not acknowledged, as an ActiveMQ would find them
        but for those acknowledged ahead of its mark."""
        where = f"WHERE CONTAINER = '{topic}' AND CLIENT_ID = 'client' AND SUB_NAME = '{subscription}'"
        marks: dict[int, int] = dict(self._rows(f"SELECT PRIORITY, LAST_ACKED_ID FROM ACTIVEMQ_ACKS {where}"))
        ahead = {
            (id_, f"{producer}:{number}")
            for id_, producer, number in self._rows(
                f"SELECT ID, MSGID_PROD, MSGID_SEQ FROM JDBCSTORE_ACKS {where}"
            )
        }
        only = next(iter(marks.values())) if len(marks) == 1 else None
        return {
            name
            for name, id_ in self.ids[topic].items()
            if id_ > (marks[self._priorities[id_]] if only is None else only) and (id_, name) not in ahead
        }

    @property
    def reserved(self) -> int:
        """No sequence above this was ever given."""
        number: int = self._rows("SELECT NUMBER FROM JDBCSTORE_STATE WHERE NAME = 'sequence'")[0][0]
        return number

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._connection.execute(text(sql))]


class Ledger:
    """All that was ever said, and the checks that compare it with the tables."""

    def __init__(self) -> None:
        self.said: Counter[str] = Counter()
        self.decoded: dict[int, tuple[str, bytes]] = {}
        """By ID: a message that was read before, and is not decoded again while it is the same."""
        self._owners: dict[int, str] = {}
        """Every sequence ever seen, and whose it is."""
        self._stored: dict[str, set[str]] = defaultdict(set)
        """By destination: added and confirmed, or seen in the table."""
        self._acking: dict[str, set[str]] = defaultdict(set)
        """By queue or subscription: an acknowledgement was begun."""
        self._acked: dict[str, set[str]] = defaultdict(set)
        """By queue or subscription: an acknowledgement returned."""

    def note(self, words: list[str]) -> None:
        """One line of a storing process."""
        what, *rest = words
        self.said[what] += 1
        match what:
            case "added":
                destination, sequence, name = rest
                self._own(int(sequence), f"{destination} {name}")
                self._stored[destination].add(name)
            case "acking":
                self._acking[rest[0]].update(rest[1:])
            case "acked":
                self._acked[rest[0]].update(rest[1:])
            case "moving":
                self._acking["WORK"].update(rest)
            case "moved":
                self._acked["WORK"].update(rest)
            case _:
                assert what == "ready", " ".join(words)

    def check(self, tables: Tables) -> None:
        """Nothing lost, nothing back, nothing twice, nothing half."""
        for destination, ids in tables.ids.items():
            for name, id_ in ids.items():
                self._own(id_, f"{destination} {name}")
                self._stored[destination].add(name)
        assert max(self._owners, default=0) <= tables.reserved
        for queue in QUEUES:
            self._check(queue, self._stored[queue], set(tables.ids[queue]))
        self._check_batches(tables.ids["queue://MANY"])
        self._check_news(tables)
        self._check_moves(tables)

    def _own(self, sequence: int, owner: str) -> None:
        """A sequence is one message's for all time."""
        assert self._owners.setdefault(sequence, owner) == owner, f"{owner} has a used sequence, {sequence}"

    def _check(self, consumer: str, stored: set[str], present: set[str]) -> None:
        lost = stored - present - self._acking[consumer]
        assert not lost, f"lost to {consumer}: {sorted(lost)}"
        back = present & self._acked[consumer]
        assert not back, f"came back to {consumer}: {sorted(back)}"

    def _check_batches(self, names: Iterable[str]) -> None:
        for producer, count in Counter(name.rsplit(":", 1)[0] for name in names).items():
            size = int(producer.split("-of-")[1].split("-")[0])
            assert count == size, f"{count} messages of {producer}"

    def _check_news(self, tables: Tables) -> None:
        news = set(tables.ids[NEWS])
        for name in SUBSCRIPTIONS:
            self._check(name, self._stored[NEWS], tables.pending(NEWS, name))
        removed = self._stored[NEWS] - news
        for name in SUBSCRIPTIONS:
            early = removed - self._acking[name]
            assert not early, f"removed before {name} had it: {sorted(early)}"

    def _check_moves(self, tables: Tables) -> None:
        """What is in WORK is in IN and not in the OUTs, and the reverse."""
        work = _numbers(tables.ids["queue://WORK"])
        assert work == _numbers(tables.pending(IN, RANKED)), "half a transaction between WORK and IN"
        out = _numbers(tables.ids["queue://OUT1"])
        assert out == _numbers(tables.ids["queue://OUT2"]), "half a transaction between the OUTs"
        assert not work & out, "half a transaction between WORK and the OUTs"
        assert _numbers(self._acked["WORK"]) <= out, "a transaction that had committed is lost"
        assert out <= _numbers(self._acking["WORK"]), "a transaction that was never begun"
        gone = _numbers(self._stored["queue://WORK"]) - work - out
        assert not gone, f"lost in a transaction: {sorted(gone)}"


def _numbers(names: Iterable[str]) -> set[str]:
    """The part of the names that the messages of one transaction share."""
    return {name.split("-", 1)[1] for name in names}
