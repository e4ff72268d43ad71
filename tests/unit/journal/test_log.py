"""A journal on real files: appended, read back, opened again, released, closed."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import CorruptJournal, JournalInUse, MessageTooLarge, StoreClosed
from jdbcstore.journal.directory import live_segments, preallocated
from jdbcstore.journal.layout import WrittenEntry
from jdbcstore.journal.log import Journal
from jdbcstore.testing.polling import wait_until
from jdbcstore.util.files import Files
from tests.support.journal.entries import Item, Told, configured, opened


def read(journal: Journal, after: int = 0) -> list[bytes]:
    return [record.body for record in journal.log.records(after)]


@pytest.mark.parametrize("waits", [True, False])
def test_what_was_appended_is_read_back_in_order(tmp_path: Path, waits: bool) -> None:
    told = Told()
    journal = opened(configured(tmp_path / "a" / "journal"), told, accept=lambda found: (found.store, 100))
    bodies = [bytes([index]) * (index * 7) for index in range(100)]
    for index, body in enumerate(bodies):
        journal.append(Item(body, kind=1 + index % 5, sequences=index % 3), waits=waits)
    told.wait(100)
    assert told.bodies == bodies
    records = list(journal.log.records(0))
    assert [record.body for record in records] == bodies
    assert [record.number for record in records] == [*range(1, 101)]
    assert [record.kind for record in records] == [1 + index % 5 for index in range(100)]
    assert [(one.number, one.sequence) for one in told.written] == [
        (record.number, record.sequence) for record in records
    ]
    assert [one.sequence for one in told.written[:5]] == [100, 100, 101, 103, 103]
    assert journal.log.last_sequence == 99 + sum(index % 3 for index in range(100))
    assert len({record.segment for record in records}) > 3
    assert [record.number for record in journal.log.records(98)] == [99, 100]
    journal.close()


@pytest.mark.parametrize("scope", ["none", "entire_journal"])
@pytest.mark.parametrize("strategy", ["zeros", "sparse_file"])
@pytest.mark.parametrize("sync", ["always", "periodic", "never"])
def test_it_goes_on_when_it_is_opened_again(tmp_path: Path, scope: str, strategy: str, sync: str) -> None:
    config = configured(
        tmp_path,
        journal_log_files=3,
        preallocation_scope=scope,
        preallocation_strategy=strategy,
        journal_disk_sync_strategy=sync,
        journal_disk_sync_interval=0.001,
    )
    names = set()
    for begin in range(0, 100, 20):
        told = Told()
        journal = opened(config, told)
        names.add(journal.log.journal)
        assert journal.recovered.clean
        assert journal.recovered.torn is None
        assert journal.log.last_sequence == begin
        for index in range(begin, begin + 20):
            journal.append(Item(b"%d" % index * 100), waits=True)
        told.wait(20)  # the journal's own thread may write some, and finish later
        assert read(journal) == [b"%d" % index * 100 for index in range(begin + 20)]
        journal.close()
    assert len(names) == 1


def test_a_lone_caller_is_told_before_it_goes_on(tmp_path: Path) -> None:
    told, tellers = Told(), []

    def committed(batch: Sequence[WrittenEntry]) -> None:
        tellers.append(threading.get_ident())
        told.committed(batch)

    journal = Journal(configured(tmp_path), committed=committed, failed=told.fail)

    def append_and_ask_who_told() -> bool:
        journal.append(Item(b"x"), waits=True)
        told.wait(len(tellers))
        return tellers[-1:] == [threading.get_ident()]

    # Not before the journal's own thread waits.
    wait_until(append_and_ask_who_told)
    journal.close()


def test_many_threads_share_writes(tmp_path: Path) -> None:
    told = Told()
    journal = opened(JournalConfig(directory=str(tmp_path), journal_log_file_size=1 << 20), told)

    def produce(name: int) -> None:
        for index in range(200):
            journal.append(Item(b"%d %d" % (name, index)), waits=bool(name % 2))

    threads = [threading.Thread(target=produce, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told.wait(1600)
    assert [one.number for one in told.written] == [*range(1, 1601)]
    assert read(journal) == told.bodies
    for name in range(8):
        own = [body for body in told.bodies if body.startswith(b"%d " % name)]
        assert own == [b"%d %d" % (name, index) for index in range(200)]
    assert len(told.batches) < 1600
    journal.close()


def test_an_entry_larger_than_a_file_has_one_of_its_own(tmp_path: Path) -> None:
    told = Told()
    journal = opened(configured(tmp_path), told)
    bodies = [b"a", bytes(range(256)) * 10_000, b"b", b"c" * 5000, b"d"]
    for body in bodies:
        journal.append(Item(body), waits=True)
    told.wait(5)
    assert read(journal) == bodies
    journal.close()
    journal = opened(configured(tmp_path), told)
    assert read(journal) == bodies
    journal.log.release(4)
    assert read(journal, 4) == [b"d"]
    journal.close()


def test_no_record_is_larger_than_its_length_can_say(tmp_path: Path) -> None:
    journal = opened(configured(tmp_path), Told())

    class Huge(Item):
        @property
        def size(self) -> int:
            return 2**32

    with pytest.raises(MessageTooLarge):
        journal.append(Huge(b""))
    journal.close()


def test_released_files_go_and_are_used_again(tmp_path: Path) -> None:
    told = Told()
    config = configured(tmp_path, journal_log_files=3, preallocation_scope="entire_journal")
    journal = opened(config, told)
    for index in range(60):
        journal.append(Item(b"%d" % index * 150), waits=True)
    told.wait(60)
    assert len(live_segments(tmp_path)) > 3
    before = len(journal.log.spans())
    journal.log.release(30)
    assert 1 < len(journal.log.spans()) < before
    assert 20 < journal.log.first_number <= 31
    assert read(journal, 30) == told.bodies[30:]
    with pytest.raises(CorruptJournal, match="record 1 is missing"):
        read(journal)
    journal.log.release(60)
    assert len(live_segments(tmp_path)) == len(journal.log.spans()) == 1
    for index in range(60):
        journal.append(Item(b"%d" % index * 150), waits=True)
    told.wait(120)
    assert read(journal, 60) == told.bodies[60:]
    journal.close()
    journal = opened(config, told)
    assert read(journal, 60) == told.bodies[60:]
    journal.close()


def test_a_second_one_is_refused(tmp_path: Path) -> None:
    journal = opened(configured(tmp_path), Told())
    with pytest.raises(JournalInUse, match="this process"):
        opened(configured(tmp_path), Told())
    program = (
        "import sys; from jdbcstore.config.journal import JournalConfig\n"
        "from jdbcstore.journal.log import Journal\n"
        "from jdbcstore.errors import JournalInUse\n"
        "try: Journal(JournalConfig(directory=sys.argv[1]), committed=print, failed=print).close()\n"
        "except JournalInUse as error: sys.exit(str(error))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert refused.returncode == 1, refused.stderr
    assert "has the journal in" in refused.stderr
    journal.close()
    subprocess.run(command, check=True, timeout=300)


def test_a_closed_one_takes_nothing(tmp_path: Path) -> None:
    told = Told()
    journal = opened(configured(tmp_path), told)
    for index in range(10):
        journal.append(Item(b"%d" % index))
    journal.close()
    assert len(told.written) == 10
    with pytest.raises(StoreClosed):
        journal.append(Item(b"late"))
    journal.close()


def test_a_torn_end_is_cut_and_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told = Told()
    journal = opened(configured(tmp_path), told)
    for index in range(3):
        journal.append(Item(b"%d" % index * 50), waits=True)
    told.wait(3)
    path = live_segments(tmp_path)[1]
    whole = path.read_bytes()
    journal.close()
    path.write_bytes(whole[:-10])
    with caplog.at_level(logging.WARNING):
        journal = opened(configured(tmp_path), told)
    assert "record 3, which was being written in segment 1" in caplog.text
    assert journal.recovered.torn is not None
    assert journal.recovered.torn.number == 3
    assert read(journal) == told.bodies[:2]
    journal.append(Item(b"new"), waits=True)
    told.wait(4)
    assert read(journal) == [*told.bodies[:2], b"new"]
    journal.close()


def test_damage_before_the_end_stops(tmp_path: Path) -> None:
    told = Told()
    journal = opened(configured(tmp_path), told)
    for index in range(3):
        journal.append(Item(b"%d" % index * 50), waits=True)
    journal.close()
    path = live_segments(tmp_path)[1]
    whole = bytearray(path.read_bytes())
    whole[-150] ^= 1
    path.write_bytes(whole)
    with pytest.raises(CorruptJournal) as raised:
        opened(configured(tmp_path), told)
    assert raised.value.segment == 1
    assert raised.value.offset > 512
    assert path.read_bytes() == whole


def test_a_missing_file_stops_it_unless_that_is_to_be_ignored(tmp_path: Path) -> None:
    told = Told()
    journal = opened(configured(tmp_path), told)
    for index in range(6):
        journal.append(Item(b"%d" % index * 1500), waits=True)
    told.wait(6)
    journal.close()
    live_segments(tmp_path)[2].unlink()
    with pytest.raises(CorruptJournal, match="its file is missing") as raised:
        opened(configured(tmp_path), told)
    assert raised.value.segment == 2
    journal = opened(configured(tmp_path, ignore_missing_journalfiles=True), told)
    assert read(journal) == told.bodies[:2] + told.bodies[4:]
    journal.close()


def test_a_file_of_another_journal_stops_it(tmp_path: Path) -> None:
    for name in ("one", "other"):
        journal = opened(configured(tmp_path / name), Told())
        for index in range(6):
            journal.append(Item(b"%d" % index * 1500), waits=True)
        journal.close()
    live_segments(tmp_path / "other")[2].replace(live_segments(tmp_path / "one")[2])
    with pytest.raises(CorruptJournal, match="belongs to another journal"):
        opened(configured(tmp_path / "one"), Told())


def test_lazy_writes_are_durable_after_a_sync_and_with_each_new_file(tmp_path: Path) -> None:
    class Counting(Files):
        syncs = 0

        def sync(self, file: int) -> None:
            self.syncs += 1
            super().sync(file)

    files, told = Counting(), Told()
    journal = opened(configured(tmp_path, journal_disk_sync_strategy="never"), told, files=files)
    before = files.syncs
    for _ in range(3):
        journal.append(Item(b"x"), waits=True)
    told.wait(3)
    assert files.syncs == before
    journal.sync()
    journal.sync()
    assert files.syncs == before + 1
    journal.append(Item(b"x"), waits=True)
    journal.append(Item(b"x" * 3500), waits=True)
    told.wait(5)
    assert len(live_segments(tmp_path)) == 2
    assert files.syncs >= before + 3
    journal.close()


def test_files_are_made_ahead_with_their_whole_size(tmp_path: Path) -> None:
    """Once the first is used: a journal with a few records has one file, and no thread for others."""
    size, told = 1 << 16, Told()
    options = {"preallocation_scope": "entire_journal", "journal_log_files": 3, "journal_log_file_size": size}
    journal = opened(configured(tmp_path, **options), told)
    journal.append(Item(b"few"), waits=True)
    told.wait(1)
    assert not preallocated(tmp_path)
    assert "jdbcstore-journal-files" not in [thread.name for thread in threading.enumerate()]
    journal.append(Item(b"x" * (size // 8)), waits=True)
    told.wait(2)
    wait_until(lambda: len(preallocated(tmp_path)) == 2)
    assert {path.stat().st_size for path in tmp_path.glob("*.log")} == {size}
    journal.close()


def test_only_the_padding_of_the_last_record_is_cut(tmp_path: Path) -> None:
    told = Told()
    journal = opened(configured(tmp_path), told)
    journal.append(Item(b"123"), waits=True)
    told.wait(1)
    path = live_segments(tmp_path)[1]
    whole = path.read_bytes()
    journal.close()
    path.write_bytes(whole[:-3])
    journal = opened(configured(tmp_path), told)
    assert journal.recovered.torn is None
    journal.append(Item(b"4"), waits=True)
    told.wait(2)
    assert read(journal) == [b"123", b"4"]
    journal.close()
