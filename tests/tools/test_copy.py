"""A store moved from vendor to vendor is the same store."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

import jdbcstore
from jdbcstore import Message
from jdbcstore.config import load_file
from jdbcstore.errors import InvalidMessage, NotMaster, StoresDiffer
from jdbcstore.stores.claims import Claims
from jdbcstore.testing import RawTables
from jdbcstore.tools import transfer
from tests.support import bad_messages
from tests.support.cli.zygote import run_program
from tests.tools.conftest import NewDatabase, fill_as_activemq, fill_as_jdbcstore, place, rows


@pytest.mark.parametrize("vendor", ["mariadb", "mysql"])
def test_to_postgresql_to_sqlite_and_back(
    vendor: str, new: NewDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "PAGE", 40)
    first = new(vendor)
    fill_as_activemq(first)
    fill_as_jdbcstore(first)
    expected = rows(first)
    assert len(expected["ACTIVEMQ_MSGS"]) > 150
    assert {row[-1] is None for row in expected["JDBCSTORE_ACKS"]} == {True, False}

    here = first
    for other in ("postgresql", "sqlite", "postgresql", vendor):
        there = new(other)
        copied = transfer.copy(place(here), place(there))

        assert copied.messages == len(expected["ACTIVEMQ_MSGS"])
        assert copied.comparison.same
        assert copied.comparison.left.checksum == copied.comparison.right.checksum
        assert rows(there) == expected
        here = there

    assert transfer.compare(place(first), place(here)).same
    with jdbcstore.open(first.url) as store, jdbcstore.open(here.url) as moved:
        assert moved.xa.recover() == store.xa.recover() != []
        after = moved.queue("NEW").add_message(Message("new"))
        assert after.sequence > max(row[0] for row in expected["ACTIVEMQ_MSGS"])
        sub, moved_sub = (one.topic("RANKED").subscription("client", "half") for one in (store, moved))
        left = [message.sequence for message in sub.recover()]
        assert [message.sequence for message in moved_sub.recover()] == left != []


def test_damaged_rows_are_copied_as_they_are(new: NewDatabase, caplog: pytest.LogCaptureFixture) -> None:
    first = new("sqlite")
    with Claims(first.url) as claims:
        for case in bad_messages.CASES:
            bad_messages.add(claims, RawTables(first.url), "ORDERS", case)
        claims.queue("ORDERS").add(Message("good"))
    expected, here = [(*row[:5], row[5] or b"", *row[6:]) for row in rows(first)["ACTIVEMQ_MSGS"]], first
    for vendor in ("postgresql", "mariadb", "mysql", "sqlite"):
        there = new(vendor)
        copied = transfer.copy(place(here), place(there))

        assert copied.comparison.same
        assert copied.messages == len(bad_messages.CASES) + 1
        assert rows(there)["ACTIVEMQ_MSGS"] == expected
        here = there
    assert caplog.text.count("is copied without its large body") == 4


def test_a_second_copy_writes_nothing(new: NewDatabase) -> None:
    source, target = new("sqlite"), new("sqlite")
    fill_as_activemq(source)
    fill_as_jdbcstore(source)
    transfer.copy(place(source), place(target))
    before = rows(target)

    again = transfer.copy(place(source), place(target))

    assert (again.messages, again.comparison.same) == (0, True)
    assert rows(target) == before


KILLED = """
import os, signal, sys
from jdbcstore import Configuration
from jdbcstore.tools import transfer
from jdbcstore.config import DataSourceConfig
from jdbcstore.database.connection import Connection

transfer.PAGE = 20
where, source, target = sys.argv[1:]
kill = lambda: os.kill(os.getpid(), signal.SIGKILL)
counted = [0]

def dying(function, at, before):
    def call(*args, **more):
        counted[0] += 1
        if counted[0] == at and before:
            kill()
        result = function(*args, **more)
        if counted[0] == at:
            kill()
        return result
    return call

match where:
    case "in a page": Connection.add_messages = dying(Connection.add_messages, 2, before=False)
    case "behind a page": transfer.CopyTarget.add = dying(transfer.CopyTarget.add, 2, before=False)
    case "among subscriptions": Connection.execute = dying(Connection.execute, 12, before=False)
    case "before it is verified": transfer.compare_ends = dying(transfer.compare_ends, 1, before=True)
