"""What ActiveMQ has stored in the AMQ store is a store of ours: files of its brokers, and what is damaged."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

import jdbcstore
from jdbcstore.message.ids import (
    XATransactionId,
)
from jdbcstore.message.selector import Selector
from jdbcstore.tools import transfer
from jdbcstore.tools.importing.amq.source import AmqSource
from jdbcstore.tools.importing.kinds import open_source
from jdbcstore.tools.importing.source import NothingToImport, SourceInUse
from jdbcstore.tools.transfer import MessageRow
from jdbcstore.util.file_lock import FileLock
from tests.support.databases import Database
from tests.support.importing.comparing import by_id, comparable, contents, seen
from tests.support.importing.logs import AmqWriter
from tests.support.importing.old_damages import OldJudge, damage
from tests.support.importing.olds_recorded import VERSIONS, Recorded, recordings
from tests.tools.conftest import NewDatabase, place

KILLED, STOPPED = "5.3.2", "5.7.0"
UNCHECKED = "the AMQ store has no checksums: damage inside a message may not be noticed"
QUEUE, TOPIC = (XATransactionId(86, name, b"\1") for name in (b"queue", b"topic"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return recordings("amq", tmp_path_factory)


def imported(folder: Path, database: Database) -> transfer.Copied:
    with open_source(f"amq:{folder}") as source:
        copied = transfer.copy_rows(source, place(database))
        assert source.findings.damages == []
        assert copied.comparison.same
        return copied


def read(folder: Path) -> tuple[list[MessageRow], Any]:
    with open_source(f"amq:{folder}") as source:
        return [row for page in source.messages() for row in page], source.findings


@pytest.mark.parametrize(
    ("version", "vendor"), [*((version, "sqlite") for version in VERSIONS["amq"]), (KILLED, "mariadb")]
)
def test_everything_is_there(recorded: Recorded, new: NewDatabase, version: str, vendor: str) -> None:
    """Its broker delivers again what is acknowledged in doubt, and so it is rolled back here, too."""
    folder, expected = recorded(version)
    database = new(vendor)

    imported(folder, database)

    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        for branch in store.xa.recover():
            store.xa.rollback(branch.xid)
        for name, messages in expected["queues"].items():
            found = [seen(message) for message in store.queue(name).recover(limit=100)]
            assert sorted(found, key=by_id) == sorted(comparable(messages), key=by_id), name
        for name in ("queue://GONE", "queue://FILL"):
            assert list(store.queue(name).recover()) == []
        topic = store.topic("NEWS")
        assert len(topic.subscriptions()) == 3
        for one in expected["subscriptions"]:
            subscription = topic.subscription(one["client_id"], one["name"])
            assert subscription.info.selector == one["selector"]
            wanted = Selector(one["selector"]) if one["selector"] else None
            left = [seen(m) for m in subscription.recover(limit=100) if wanted is None or wanted.matches(m)]
            # What one subscription has acknowledged at once, 5.7 has removed for all.
            assert [message for message in left if message in comparable(one["messages"])] == comparable(
                one["messages"]
            )
            if version == KILLED:
                assert len(left) == len(one["messages"])
        doubt = topic.subscription("c", "doubt")
        assert [message.body for message in doubt.recover()] == [f"news {n}" for n in range(12)]


def test_what_is_in_doubt_can_be_committed(recorded: Recorded, new: NewDatabase) -> None:
    folder, expected = recorded(STOPPED)
    database = new("sqlite")
    imported(folder, database)
    in_doubt = expected["in_doubt"]["queue"]

    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        assert {branch.xid for branch in store.xa.recover()} == {QUEUE, TOPIC}
        store.xa.commit(QUEUE)
        left = [str(message.message_id) for message in store.queue("DOUBT").recover()]
        assert left[-2:] == in_doubt["sent"]
        assert len(left) == 5
        assert not set(in_doubt["received"]) & set(left)
        store.xa.commit(TOPIC)
        bodies = [message.body for message in store.topic("NEWS").subscription("c", "doubt").recover()]
    assert bodies == [f"news {n}" for n in range(3, 12)]


@pytest.mark.parametrize("version", VERSIONS["amq"])
def test_the_source_is_not_changed(recorded: Recorded, version: str) -> None:
    folder, _ = recorded(version)
    before = contents(folder)

    read(folder)

    assert contents(folder) == before


@pytest.mark.parametrize("lock", ["lock", "journal/data-control"])
def test_files_of_a_running_broker_are_refused(recorded: Recorded, lock: str, tmp_path: Path) -> None:
    folder = shutil.copytree(recorded(STOPPED)[0], tmp_path / "copy")
    held = FileLock(folder / lock)
    try:
        with pytest.raises(SourceInUse, match="locked by"):
            open_source(str(folder))
    finally:
        held.release()


def test_a_copy_of_the_same_store_is_refused(recorded: Recorded, tmp_path: Path) -> None:
    for name in ("one", "other"):
        shutil.copytree(recorded(STOPPED)[0], tmp_path / name)
    with pytest.raises(NothingToImport, match="one is a copy"):
        open_source(f"amq:{tmp_path}")


def test_subscriptions_whose_creation_is_gone(recorded: Recorded, tmp_path: Path) -> None:
    """ActiveMQ removes a data file without messages, with the subscriptions that were created in it."""
    folder = shutil.copytree(recorded(STOPPED)[0], tmp_path / "copy")
    wanted = pending(folder)
    (folder / "journal" / "data-1").unlink()

    assert pending(folder) == wanted


def test_without_the_reference_store(recorded: Recorded, tmp_path: Path) -> None:
    folder = shutil.copytree(recorded(STOPPED)[0], tmp_path / "copy")
    wanted = pending(folder)
    shutil.rmtree(folder / "kr-store")

    found = pending(folder)

    assert {name: found[name] for name in wanted} == wanted
    assert set(found) - set(wanted) == {"deleted"}
    assert any("subscriptions that were deleted may be back" in text for text in read(folder)[1].notes)


def pending(folder: Path) -> dict[str, list[str]]:
    """The messages that each subscription waits for."""
    with AmqSource(folder) as source:
        [(topic, subscriptions)] = source.replay.topics().items()
        return {
            one.info.subscription_name: [
                state.name for state in source.replay.states(topic, one) if not state.is_acknowledged
            ]
            for one in subscriptions
        }


@pytest.mark.parametrize("version", VERSIONS["amq"])
def test_damages(recorded: Recorded, version: str, tmp_path: Path) -> None:
    """``python -m tests.long.importing damages --kind amq`` has more of them."""
    judge = OldJudge("amq", recorded(version)[0])
    outcomes = set()
    for seed in range(12):
        copy = Path(shutil.copytree(judge.folder, tmp_path / str(seed)))
        outcomes.add(judge.judge(copy, *damage(seed, copy)))
    assert "named" in outcomes


def test_a_file_that_ends_too_early(recorded: Recorded, tmp_path: Path) -> None:
    """A message whose acknowledgement was at its end is there again."""
    folder = shutil.copytree(recorded(STOPPED)[0], tmp_path / "copy")
    wanted, findings = read(folder)
    assert findings.notes == [UNCHECKED]
    last = folder / "journal" / "data-7"
    last.write_bytes(last.read_bytes()[:-200])

    found, findings = read(folder)

    assert {damage.file for damage in findings.damages} == {str(last)}
    assert {row.msg for row in found} > {row.msg for row in wanted}


def test_a_message_that_cannot_be_decoded(recorded: Recorded, tmp_path: Path) -> None:
    folder = shutil.copytree(recorded(STOPPED)[0], tmp_path / "copy")
    wanted, _ = read(folder)
    path = next(path for path in (folder / "journal").iterdir() if b"after 4" in path.read_bytes())
    path.write_bytes(path.read_bytes().replace(b"\0\0\0\7after 4", b"\0\0\0\77after 4"))

    found, findings = read(folder)

    assert len(found) == len(wanted) - 1
    [damaged] = findings.damages
    assert damaged.file == str(path)


@pytest.mark.parametrize("is_deleted", [False, True], ids=["lost", "deleted"])
def test_a_subscription_that_is_not_known(tmp_path: Path, is_deleted: bool) -> None:
    """The reference store knows that one was deleted, of which the journal only has acknowledgements."""
    log = AmqWriter(tmp_path / "amq")
    log.receive("topic://T", 1)
    log.deleted = [("topic://T", "s")] if is_deleted else []
    log.write()

    _, findings = read(log.folder)

    text = "the subscription s of c to topic://T has acknowledged messages, and is not known"
    assert any(text in note for note in findings.notes) is not is_deleted


def test_a_subscription_that_was_deleted_is_not_imported(tmp_path: Path) -> None:
    log = AmqWriter(tmp_path / "amq")
    log.subscribe("topic://T", "s")
    log.subscribe("topic://T", "t")
    log.send("topic://T", 1)
    log.deleted = [("topic://T", "s")]
    log.write()

    assert pending(log.folder) == {"t": ["ID:writer-1:1:1:1"]}


def test_messages_that_were_acknowledged_before_they_were_added_are_noted(tmp_path: Path) -> None:
    log = AmqWriter(tmp_path / "amq")
    log.receive("queue://Q", 1)
    log.send("queue://Q", 1)
    log.write()

    rows, findings = read(log.folder)

    assert len(rows) == 1
    assert "1 messages were acknowledged before they were added" in findings.notes[-1]


@pytest.mark.parametrize(
    ("file", "offset", "reason"),
    [
        (2, 10_000, "data-2 at {end}: data-control has noted a record at 10000"),
        (3, 1, "data-3 at 0: it is missing, and data-control has noted it"),
        (2, 1, None),
        (1, 1, None),
    ],
)
def test_a_file_is_shorter_than_the_control_file_says(
    tmp_path: Path, file: int, offset: int, reason: str | None
) -> None:
    """A record that was noted in a file before may have been removed with it since."""
    log = AmqWriter(tmp_path / "amq")
    log.next_file()
    log.send("queue://Q", 1)
    first, last = log.write()
    first.unlink()
    location = struct.pack(">?iiib", True, file, offset, 1, 1)
    state = struct.pack(">i?", 1, False) + location
    (last.parent / "data-control").write_bytes(bytes(8) + state.ljust(1028, b"\0") + bytes(8))

    damages = [f"{Path(one.file).name} at {one.offset}: {one.reason}" for one in read(log.folder)[1].damages]

    assert damages == ([] if reason is None else [reason.format(end=last.stat().st_size)])
