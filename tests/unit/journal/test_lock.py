"""Who has a journal's folder keeps everybody else out, or learns that he does not any more."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from jdbcstore.errors import JournalFailed, JournalInUse
from jdbcstore.journal.directory import LOCK, DirectoryLock
from tests.support.journal.entries import Item, Told, configured, opened


def in_another_process(do: Callable[[], None]) -> bool:
    """Whether it was done without a JournalInUse."""
    child = os.fork()
    if not child:
        code = 2
        try:
            do()
            code = 0
        except (JournalInUse, BlockingIOError):
            code = 1
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in (0, 1)
    return not status


def test_to_copy_the_folder_does_not_let_others_in(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    journal = opened(configured(folder), Told())

    def lock() -> None:
        file = os.open(folder / LOCK, os.O_RDWR)
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    assert not in_another_process(lock)

    shutil.copytree(folder, tmp_path / "copy")
    (folder / LOCK).read_bytes()

    assert not in_another_process(lock)
    journal.close()
    assert in_another_process(lock)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_removed_lock_file_stops_writes(tmp_path: Path, replaced: bool) -> None:
    told = Told()
    journal = opened(configured(tmp_path), told)
    journal.append(Item(b"first"), waits=True)
    (tmp_path / LOCK).unlink()
    if replaced:

        def write() -> None:
            other = opened(configured(tmp_path), Told())
            other.append(Item(b"of another"), waits=True)
            other.close()

        assert in_another_process(write)

    with pytest.raises(JournalInUse):
        opened(configured(tmp_path), Told())
    journal.append(Item(b"second"), waits=True)
    told.wait(2)
    [(entry, error)] = told.failed
    assert (entry.chunks[0], isinstance(error, JournalFailed)) == (b"sec", True)
    assert "removed or replaced" in str(error)
    with pytest.raises(JournalFailed):
        journal.sync()
    journal.close()

    journal = opened(configured(tmp_path), Told())
    expected = [b"first", b"of another"] if replaced else [b"first"]
    assert [record.body for record in journal.log.records(0)] == expected
    journal.close()


def test_a_forked_process_does_not_keep_it(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    reading, writing = os.pipe()
    began, begins = os.pipe()
    child = os.fork()
    if not child:
        os.close(writing)
        os.write(begins, b"!")
        os.read(reading, 1)
        os._exit(0)
    try:
        assert os.read(began, 1)
        lock.release()
        DirectoryLock(tmp_path).release()
    finally:
        for file in (writing, reading, began, begins):
            os.close(file)
        os.waitpid(child, 0)
