"""A disk that is full, or fails, or is slow: what callers are told, and what is there afterwards."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.errors import JournalFailed, OutcomeUnknown, StoreClosed, StoreUnavailable
from jdbcstore.journal import log as log_module
from jdbcstore.journal.inspection import kept
from jdbcstore.journal.log import Journal
from tests.support.journal.entries import Item, Told, configured, opened
from tests.support.journal.faulty_files import FaultyFiles, raises


class Case:
    def __init__(self, directory: Path, **options: Any) -> None:
        self.files = FaultyFiles()
        self.told = Told()
        self.config = configured(directory, **options)
        self.journal = opened(self.config, self.told, files=self.files)

    def append(self, body: bytes) -> None:
        """And wait for the answer."""
        before = len(self.told.written) + len(self.told.failed)
        self.journal.append(Item(body), waits=True)
        self.told.wait(before + 1)

    @property
    def errors(self) -> list[type[Exception]]:
        return [type(error) for _, error in self.told.failed]

    def reopened(self) -> list[bytes]:
        """What is there for the next one."""
        self.journal.close(60)
        journal = opened(self.config, Told())
        bodies = [record.body for record in journal.log.records(0)]
        journal.close()
        return bodies


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    case = Case(tmp_path)
    yield case
    case.files.before.clear()
    case.journal.close(60)


def test_short_writes_go_on(case: Case) -> None:
    case.files.before["write"] = lambda: 7
    case.append(b"a" * 100)
    case.append(b"b" * 100)
    assert case.errors == []
    assert case.reopened() == [b"a" * 100, b"b" * 100]


def test_a_write_of_nothing_is_a_failure(case: Case) -> None:
    case.append(b"before")
    case.files.before["write"] = lambda: 0
    case.append(b"never")
    assert case.errors == [JournalFailed]
    case.files.before.clear()
    assert case.reopened() == [b"before"]


def test_no_room_for_a_write_and_then_there_is(case: Case) -> None:
    case.append(b"before")
    written: list[int | None] = [30]

    def some_and_no_more() -> int | None:
        if written:
            return written.pop()
        raise OSError(errno.ENOSPC, "no space left on device")

    case.files.before["write"] = some_and_no_more
    case.append(b"refused" * 20)
    assert case.errors == [StoreUnavailable]
    case.append(b"refused, too")
    assert case.errors == [StoreUnavailable] * 2
    case.files.before.clear()
    case.append(b"behind")
    assert case.told.bodies == [b"before", b"behind"]
    assert case.reopened() == [b"before", b"behind"]


def test_what_was_refused_is_not_there_after_a_kill(case: Case) -> None:
    case.append(b"before")
    case.files.before["sync"] = raises(errno.ENOSPC)
    case.append(b"in doubt")
    assert case.errors == [OutcomeUnknown]
    assert set(case.reopened()) <= {b"before", b"in doubt"}


@pytest.mark.parametrize("operation", ["create", "write", "rename"])
def test_no_room_for_a_file_and_then_there_is(case: Case, operation: str) -> None:
    case.append(b"a" * 2000)
    case.files.before[operation] = raises(-errno.ENOSPC)
    case.append(b"b" * 2000)
    case.append(b"c" * 2000)
    assert case.errors == [StoreUnavailable] * 2
    if operation != "write":
        case.append(b"small ones fit")
    case.files.before.clear()
    case.append(b"d" * 2000)
    assert case.errors == [StoreUnavailable] * 2
    bodies = [b"a" * 2000, b"small ones fit", b"d" * 2000]
    assert case.reopened() == [body for body in bodies if operation != "write" or body[:1] != b"s"]


def test_a_failed_write_ends_it_and_is_not_there(case: Case) -> None:
    case.append(b"before")
    case.files.before["write"] = raises(errno.EIO)
    case.append(b"failed")
    assert case.errors == [JournalFailed]
    with pytest.raises(JournalFailed):
        case.append(b"late")
    with pytest.raises(JournalFailed):
        case.journal.append(Item(b"late"))
    assert case.reopened() == [b"before"]


def test_a_failed_write_that_cannot_be_taken_back_is_in_doubt(case: Case) -> None:
    case.append(b"before")
    case.files.before["write"] = raises(errno.EIO)
    case.files.before["truncate"] = raises(errno.EIO)
    case.append(b"failed")
    assert case.errors == [OutcomeUnknown]
    with pytest.raises(JournalFailed):
        case.append(b"late")


def test_a_failed_sync_is_never_tried_again(case: Case) -> None:
    case.append(b"before")
    case.files.before["sync"] = raises(errno.EIO)
    syncs = case.files.syncs
    case.append(b"in doubt")
    assert case.errors == [OutcomeUnknown]
    for _ in range(3):
        with pytest.raises(JournalFailed):
            case.append(b"late")
    case.journal.close(60)
    assert case.files.syncs == syncs + 1
    assert case.reopened() in ([b"before"], [b"before", b"in doubt"])


@pytest.mark.parametrize("operation", ["sync", "sync_directory"])
def test_a_failed_sync_of_a_new_file_ends_it(case: Case, operation: str) -> None:
    case.append(b"a" * 2000)
    case.files.before[operation] = raises(errno.EIO)
    case.append(b"b" * 2000)
    assert case.errors == [JournalFailed]
    with pytest.raises(JournalFailed):
        case.append(b"late")
    assert case.reopened() == [b"a" * 2000]


def test_a_failed_sync_at_times_ends_it(tmp_path: Path) -> None:
    case = Case(tmp_path, journal_disk_sync_strategy="periodic", journal_disk_sync_interval=0.005)
    failed = threading.Event()

    def fail() -> None:
        failed.set()
        raise OSError(errno.EIO, "input/output error")

    case.files.before["sync"] = fail
    case.append(b"written")
    assert case.told.bodies == [b"written"]
    assert failed.wait(180)
    with pytest.raises(JournalFailed):
        case.journal.sync()
    with pytest.raises(JournalFailed):
        case.append(b"late")
    case.journal.close(60)


def test_those_behind_a_doubtful_write_are_not_in_doubt(tmp_path: Path) -> None:
    case = Case(tmp_path, journal_log_file_size=8192)
    with held(case) as begun:
        case.journal.append(Item(b"first"))
        assert begun.wait(180)
        for _ in range(4):
            case.journal.append(Item(b"x" * 3000))
        case.files.before["sync"] = raises(errno.EIO)
    case.told.wait(5)
    assert case.told.bodies == [b"first"]
    assert case.errors == [OutcomeUnknown, OutcomeUnknown, JournalFailed, JournalFailed]
    case.journal.close(60)


class held:  # noqa: N801
    """Within it, the write that begins first does not go on; the event says that it has begun."""

    def __init__(self, case: Case) -> None:
        self._files = case.files
        self._begun, self._go_on = threading.Event(), threading.Event()

    def __enter__(self) -> threading.Event:
        self._files.before["sync"] = self._wait
        return self._begun

    def _wait(self) -> None:
        self._begun.set()
        assert self._go_on.wait(180)

    def __exit__(self, *_: object) -> None:
        if self._files.before.get("sync") == self._wait:
            del self._files.before["sync"]
        self._go_on.set()


def test_what_waits_can_be_withdrawn_and_what_is_written_not(case: Case) -> None:
    items = [Item(b"%d" % index) for index in range(4)]
    with held(case) as begun:
        case.journal.append(items[0])
        assert begun.wait(180)
        for item in items[1:]:
            case.journal.append(item)
        assert not case.journal.withdraw(items[0])
        assert case.journal.withdraw(items[2])
        assert not case.journal.withdraw(items[2])
    case.told.wait(3)
    assert case.told.bodies == [b"0", b"1", b"3"]
    assert case.reopened() == [b"0", b"1", b"3"]


def test_a_full_queue_has_callers_wait(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "MAX_QUEUED", 3)
    done = threading.Event()

    def produce() -> None:
        for index in range(10):
            case.journal.append(Item(b"%d" % index))
        done.set()

    with held(case) as begun:
        producer = threading.Thread(target=produce)
        producer.start()
        assert begun.wait(180)
        assert not done.wait(0.1)
        assert len(case.journal._queue._queue) <= 3
    assert done.wait(180)
    producer.join()
    case.told.wait(10)
    assert case.told.bodies == [b"%d" % index for index in range(10)]


def test_a_failure_wakes_those_who_wait_for_room(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "MAX_QUEUED", 1)
    refused: list[Exception] = []

    def produce() -> None:
        try:
            for _ in range(10):
                case.journal.append(Item(b"x"))
        except JournalFailed as error:
            refused.append(error)

    with held(case) as begun:
        producer = threading.Thread(target=produce)
        producer.start()
        assert begun.wait(180)
        case.files.before["sync"] = raises(-errno.EIO)
    producer.join(180)
    assert not producer.is_alive()
    case.journal.close(60)
    assert case.told.written + case.told.failed


def test_a_close_that_waits_too_long_tells_whoever_waits(tmp_path: Path) -> None:
    case = Case(tmp_path)
    with held(case) as begun:
        case.journal.append(Item(b"in doubt"))
        assert begun.wait(180)
        case.journal.append(Item(b"queued"))
        with pytest.raises(StoreClosed) as raised:
            case.journal.close(0.01)
        assert raised.value.unwritten == 2
        assert case.errors == [OutcomeUnknown, StoreClosed]
    case.journal.close(60)
    assert case.told.written == []
    assert case.reopened() in ([], [b"in doubt"])


def test_more_is_waited_for_when_that_is_asked_for(tmp_path: Path) -> None:
    case = Case(tmp_path, journal_buffer_timeout=60.0, journal_max_write_batch_size=1000)
    for index in range(11):
        case.journal.append(Item(b"%d" % (index % 10) * 100), waits=False)
    case.told.wait(10)
    assert max(case.told.batches) == 10
    case.journal.close(60)
    assert sum(case.told.batches) == 11


def test_an_entry_that_lies_about_its_size_stops_it(tmp_path: Path) -> None:
    class Liar(Item):
        @property
        def size(self) -> int:
            return len(self.body) + 8

    told = Told()
    journal = opened(configured(tmp_path), told)
    journal.append(Item(b"before"))
    told.wait(1)
    journal.append(Liar(b"no"))
    told.wait(2)
    assert isinstance(told.failed[0][1], OutcomeUnknown)
    with pytest.raises(JournalFailed):
        journal.append(Item(b"late"))
    journal.close(60)
    journal = opened(configured(tmp_path), told)
    assert [record.body for record in journal.log.records(0)] == [b"before"]
    journal.close()


def test_a_directory_that_cannot_be_made_or_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable):
        opened(configured(tmp_path / "file" / "journal"), Told())
    files = FaultyFiles()
    files.before["create"] = raises(errno.ENOSPC, errno.EROFS)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            opened(configured(tmp_path / "journal"), Told(), files=files)
    journal: Journal = opened(configured(tmp_path / "journal"), Told(), files=files)
    journal.close()


def test_what_cannot_be_let_go_of_is_with_the_next_ones(tmp_path: Path) -> None:
    case = Case(tmp_path, journal_archive_directory=str(tmp_path / "archive"))
    for index in range(3):
        case.append(b"%d" % index * 2000)
    case.files.before["rename"] = raises(errno.EROFS)
    case.journal.log.release(2)
    assert case.journal.log.first_number == 1
    case.append(b"goes on")
    case.journal.log.release(2)
    assert case.journal.log.first_number == 3
    assert len(kept(tmp_path / "archive")) == 2
    case.journal.close()
