"""Segments that are needed no more are kept for a time, or up to a size, or in an archive."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.journal.directory import live_segments, preallocated
from jdbcstore.journal.inspection import kept, records, records_of
from jdbcstore.journal.layout import Record
from jdbcstore.journal.log import Journal
from jdbcstore.testing.clock import FakeClock
from tests.support.journal.entries import Item, Told, configured, opened
from tests.support.journal.faulty_files import FaultyFiles, raises


def fill(journal: Journal, told: Told, count: int) -> None:
    """So many segments more, whole."""
    before = len(told.written)
    for index in range(3 * count):
        journal.append(Item(b"%04d" % (before + index) * 250), waits=True)
    told.wait(before + 3 * count)


def numbers_kept(directory: Path) -> list[int]:
    found = []
    for file in kept(directory):
        assert file.kept is not None
        assert file.header is not None
        read = [one.number for one in records_of(file) if isinstance(one, Record)]
        assert read == [*range(file.kept.first_number, file.kept.last_number + 1)]
        found += read
    return found


def test_without_it_they_are_used_again(tmp_path: Path) -> None:
    told = Told()
    journal = opened(configured(tmp_path, preallocation_scope="entire_journal"), told)
    fill(journal, told, 4)
    journal.log.release(12)
    assert kept(tmp_path) == []
    assert len(preallocated(tmp_path)) == 1
    journal.close()


@pytest.mark.parametrize("archive", [None, "archive"])
def test_they_are_kept_for_a_time(tmp_path: Path, archive: str | None) -> None:
    place = tmp_path / archive if archive else tmp_path
    clock, told = FakeClock(), Told()
    options: dict[str, Any] = {"journal_archive_directory": str(place)} if archive else {}
    config = configured(tmp_path, journal_retention=130.0, **options)
    journal = opened(config, told, clock=clock)
    begin = clock.now_ms()
    for _ in range(5):
        fill(journal, told, 1)
        clock.advance(40)
    journal.log.release(12)
    first = [file.kept for file in kept(place)]
    assert [(one.first_number, one.last_number) for one in first if one] == [(4, 6), (7, 9), (10, 12)]
    assert [(one.first_time - begin, one.last_time - begin) for one in first if one] == [
        (40_000, 80_000),
        (80_000, 120_000),
        (120_000, 160_000),
    ]
    assert numbers_kept(place) == [*range(4, 13)]
    assert [one.number for one in records(tmp_path) if isinstance(one, Record)] == [13, 14, 15]
    clock.advance(30)
    journal.log.release(12)
    assert numbers_kept(place) == [*range(7, 13)]
    journal.close()
    clock.advance(50)
    opened(config, told, clock=clock).close()
    assert numbers_kept(place) == [10, 11, 12]


def test_they_are_kept_up_to_a_size(tmp_path: Path) -> None:
    told = Told()
    config = configured(tmp_path, preallocation_scope="entire_journal", journal_retention_size=10_000)
    journal = opened(config, told)
    fill(journal, told, 6)
    journal.log.release(18)
    assert numbers_kept(tmp_path) == [*range(10, 16)]
    journal.close()


def test_an_archive_has_no_end(tmp_path: Path) -> None:
    told = Told()
    config = configured(tmp_path / "journal", journal_archive_directory=str(tmp_path / "archive"))
    journal = opened(config, told)
    fill(journal, told, 9)
    journal.log.release(27)
    assert numbers_kept(tmp_path / "archive") == [*range(1, 25)]
    assert len(live_segments(tmp_path / "journal")) == 1
    journal.close()


def test_an_archive_may_be_on_another_disk(tmp_path: Path) -> None:
    other = Path("/dev/shm")  # noqa: S108
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is one file system here")
    archive = other / f"jdbcstore-archive-{tmp_path.parent.name}-{tmp_path.name}"
    told = Told()
    config = configured(tmp_path, journal_archive_directory=str(archive))
    journal = opened(config, told)
    try:
        fill(journal, told, 4)
        journal.log.release(12)
        assert numbers_kept(archive) == [*range(1, 10)]
        assert [*live_segments(tmp_path)] == [4]
    finally:
        journal.close()
        for file in archive.iterdir():
            file.unlink()
        archive.rmdir()


class OtherDisk(FaultyFiles):
    """Nothing can be renamed from one directory to another."""

    def rename(self, source: Path, target: Path) -> None:
        if source.parent != target.parent:
            raise OSError(errno.EXDEV, "another file system")
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        self._do("remove")
        super().remove(path)


@pytest.mark.parametrize("left_over", [False, True], ids=["removed", "left over"])
def test_an_archive_that_was_full_once_is_used_again(tmp_path: Path, left_over: bool) -> None:
    archive = tmp_path / "archive"
    files, told = OtherDisk(), Told()
    config = configured(tmp_path / "journal", journal_archive_directory=str(archive))
    journal = opened(config, told, files=files)
    fill(journal, told, 4)
    files.before["write"] = raises(errno.ENOSPC)
    files.before["remove"] = raises(*[errno.EROFS] * left_over)
    journal.log.release(12)
    assert kept(archive) == []
    assert [one.suffix for one in archive.iterdir()] == ([".tmp"] if left_over else [])
    files.before = {}

    journal.log.release(12)

    assert numbers_kept(archive) == [*range(1, 10)]
    assert [*live_segments(tmp_path / "journal")] == [4]
    assert [one.suffix for one in archive.iterdir()] == [".log"] * 3
    journal.close()


def test_what_was_kept_long_enough_makes_room_in_a_full_archive(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    clock, files, told = FakeClock(), OtherDisk(), Told()
    config = configured(tmp_path / "journal", journal_archive_directory=str(archive), journal_retention=100.0)
    journal = opened(config, told, clock=clock, files=files)
    fill(journal, told, 3)
    journal.log.release(6)
    assert numbers_kept(archive) == [*range(1, 7)]
    clock.advance(200)

    def full_with_them() -> None:
        if kept(archive):
            raise OSError(errno.ENOSPC, "no space left on device")

    fill(journal, told, 2)
    files.before = {"create": full_with_them}
    journal.log.release(12)

    assert numbers_kept(archive) == [*range(7, 10)]
    journal.close()
