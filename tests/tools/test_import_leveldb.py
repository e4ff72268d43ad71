"""What ActiveMQ has stored with LevelDB is a store of ours: files of its brokers, and what is damaged."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import jdbcstore
from jdbcstore.errors import ConfigurationError
from jdbcstore.message.ids import XATransactionId
from jdbcstore.message.selector import Selector
from jdbcstore.tools import transfer
from jdbcstore.tools.importing.kinds import open_source
from jdbcstore.tools.importing.source import NothingToImport, SourceInUse
from jdbcstore.tools.transfer import MessageRow
from jdbcstore.util.file_lock import FileLock
from tests.support.databases import Database
from tests.support.importing.comparing import by_id, comparable, contents, seen
from tests.support.importing.old_damages import OldJudge, damage
from tests.support.importing.olds_recorded import VERSIONS, Recorded, recordings
from tests.tools.conftest import NewDatabase, place

KILLED, STOPPED = "5.16.7", "5.9.1"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return recordings("leveldb", tmp_path_factory)


def imported(folder: Path, database: Database) -> transfer.Copied:
    with open_source(f"leveldb:{folder}") as source:
        copied = transfer.copy_rows(source, place(database))
        assert source.findings.damages == []
        assert source.findings.notes == []
        assert copied.comparison.same
        return copied


def read(folder: Path) -> tuple[list[MessageRow], Any]:
    with open_source(f"leveldb:{folder}") as source:
        return [row for page in source.messages() for row in page], source.findings


@pytest.mark.parametrize(
    ("version", "vendor"), [*((version, "sqlite") for version in VERSIONS["leveldb"]), (KILLED, "postgresql")]
)
def test_everything_is_there(recorded: Recorded, new: NewDatabase, version: str, vendor: str) -> None:
    folder, expected = recorded(version)
    database = new(vendor)

    imported(folder, database)

    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        for name, messages in expected["queues"].items():
            page = store.queue(name).recover(limit=100)
            assert page.corrupt == ()
            found = [seen(message) for message in page]
            if version == STOPPED:  # its browser sorts by priority
                found.sort(key=by_id)
                messages.sort(key=by_id)
            assert found == comparable(messages), name
        for name in ("queue://GONE", "queue://FILL"):
            assert list(store.queue(name).recover()) == []
        topic = store.topic("NEWS")
        assert len(topic.subscriptions()) == 3
        for one in expected["subscriptions"]:
            subscription = topic.subscription(one["client_id"], one["name"])
            assert subscription.info.selector == one["selector"]
            wanted = Selector(one["selector"]) if one["selector"] else None
            left = [m for m in subscription.recover(limit=100) if wanted is None or wanted.matches(m)]
            assert [seen(message) for message in left] == comparable(one["messages"]), one["name"]


def test_what_is_in_doubt_is_decided_in_the_store(recorded: Recorded, new: NewDatabase) -> None:
    folder, expected = recorded(KILLED)
    database = new("sqlite")
    imported(folder, database)
    in_doubt = expected["in_doubt"]["queue"]

    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        assert len(store.xa.recover()) == 2
        store.xa.commit(XATransactionId(86, b"queue", b"\1"))
        left = [str(message.message_id) for message in store.queue("DOUBT").recover()]
        assert left[-2:] == in_doubt["sent"]
        assert len(left) == 5
        assert not set(in_doubt["received"]) & set(left)
        store.xa.commit(XATransactionId(86, b"topic", b"\1"))
        bodies = [message.body for message in store.topic("NEWS").subscription("c", "doubt").recover()]
    assert bodies == [f"news {n}" for n in range(3, 12)]


@pytest.mark.parametrize("version", VERSIONS["leveldb"])
def test_the_source_is_not_changed(recorded: Recorded, version: str) -> None:
    folder, _ = recorded(version)
    before = contents(folder)

    read(folder)

    assert contents(folder) == before


def test_without_an_index_the_logs_tell_the_same(recorded: Recorded, tmp_path: Path) -> None:
    folder = shutil.copytree(recorded(STOPPED)[0], tmp_path / "copy")
    wanted, _ = read(folder)
    for index in folder.glob("*.index"):
        shutil.rmtree(index)

    found, findings = read(folder)

    assert (found, findings.damages, findings.notes) == (wanted, [], [])


def test_a_log_directory_of_its_own(recorded: Recorded, tmp_path: Path) -> None:
    folder = shutil.copytree(recorded(KILLED)[0], tmp_path / "both" / "index")
    (tmp_path / "both" / "logs").mkdir()
    for log in folder.glob("*.log"):
        log.rename(tmp_path / "both" / "logs" / log.name)

    assert [row[1:] for row in read(tmp_path / "both")[0]] == [
        row[1:] for row in read(recorded(KILLED)[0])[0]
    ]


@pytest.mark.parametrize("lock", ["lock", "dirty.index/LOCK"])
def test_files_of_a_running_broker_are_refused(recorded: Recorded, lock: str, tmp_path: Path) -> None:
    folder = shutil.copytree(recorded(STOPPED)[0], tmp_path / "copy")
    (folder / lock).parent.mkdir(exist_ok=True)
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
        open_source(f"leveldb:{tmp_path}")


@pytest.mark.parametrize("version", VERSIONS["leveldb"])
def test_damages(recorded: Recorded, version: str, tmp_path: Path) -> None:
    """``python -m tests.long.importing damages --kind leveldb`` has more of them."""
    judge = OldJudge("leveldb", recorded(version)[0])
    outcomes = set()
    for seed in range(12):
        copy = Path(shutil.copytree(judge.folder, tmp_path / str(seed)))
        outcomes.add(judge.judge(copy, *damage(seed, copy)))
    assert "named" in outcomes


def test_a_log_without_its_end(recorded: Recorded, tmp_path: Path) -> None:
    """A killed broker has not confirmed what is in the unit that it was writing."""
    folder = shutil.copytree(recorded(KILLED)[0], tmp_path / "copy")
    wanted, _ = read(folder)
    log = max(folder.glob("*.log"))
    content = log.read_bytes().rstrip(b"\0")
    log.write_bytes(content[:-1] + bytes(100))

    found, findings = read(folder)

    [broken, left_out] = findings.damages
    assert (broken.file, left_out.file) == (str(log), str(log))
    assert "never confirmed" in left_out.reason
    assert len(found) in (len(wanted), len(wanted) + 1)


def test_the_name_of_a_queue_that_is_gone(recorded: Recorded, tmp_path: Path) -> None:
    """Without an index, and without the first log, messages go where they were sent to."""
    folder = shutil.copytree(recorded(KILLED)[0], tmp_path / "copy")
    wanted, _ = read(folder)
    for index in folder.glob("*.index"):
        shutil.rmtree(index)
    min(folder.glob("*.log")).unlink()

    found, findings = read(folder)

    assert {row.msg for row in found if row.container == "queue://AFTER"} == {
        row.msg for row in wanted if row.container == "queue://AFTER"
    }
    assert any("has no index" in text for text in findings.notes)
    assert any("the name of the collection" in damage.reason for damage in findings.damages)


def test_without_the_library_of_compressed_files(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cramjam", None)
    with pytest.raises(ConfigurationError, match="pip install 'cramjam"):
        read(recorded(STOPPED)[0])
