"""Where a stream may go on to, seen without Spark: nothing that commits late is passed by."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

import pytest

import jdbcstore
from jdbcstore import Message, XATransactionId
from jdbcstore.analytics.arrow.views import AS_STORED
from jdbcstore.analytics.streaming import position
from jdbcstore.analytics.streaming.offsets import Offset
from jdbcstore.analytics.streaming.options import read_options
from jdbcstore.analytics.streaming.position import NOWHERE, Horizon, Position
from jdbcstore.analytics.streaming.reading import Sight, StreamDatabase, committed
from jdbcstore.analytics.streaming.source import Late, MessageStreamReader, StreamSlice, _pages
from jdbcstore.errors import BodyInJournal, ConfigurationError, StoreError
from jdbcstore.message.openwire import set_broker_sequence
from jdbcstore.message.openwire.reference import SEQUENCE_AT, refer
from tests.support.analytics.late import store
from tests.support.databases import Database

every_vendor = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
XID = XATransactionId(86, b"\x01\x02", b"\x03")


class Reader:
    """A stream as Spark drives it, which keeps what it read."""

    def __init__(self, url: str, **options: str) -> None:
        given = {"url": url, "settleseconds": "0", "startingoffsets": "earliest", **options}
        self.options = read_options(given)
        self.database = StreamDatabase(self.options)
        self.position = Position(self.database, self.options.settle)
        self.at = Offset(0)
        self.ids: list[int] = []

    def turn(self, rows: int = 1000) -> list[int]:
        """The IDs of the next batch."""
        end = self.position.after(self.at, rows)
        found = self.read(self.at, end)
        # As it comes back from Spark's checkpoint.
        self.at = Offset.of(json.loads(json.dumps(end.facts)))
        assert self.at == end
        self.ids += found
        return found

    def read(self, start: Offset, end: Offset) -> list[int]:
        """The IDs of the batch between two offsets."""
        if start == end:
            return []
        parts = (Late(end.late), StreamSlice(start.id, end.id, end.gaps))
        pages = (page for part in parts for page in _pages(self.database, part))
        return [row.id for page in pages for row in committed(page)]


@pytest.fixture
def reader(database: Database) -> Iterator[Reader]:
    jdbcstore.open(database.url, cleanup_period=0.0).close()
    reader = Reader(database.url)
    yield reader
    reader.database.close()


def test_an_id_is_settled_after_every_transaction_that_had_begun() -> None:
    horizon = Horizon(settle=10)
    horizon.see(Sight(highest=5, begun=100, unfinished=90), now=0)
    horizon.see(Sight(highest=7, begun=110, unfinished=105), now=4)
    horizon.see(Sight(highest=9, begun=120, unfinished=119), now=10)
    assert horizon.settled == 0, "a transaction that began within these seconds may still store a 4"
    horizon.see(Sight(highest=9, begun=130, unfinished=120), now=11)
    assert horizon.settled == 5
    horizon.see(Sight(highest=0, begun=140, unfinished=140), now=30)
    assert horizon.settled == 9, "whether it is still there or not"


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_an_id_that_commits_late_is_read_when_it_is_there(database: Database, reader: Reader) -> None:
    """Also by a stream that is continued from its checkpoint; and what was rolled back is forgotten."""
    engine = database.engine.execution_options(isolation_level="READ COMMITTED")
    with engine.connect() as late, engine.connect() as early, engine.connect() as never:
        store(late, 2)
        store(never, 3)
        for id_ in (1, 4):
            store(early, id_)
        early.commit()
        assert [reader.turn() for _ in range(3)] == [[1, 4], [], []]
        assert (reader.at.id, [id_ for id_ in range(6) if id_ in reader.at.gaps]) == (4, [2, 3])
        again = Reader(database.url)
        again.at = reader.at
        assert again.turn() == []
        never.rollback()
        planned = again.position.after(again.at, 1000)
        late.commit()
        assert again.read(again.at, planned) == [], "a batch that was planned does not change"
        assert [again.turn() for _ in range(3)] == [[2], [], []]
        assert again.at.late == (2,)
        assert reader.turn() == [2]
        store(early, 5)
        early.commit()
        assert [reader.turn(), again.turn()] == [[5], [5]]
        assert reader.at == again.at == Offset(5)
        again.database.close()


@pytest.mark.backends("postgresql")
def test_what_commits_while_a_batch_is_read_is_in_the_next_one(database: Database, reader: Reader) -> None:
    one = Reader(database.url, destination="ORDERS")
    other = Reader(database.url, destination="another")
    engine = database.engine.execution_options(isolation_level="READ COMMITTED")
    with engine.connect() as late, engine.connect() as early:
        store(late, 2)
        store(early, 1)
        store(early, 3)
        early.commit()
        start, end = reader.at, reader.position.after(reader.at, 1000)
        late.commit()
        assert reader.read(start, end) == [1, 3]
        reader.at = end
        assert reader.turn() == [2]
        # Not in its offset, but known to have been missing.
        assert other.turn() == []
        assert sorted(one.turn()) == [1, 2, 3]
    for each in (one, other):
        each.database.close()


@every_vendor
def test_prepared_transactions(database: Database, reader: Reader) -> None:
    with jdbcstore.open(database.url) as opened:
        queue = opened.queue("ORDERS")
        kept = queue.add_message(Message("acknowledged, and then not"))

        adding = opened.xa.start(XATransactionId(86, b"\x01", b"\x02"))
        adding.queue("ORDERS").add_message(Message("added"))
        assert adding.prepare()
        removing = opened.xa.start(XID)
        removing.queue("ORDERS").acknowledge(kept)
        assert removing.prepare()
        reader.turn()
        # Its acknowledgement is in doubt, and the message is there.
        assert reader.ids == [kept.sequence]
        opened.xa.rollback(XID)
        opened.xa.commit(adding.xid)
        for _ in range(3):
            reader.turn()
        assert reader.ids == [message.sequence for message in queue.recover()]
        assert len(reader.ids) == 2


@every_vendor
def test_what_was_consumed_is_not_waited_for(database: Database, reader: Reader) -> None:
    patient = Reader(database.url, settleseconds="1000")
    with jdbcstore.open(database.url) as opened:
        queue = opened.queue("ORDERS")
        references = [queue.add_message(Message(str(number))) for number in range(6)]
        queue.acknowledge(references[3])
    first = references[0].sequence
    for _ in range(3):
        reader.turn()
        patient.turn()
    assert patient.ids == reader.ids == [first + place for place in (0, 1, 2, 4, 5)]
    assert (first + 3 in patient.at.gaps, first + 3 in reader.at.gaps) == (True, False)
    patient.database.close()


@pytest.mark.backends("sqlite")
def test_of_more_gaps_than_an_offset_has_the_stream_waits_for_the_first(
    database: Database, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(position, "_MOST_GAPS", 3)
    patient = Reader(database.url, settleseconds="1000")
    with database.engine.connect() as broker:
        for id_ in range(1, 20, 2):
            store(broker, id_)
        broker.commit()
    patient.position.stop_at_present()
    assert [patient.turn(), patient.turn()] == [[1, 3, 5, 7], []]
    assert patient.position.is_waiting(patient.at)
    assert reader.turn() == [*range(1, 20, 2)]
    patient.database.close()


@every_vendor
def test_batches_partitions_and_one_destination(database: Database, reader: Reader) -> None:
    with jdbcstore.open(database.url) as opened:
        for number in range(40):
            opened.queue("ORDERS" if number % 4 else "orders").add_message(Message(str(number)))
    one = Reader(database.url, destination="orders")
    assert [len(reader.turn(rows=15)) for _ in range(4)] == [15, 15, 10, 0]
    assert [len(one.turn(rows=8)) for _ in range(3)] == [8, 2, 0]
    cuts = one.database.bounds(0, one.at.id, 3, 2)
    assert [sum(map(len, one.database.pages(*cut))) for cut in cuts] == [4, 3, 3]
    assert all(end == start for (_, end), (start, _) in itertools.pairwise(cuts))
    last = one.at
    with jdbcstore.open(database.url) as opened:
        opened.queue("ORDERS").add_message(Message("of another"))
    assert one.turn() == []
    assert one.at == last, "no batch is made of nothing"
    one.database.close()


@every_vendor
def test_starting_behind_what_is_there(database: Database, reader: Reader) -> None:
    with jdbcstore.open(database.url) as opened:
        old = opened.queue("ORDERS").add_message(Message("old"))
        reader.at = reader.position.after(Offset(NOWHERE), 1000)
        assert reader.at == Offset(old.sequence)
        new = opened.queue("ORDERS").add_message(Message("new"))
        assert reader.turn() == [new.sequence]


@every_vendor
def test_ids_given_anew_are_told_of(database: Database, reader: Reader) -> None:
    engine = database.engine
    with engine.connect() as broker:
        store(broker, 1)
        store(broker, 2)
        assert reader.turn() == [1, 2]
        broker.exec_driver_sql("DELETE FROM ACTIVEMQ_MSGS")
        assert reader.turn() == []
        store(broker, 1)
    with pytest.raises(StoreError, match="ID 1 appeared when the stream was at offset 2"):
        reader.turn()
    assert reader.turn() == []


@every_vendor
@pytest.mark.usefixtures("reader")
def test_its_connection_cannot_write(database: Database) -> None:
    reader = Reader(database.url)
    with pytest.raises(Exception, match=r"(?i)read.?only"), reader.database._engine.connect() as connection:
        store(connection, 1)
    reader.database.close()
    assert database.rows("SELECT ID FROM ACTIVEMQ_MSGS") == []


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("startingoffsets", "yesterday", "earliest, latest, or the ID"),
        ("maxrowspertrigger", "0", "a number from 1"),
        ("settleseconds", "nan", "a number from 0"),
        ("pool_sise", "1", "pool_size"),
    ],
)
def test_options_that_cannot_be(name: str, value: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        read_options({"url": "sqlite:///mq.db", name: value})
    with pytest.raises(ConfigurationError, match="no database is named"):
        read_options({})


@pytest.mark.backends("sqlite")
def test_a_message_whose_body_is_in_a_journal_is_not_read_without_it(
    database: Database, reader: Reader
) -> None:
    """What a sink has of a message is not replaced: the stream waits for the body, and says so."""
    with database.engine.connect() as connection:
        store(connection, 1)
        store(connection, 2)
    whole = database.rows("SELECT MSG FROM ACTIVEMQ_MSGS WHERE ID = 2")[0][0]
    reference = set_broker_sequence(refer(7, 3, 512, bytes(300), 8), SEQUENCE_AT, 2)
    database.execute("UPDATE ACTIVEMQ_MSGS SET MSG = :msg WHERE ID = 2", msg=reference)
    with pytest.raises(BodyInJournal, match="only in the journal number 7"):
        reader.turn()
    database.execute("UPDATE ACTIVEMQ_MSGS SET MSG = :msg WHERE ID = 2", msg=whole)
    assert reader.turn() == [1, 2]


@every_vendor
def test_a_stream_says_that_a_journal_may_have_more(database: Database, reader: Reader) -> None:
    assert not reader.database.has_journal()
    database.execute("INSERT INTO JDBCSTORE_STATE (NAME, NUMBER) VALUES ('journal', 7)")
    assert reader.database.has_journal()
    database.execute("UPDATE JDBCSTORE_STATE SET NUMBER = 0 WHERE NAME = 'journal'")
    assert not reader.database.has_journal()


@pytest.mark.backends("sqlite")
def test_the_next_batch_of_a_spark_that_does_not_tell_where_it_begins(database: Database) -> None:
    """As before Spark 4.2, also after a restart."""
    options = read_options({"url": database.url, "settleseconds": "0", "startingoffsets": "earliest"})
    with jdbcstore.open(database.url, cleanup_period=0.0) as opened:
        queue, reader = opened.queue("ORDERS"), MessageStreamReader(options, AS_STORED)
        queue.add_message(Message("one"))
        first = reader.latestOffset()
        assert reader.latestOffset() == first, "Spark may ask again before it plans the batch"
        assert len(reader.partitions(reader.initialOffset(), first)) == 1
        assert reader.latestOffset() == first
        queue.add_message(Message("two"))
        reader.stop()
        again = MessageStreamReader(options, AS_STORED)
        assert again.partitions(first, first) == []
        second = again.latestOffset()
        [two] = again.partitions(first, second)
        assert [len(batch) for batch in again.read(two)] == [1]
        again.stop()
