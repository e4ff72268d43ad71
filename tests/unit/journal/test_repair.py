"""What is damaged is told of, and mended: by leaving it out, or by ending there."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jdbcstore.errors import CorruptJournal, JournalInUse, StoreUnavailable
from jdbcstore.journal.directory import live_segments
from jdbcstore.journal.inspection import Damage, records, repair, segments
from jdbcstore.journal.layout import BLOCK, Record
from jdbcstore.testing.clock import FakeClock
from tests.support.journal.crashing import CrashingFiles
from tests.support.journal.entries import Item, Told, configured, opened

BODIES = [b"%03d" % index * 60 for index in range(60)]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Of a journal of four segments and sixty records, closed."""
    journal = opened(configured(tmp_path, journal_disk_sync_strategy="never"), Told())
    for body in BODIES:
        journal.append(Item(body), waits=True)
    journal.close()
    assert [*live_segments(tmp_path)] == [1, 2, 3, 4]
    return tmp_path


def look(directory: Path) -> tuple[list[int], list[Damage]]:
    found = list(records(directory))
    for one in found:
        assert not isinstance(one, Record) or one.body == BODIES[one.number - 1]
    return (
        [one.number for one in found if isinstance(one, Record)],
        [one for one in found if isinstance(one, Damage)],
    )


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x10
    path.write_bytes(data)


def test_nothing_is_wrong_with_a_whole_one(directory: Path) -> None:
    assert look(directory) == ([*range(1, 61)], [])
    done = repair(directory)
    assert (done.damages, done.copies, done.records) == ([], None, 60)
    listed = segments(directory)
    assert [file.number for file in listed] == [1, 2, 3, 4]
    assert all(file.header and not file.problem and not file.kept for file in listed)


def flips(*places: tuple[int, int]) -> Callable[[Path], None]:
    def spoil(directory: Path) -> None:
        for segment, offset in places:
            flip(live_segments(directory)[segment], offset)

    return spoil


def cuts(segment: int, size: int) -> Callable[[Path], None]:
    return lambda directory: os.truncate(live_segments(directory)[segment], size)


SOMEWHERE: dict[str, tuple[Callable[[Path], None], list[int]]] = {
    "body": (flips((2, BLOCK + 100)), [17]),
    "length": (flips((2, BLOCK + 224 + 6)), [18]),
    "two": (flips((1, BLOCK + 9), (3, 1000)), [1, 35]),
    "last of a file": (flips((1, BLOCK + 15 * 224 + 50)), [16]),
    "header": (flips((3, 20)), []),
    "first header": (flips((1, 20)), []),
    "header and first": (flips((3, 20), (3, BLOCK + 3)), [33]),
    "a file gone": (lambda directory: live_segments(directory)[2].unlink(), [*range(17, 33)]),
    "cut in the middle": (cuts(2, 2000), [*range(23, 33)]),
    "nothing of a file": (cuts(2, 0), [*range(17, 33)]),
    "in the last": (flips((4, BLOCK + 300)), [50]),
}


@pytest.mark.parametrize("where", SOMEWHERE)
def test_what_is_behind_the_damage_is_saved(directory: Path, where: str) -> None:
    spoil, lost = SOMEWHERE[where]
    spoil(directory)
    before = {path.name: path.read_bytes() for path in directory.glob("*.log")}
    with pytest.raises(CorruptJournal):
        opened(configured(directory), Told())
    _, damages = look(directory)
    assert damages
    assert not any(damage.torn for damage in damages)
    assert {path.name: path.read_bytes() for path in directory.glob("*.log")} == before

    done = repair(directory)
    kept = [number for number in range(1, 61) if number not in lost]
    assert look(directory) == (kept, [])
    assert done.records == len(kept)
    assert done.damages[: len(damages)] == damages
    if done.copies is not None:
        for copy in done.copies.iterdir():
            assert copy.read_bytes() == before[copy.name]
    told = Told()
    journal = opened(configured(directory), told)
    assert [record.number for record in journal.log.records(0)] == kept
    assert journal.log.last_sequence == 60
    journal.append(Item(b"more"), waits=True)
    told.wait(1)
    journal.close()
    assert repair(directory).damages == []


@pytest.mark.parametrize("where", SOMEWHERE)
def test_or_it_is_cut_there(directory: Path, where: str) -> None:
    spoil, lost = SOMEWHERE[where]
    spoil(directory)
    done = repair(directory, cut=True)
    assert done.copies is not None
    numbers, damages = look(directory)
    assert damages == []
    assert numbers == [*range(1, len(numbers) + 1)]
    assert not set(numbers) & set(lost)
    journal = opened(configured(directory), Told())
    assert [record.number for record in journal.log.records(0)] == numbers
    journal.close()


def test_a_torn_end_is_no_loss(directory: Path) -> None:
    path = live_segments(directory)[4]
    path.write_bytes(path.read_bytes()[:-50])
    numbers, [damage] = look(directory)
    assert damage.torn
    assert damage.lost == 0
    assert damage.number == 60
    assert numbers == [*range(1, 60)]
    assert repair(directory).damages == [damage]
    assert look(directory) == (numbers, [])


def test_an_open_one_is_not_repaired_but_can_be_read(directory: Path) -> None:
    journal = opened(configured(directory), Told())
    with pytest.raises(JournalInUse):
        repair(directory)
    assert look(directory) == ([*range(1, 61)], [])
    journal.close()


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("where", ["two", "a file gone", "header and first", "cut in the middle"])
def test_a_repair_can_be_stopped_anywhere_and_done_again(
    directory: Path, tmp_path: Path, where: str, cut: bool
) -> None:
    SOMEWHERE[where][0](directory)
    state = {path.name: path.read_bytes() for path in directory.glob("journal-*.log")}
    clock = FakeClock()
    expected: list[int] | None = None
    for stop_at in itertools.count():
        root = tmp_path / f"stopped-{stop_at}"
        root.mkdir()
        files = CrashingFiles(root, state, None if expected is None else stop_at - 1)
        try:
            repair(root, cut=cut, files=files, clock=clock)
        except StoreUnavailable:
            assert files.down
        repair(root, cut=cut, clock=clock)
        numbers, damages = look(root)
        assert damages == []
        expected = numbers if expected is None else expected
        assert numbers == expected
        for path in root.glob("damaged-*/*"):
            assert path.read_bytes() == state[path.name]
        if expected is not None and stop_at and not files.down:
            break