places = (Configuration(data_source=DataSourceConfig(url=url)) for url in (source, target))
transfer.copy(*places)
"""


@pytest.mark.parametrize(
    "where", ["in a page", "behind a page", "among subscriptions", "before it is verified"]
)
def test_a_killed_copy_is_taken_up(new: NewDatabase, where: str) -> None:
    source, target = new("sqlite"), new("postgresql")
    fill_as_activemq(source)
    fill_as_jdbcstore(source)

    child = run_program(KILLED, where, source.url, target.url)
    assert child.returncode == -signal.SIGKILL, child.stderr
    half = rows(target)
    assert 0 < len(half["ACTIVEMQ_MSGS"]) <= len(rows(source)["ACTIVEMQ_MSGS"])
    if where != "before it is verified":
        assert half["ACTIVEMQ_ACKS"] == half["JDBCSTORE_ACKS"] == []

    assert transfer.copy(place(source), place(target)).comparison.same
    assert rows(target) == rows(source)


DIFFERENCES = (
    ("DELETE FROM ACTIVEMQ_MSGS WHERE ID = 5", "missing", "message", ()),
    ("UPDATE ACTIVEMQ_MSGS SET ID = 9999 WHERE ID = 6", "missing extra", "message", ()),
    ("UPDATE ACTIVEMQ_MSGS SET MSG = CAST('x' AS BLOB) WHERE ID = 7", "different", "message", ("msg",)),
    ("UPDATE ACTIVEMQ_MSGS SET XID = NULL WHERE ID = 89", "different", "message", ("xid",)),
    ("DELETE FROM ACTIVEMQ_ACKS WHERE PRIORITY = 9 AND SUB_NAME = 'prio'", "missing", "subscription", ()),
    (
        "UPDATE ACTIVEMQ_ACKS SET LAST_ACKED_ID = 1 WHERE SUB_NAME = 'wild'",
        "different",
        "subscription",
        ("last_acked_id",),
    ),
    (
        "DELETE FROM JDBCSTORE_ACKS WHERE ID = (SELECT MIN(ID) FROM JDBCSTORE_ACKS)",
        "missing",
        "acknowledgement",
        (),
    ),
)


def test_every_difference_is_found(new: NewDatabase) -> None:
    source, target = new("sqlite"), new("sqlite")
    fill_as_activemq(source)
    fill_as_jdbcstore(source)
    transfer.copy(place(source), place(target))
    expected: set[tuple[str, str, tuple[str, ...]]] = set()

    for sql, differences, what, columns in DIFFERENCES:
        assert target.execute(sql) > 0
        expected |= {(difference, what, columns) for difference in differences.split()}
        found: list[transfer.Difference] = []
        result = transfer.compare(place(source), place(target), on_difference=found.append)

        assert {(one.difference, one.what, one.columns) for one in found} == expected
        assert result.missing + result.extra + result.different == len(found)
        assert not result.same
        assert result.left.checksum != result.right.checksum


def test_what_is_there_is_not_written_over(new: NewDatabase) -> None:
    source, target = new("sqlite"), new("sqlite")
    fill_as_activemq(source)
    with jdbcstore.open(target.url) as store:
        store.queue("MINE").add_message(Message("mine"))
    before = rows(target)

    with pytest.raises(StoresDiffer, match="queue://MINE that the source does not have"):
        transfer.copy(place(source), place(target))

    assert rows(target) == before
    with pytest.raises(StoresDiffer, match="both source and target"):
        transfer.copy(place(source), place(source))


def test_a_page_has_bounded_bytes(new: NewDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jdbcstore.tools.pages._PAGE_BYTES", 10_000)
    source = new("sqlite")
    with jdbcstore.open(source.url) as store:
        sizes = [100, 9_000, 20_000, 100, 5_000, 5_000]
        store.queue("Q").add_messages([Message(b"x" * size) for size in sizes])

    with transfer.StoreTables(place(source)) as origin:
        pages = [[len(row.msg) // 100 * 100 for row in page] for page in origin.messages()]

    assert [len(page) for page in pages] == [2, 1, 2, 1]


def test_what_the_target_cannot_hold_is_named(new: NewDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = new("sqlite"), new("sqlite")
    with jdbcstore.open(source.url) as store:
        id_ = store.queue("Q").add_message(Message(b"x" * 20_000)).sequence
    monkeypatch.setattr(target_adapter(), "max_message_size", lambda *_: 10_000)

    with pytest.raises(InvalidMessage, match=f"the message with ID {id_} has"):
        transfer.copy(place(source), place(target))


def target_adapter() -> Any:
    from jdbcstore.database.adapters.sqlite import SqliteAdapter

    return SqliteAdapter


def test_a_target_in_which_messages_are_claimed_is_refused(new: NewDatabase) -> None:
    source, target = new("sqlite"), new("sqlite")
    fill_as_jdbcstore(source)
    with Claims(target.url, name="worker-7"), pytest.raises(NotMaster, match="worker-7"):
        transfer.copy(place(source), place(target))

    assert rows(target)["ACTIVEMQ_MSGS"] == []
    assert transfer.copy(place(source), place(target)).comparison.same


def test_a_store_with_another_master_is_not_written_to(new: NewDatabase, tmp_path: Path) -> None:
    source, target = new("sqlite"), new("sqlite")
    fill_as_activemq(source)
    file = tmp_path / "jdbcstore.toml"
    file.write_text(f'url = "{target.url}"\n[locker]\ntype = "lease-database-locker"\n')
    configuration = load_file(file)

    with jdbcstore.open(configuration), pytest.raises(NotMaster):
        transfer.copy(place(source), configuration)

    assert rows(target)["ACTIVEMQ_MSGS"] == []
    assert transfer.copy(place(source), configuration).comparison.same
