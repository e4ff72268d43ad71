"""The contract of an import from files of ActiveMQ, which each kind of store passes."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pytest

import jdbcstore
from jdbcstore.message import openwire
from jdbcstore.message.ids import TransactionId, XATransactionId
from jdbcstore.stores.jdbc.xa.column import decode_flag
from jdbcstore.tools import transfer
from jdbcstore.tools.importing.folders import FolderSource
from jdbcstore.tools.importing.keeping import KeptRecords
from jdbcstore.tools.importing.kinds import open_source
from jdbcstore.tools.importing.numbered import CommandRecord, FileReader
from jdbcstore.tools.importing.source import Findings, NothingToImport, SourceInUse
from jdbcstore.util.file_lock import FileLock
from tests.support.importing.logs import LOCAL, WRITERS, XID, LogWriter
from tests.tools.conftest import NewDatabase, place

Q, TOPIC, TEMPORARY = "queue://Q", "topic://T", "temp-queue://ID:c:1"
REASON = "messages of temporary destinations end with their connections; left out"


@pytest.fixture(params=WRITERS, ids=lambda kind: kind.SCHEME)
def kind(request: pytest.FixtureRequest) -> type[LogWriter]:
    """Each kind of store."""
    found: type[LogWriter] = request.param
    return found


@pytest.fixture
def log(kind: type[LogWriter], tmp_path: Path) -> LogWriter:
    """The log of one store."""
    return kind(tmp_path / "data")


def named(value: object) -> str | None:
    """The id of a parameter."""
    if isinstance(value, TransactionId):
        return "local" if value == LOCAL else "xa"
    return " ".join(map(str, value)) if isinstance(value, list) else None


def opened(log: LogWriter, findings: Findings | None = None) -> FolderSource:
    source = open_source(str(log.folder), findings=findings)
    assert isinstance(source, FolderSource)
    return source


@dataclass
class Read:
    """What an import finds."""

    bodies: list[str]
    added: list[str]
    """Bodies of the messages that a transaction in doubt adds."""
    acknowledged: list[str]
    """Bodies of the messages that one acknowledges."""
    said: str
    """Damages and notes, without what is said of each store of its kind."""
    damages: set[str]
    """The names of damaged files."""


def read(log: LogWriter) -> Read:
    with opened(log) as source:
        rows = [row for page in source.messages() for row in page]
        flags = {row.id: row.xid and decode_flag(row.xid) for row in rows}
        bodies = {row.id: str(openwire.decode(row.msg).body) for row in rows}
        notes = [note for note in source.findings.notes if "has no checksums" not in note]
        return Read(
            [body for n, body in bodies.items() if not flags[n]],
            [body for n, body in bodies.items() if (flag := flags[n]) and flag.tag == b"+"],
            [body for n, body in bodies.items() if (flag := flags[n]) and flag.tag == b"-"],
            " ".join([*map(str, source.findings.damages), *notes]),
            {Path(damage.file).name for damage in source.findings.damages},
        )


# Transactions

BEFORE, AFTER = ["body 1", "body 2"], ["body 2", "body 3"]


@pytest.mark.parametrize(
    ("transaction", "outcomes", "expected"),
    [
        (LOCAL, ["commit"], AFTER),
        (LOCAL, ["roll_back"], BEFORE),
        (LOCAL, [], BEFORE),
        (XID, ["commit"], AFTER),
        (XID, ["roll_back"], BEFORE),
        (XID, [], BEFORE),
        (XID, ["prepare", "commit"], AFTER),
        (XID, ["prepare", "roll_back"], BEFORE),
        (XID, ["prepare", "prepare", "commit"], AFTER),
        (XID, ["prepare", "prepare", "roll_back"], BEFORE),
    ],
    ids=named,
)
def test_a_transaction_ends_as_its_log_says(
    log: LogWriter, transaction: TransactionId, outcomes: list[str], expected: list[str]
) -> None:
    write(log, transaction, *outcomes)

    assert read(log) == Read(expected, [], [], "", set())


def write(log: LogWriter, transaction: TransactionId, *outcomes: str) -> None:
    """A transaction that acknowledges the first message, and adds the third."""
    other = XATransactionId(86, b"another", b"")
    log.send(Q, 1)
    log.send(Q, 2)
    log.receive(Q, 1, transaction)
    log.send(Q, 3, transaction)
    for outcome in outcomes:
        getattr(log, outcome)(transaction)
        log.commit(other)
    log.write()


def test_a_prepared_transaction_is_in_doubt(log: LogWriter) -> None:
    write(log, XID, "prepare")

    assert read(log) == Read(["body 2"], ["body 3"], ["body 1"], "", set())


@pytest.mark.parametrize("is_committed", [True, False], ids=["committed", "rolled back"])
def test_a_transaction_in_doubt_is_decided_in_the_store(
    log: LogWriter, new: NewDatabase, is_committed: bool
) -> None:
    write(log, XID, "prepare")
    database = new("sqlite")

    with opened(log) as source:
        assert transfer.copy_rows(source, place(database)).comparison.same
    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        assert [branch.xid for branch in store.xa.recover()] == [XID]
        (store.xa.commit if is_committed else store.xa.rollback)(XID)
        found = sorted(str(message.body) for message in store.queue("Q").recover())

    assert found == (AFTER if is_committed else BEFORE)


@pytest.mark.parametrize(
    ("transaction", "outcomes", "waiting"),
    [
        (None, [], [3]),
        (LOCAL, ["commit"], [3]),
        (LOCAL, ["roll_back"], [2, 3]),
        (LOCAL, [], [2, 3]),
        (XID, ["prepare", "commit"], [3]),
        (XID, ["prepare", "roll_back"], [2, 3]),
    ],
    ids=named,
)
def test_a_subscription_waits_for_what_it_has_not_acknowledged(
    log: LogWriter, transaction: TransactionId | None, outcomes: list[str], waiting: list[int]
) -> None:
    write_news(log, transaction, *outcomes)

    assert states(log) == [(f"body {n}", None) for n in waiting]
    assert read(log).said == ""


def write_news(log: LogWriter, transaction: TransactionId | None, *outcomes: str) -> None:
    """A subscription to a topic, which acknowledges the second message; the first came before it."""
    log.send(TOPIC, 1)
    log.subscribe(TOPIC)
    log.send(TOPIC, 2)
    log.send(TOPIC, 3)
    log.receive(TOPIC, 2, transaction)
    for outcome in outcomes:
        getattr(log, outcome)(transaction)
    log.write()


def states(log: LogWriter) -> list[tuple[str, XATransactionId | None]]:
    """The messages that the subscription has not acknowledged, and the transactions that do it."""
    with opened(log) as source:
        bodies = {row.id: str(openwire.decode(row.msg).body) for page in source.messages() for row in page}
        [(topic, [subscription])] = source.replay.topics().items()
        assert (subscription.info.client_id, subscription.info.subscription_name) == ("c", "s")
        found = source.replay.states(topic, subscription)
        return [(bodies[state.id], state.xid) for state in found if not state.is_acknowledged]


def test_a_prepared_transaction_acknowledges_in_doubt(log: LogWriter) -> None:
    write_news(log, XID, "prepare")

    assert states(log) == [("body 2", XID), ("body 3", None)]


def test_a_subscription_waits_for_what_came_after_it(log: LogWriter) -> None:
    log.subscribe(TOPIC, "first")
    log.send(TOPIC, 1)
    log.subscribe(TOPIC, "second")
    log.send(TOPIC, 2)
    log.write()

    with opened(log) as source:
        [(topic, subscriptions)] = source.replay.topics().items()
        waiting = {
            one.info.subscription_name: [
                state.name.rpartition(":")[2]
                for state in source.replay.states(topic, one)
                if not state.is_acknowledged
            ]
            for one in subscriptions
        }

    assert waiting == {"first": ["1", "2"], "second": ["2"]}


# Temporary destinations


@pytest.mark.parametrize(
    ("transaction", "outcomes"), [(None, []), (LOCAL, ["commit"]), (XID, ["prepare"])], ids=named
)
def test_messages_of_temporary_destinations_are_left_out(
    log: LogWriter, transaction: TransactionId | None, outcomes: list[str], tmp_path: Path
) -> None:
    log.send(Q, 1)
    log.send(TEMPORARY, 2, transaction)
    for outcome in outcomes:
        assert transaction is not None
        getattr(log, outcome)(transaction)
    log.write()

    with KeptRecords(tmp_path / "kept") as kept, opened(log, Findings(kept=kept)) as source:
        assert [row.container for page in source.messages() for row in page] == [Q]
        assert [str(count.destination) for count in source.replay.counts()] == [Q]
        assert REASON in source.findings.notes
        assert source.findings.damages == []
    [line] = (tmp_path / "kept" / "index.jsonl").read_text().splitlines()
    assert (json.loads(line)["reason"], json.loads(line)["of"]) == (REASON, TEMPORARY)
    blob = (tmp_path / "kept" / "000001.record").read_bytes()
    assert openwire.decode(blob).body == "body 2"


def test_a_temporary_destination_without_messages_is_not_noted(log: LogWriter) -> None:
    log.send(Q, 1)
    log.send(TEMPORARY, 2, LOCAL)
    log.roll_back(LOCAL)
    log.write()

    assert read(log).said == ""


# Folders


def test_a_copy_of_a_folder_is_refused(kind: type[LogWriter], tmp_path: Path) -> None:
    for name in ("one", "other"):
        log = kind(tmp_path / "data" / name)
        log.send(Q, 1)
        log.write()

    with pytest.raises(NothingToImport) as refused:
        open_source(str(tmp_path / "data"))

    text = str(refused.value)
    assert text.index(str(tmp_path / "data" / "one")) < text.index(str(tmp_path / "data" / "other"))
    assert "both have the message ID:writer-1:1:1:1 of queue://Q: one is a copy of the other" in text


def test_a_message_that_is_there_twice_is_imported_once(log: LogWriter) -> None:
    """A producer sends it again when its broker has crashed before it answered."""
    log.send(Q, 1)
    log.send(Q, 1)
    log.write()

    assert read(log).bodies == ["body 1"]


def test_stores_of_a_tree(kind: type[LogWriter], tmp_path: Path) -> None:
    tree = tmp_path / "data"
    count = 0
    for n, name in enumerate(("b", "a"), 1):
        log = kind(tree / name)
        log.send(Q, n)
        log.send(Q, 10 + n, XATransactionId(86, name.encode(), b""))
        log.prepare(XATransactionId(86, name.encode(), b""))
        log.next_file()
        log.send(Q, 20 + n)
        log.write()
        count += sum(len(file) for file in log.files)
    apart = kind(tree / "c" / kind.APART)
    apart.send(Q, 5)
    apart.write()

    with open_source(str(tree)) as source:
        bodies = [str(openwire.decode(row.msg).body) for page in source.messages() for row in page]
        facts = dict(source.facts())

    assert bodies[:4] == ["body 2", "body 22", "body 1", "body 21"]
    assert sorted(bodies[4:]) == ["body 11", "body 12"]
    files, records = kind.COUNTED
    assert facts == {"folders": 2, files: 4, records: count, "in_doubt": 2}


def test_a_folder_apart_is_imported_if_it_is_named(kind: type[LogWriter], tmp_path: Path) -> None:
    log = kind(tmp_path / kind.APART)
    log.send(Q, 1)
    log.write()

    assert read(log).bodies == ["body 1"]


def test_a_folder_without_a_store(log: LogWriter) -> None:
    log.folder.mkdir()

    with pytest.raises(NothingToImport, match="and neither have the folders below it"):
        open_source(f"{log.SCHEME}:{log.folder}")


@pytest.mark.parametrize("where", [".", ".."], ids=["inside", "above"])
def test_a_store_of_a_running_broker_is_refused(log: LogWriter, where: str) -> None:
    log.send(Q, 1)
    log.write()
    lock = FileLock(log.folder / where / "lock")
    try:
        with pytest.raises(SourceInUse, match="stop the broker"):
            opened(log)
    finally:
        lock.release()


def test_a_broker_cannot_start_on_a_store_that_is_imported(log: LogWriter) -> None:
    log.send(Q, 1)
    log.write()
    (log.folder / "lock").touch()
    with opened(log) as source:
        with pytest.raises(BlockingIOError):
            FileLock(log.folder / "lock")
        source.shares.release(log.folder / "lock")
        FileLock(log.folder / "lock").release()
    FileLock(log.folder / "lock").release()


# Lost and misplaced files


def three_files(log: LogWriter) -> list[Path]:
    """Write a message into each of three files."""
    for n in (1, 2, 3):
        log.send(Q, n, sent_ms=1000 * n)
        if n < 3:
            log.next_file()
    return log.write()


def test_files_in_order_have_nothing_to_report(log: LogWriter) -> None:
    three_files(log)

    assert read(log) == Read(["body 1", "body 2", "body 3"], [], [], "", set())


def test_the_bytes_of_all_files_are_counted(log: LogWriter) -> None:
    paths = three_files(log)
    counted: list[int] = []

    with open_source(str(log.folder), counted.append):
        assert counted == [path.stat().st_size for path in paths]


def test_a_missing_file_is_named(log: LogWriter) -> None:
    _, second, _ = three_files(log)
    second.unlink()

    found = read(log)

    assert found.bodies == ["body 1", "body 3"]
    assert second.name in found.said or "missing" in found.said


def test_a_missing_first_file_is_named(log: LogWriter) -> None:
    first, _, _ = three_files(log)
    first.unlink()

    found = read(log)

    assert found.bodies == ["body 2", "body 3"]
    assert first.name in found.said or "are missing" in found.said


def test_an_empty_file_is_named(log: LogWriter) -> None:
    _, second, _ = three_files(log)
    second.write_bytes(b"")

    found = read(log)

    assert found.bodies == ["body 1", "body 3"]
    assert found.damages


def test_an_empty_last_file_may_have_had_nothing(log: LogWriter) -> None:
    *_, last = three_files(log)
    log.next_file()
    last.write_bytes(b"")

    found = read(log)

    assert found.bodies == ["body 1", "body 2"]
    assert found.damages == set()


def test_a_file_with_the_content_of_another_is_named(log: LogWriter) -> None:
    first, second, _ = three_files(log)
    shutil.copyfile(first, second)

    found = read(log)

    assert found.bodies == ["body 1", "body 3"]
    assert second.name in found.damages
    assert "it has the content of" in found.said


def test_files_with_the_names_of_others_are_named(log: LogWriter) -> None:
    first, second, _ = three_files(log)
    aside = first.with_name("aside")
    first.rename(aside)
    second.rename(first)
    aside.rename(second)

    found = read(log)

    assert sorted(found.bodies)[-1] == "body 3"
    assert "begins with an older message" in found.said or "has the content of" in found.said


# Damage


@pytest.mark.parametrize("n", [1, 2, 3])
def test_what_is_damaged_is_left_out_and_named(log: LogWriter, n: int) -> None:
    for m in (1, 2, 3):
        log.send(Q, m)
    [path] = log.write()
    content = bytearray(path.read_bytes())
    before = content.index(f"body {n - 1}".encode()) if n > 1 else 0
    begin = content.index(log.MARK, before)
    content[begin] ^= 1
    path.write_bytes(content)

    found = read(log)

    assert sorted({*found.bodies, f"body {n}"}) == ["body 1", "body 2", "body 3"]
    assert len(found.bodies) == 2
    assert found.damages == {path.name}


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    class Failing(FileReader):
        def _records(self, file: BinaryIO) -> Iterator[CommandRecord]:
            yield CommandRecord(0, file.read(3))
            raise OSError(errno.EIO, "Input/output error")

    (tmp_path / "log").write_bytes(bytes(10))
    damages: list[tuple[int, int, str]] = []
    reader = Failing(tmp_path / "log", lambda *damage: damages.append(damage))

    assert [*reader.records()] == [CommandRecord(0, bytes(3))]
    assert damages == [(3, 7, "it cannot be read: Input/output error")]


def test_a_message_that_cannot_be_read_any_more_is_named(log: LogWriter) -> None:
    """Files are read twice."""
    log.send(Q, 1)
    [path] = log.write()
    with opened(log) as source:
        path.write_bytes(b"")
        assert [row for page in source.messages() for row in page] == []
        [damage] = source.findings.damages

    assert damage.file == str(path)
    assert "ID:writer-1:1:1:1" in damage.reason
