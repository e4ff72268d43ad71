"""Opening, examining and repairing agree about two files whose records overlap, are lost, or are damaged."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from crc32c import crc32c

from jdbcstore.errors import CorruptJournal
from jdbcstore.journal.directory import segment_path
from jdbcstore.journal.inspection import Damage, records, repair
from jdbcstore.journal.layout import FIELDS, GAP, SegmentHeader, Stamp
from jdbcstore.journal.recovery import recover

RECORD, DAMAGED = "R", "X"
Written = tuple[str, int]
"""What is written, a record, a damaged one or a gap, and its number."""


def write(folder: Path, segment: int, first: int, content: Sequence[Written]) -> None:
    header = SegmentHeader(77, segment, first, 1, 1)
    stamp = Stamp.of(header)
    data = header.pack()
    for what, number in content:
        body, kind = (b"", GAP) if what == "G" else (b"four more", 1)
        head = FIELDS.pack(len(body), stamp.marker, 1, int(kind == 1), kind, 0, 0, number, number)
        crc = crc32c(body, crc32c(head, stamp.seed)) ^ (what == DAMAGED)
        data += crc.to_bytes(4, "little") + head + body + bytes(-len(body) & 7)
    segment_path(folder, segment).write_bytes(data)


def examined(folder: Path) -> tuple[list[int], list[Damage]]:
    found = [*records(folder)]
    damages = [one for one in found if isinstance(one, Damage)]
    return [one.number for one in found if not isinstance(one, Damage)], damages


def opened(folder: Path) -> list[int]:
    return [record.number for record in recover(folder).records(0)]


def two_files() -> Iterator[tuple[Sequence[Written], int, Sequence[Written]]]:
    """Every first file of up to two records, and a second one that begins with any of their numbers."""
    for size in range(3):
        for numbers in itertools.combinations(range(1, 4), size):
            for kinds in itertools.product("RGX", repeat=size):
                before = [*zip(kinds, numbers, strict=True)]
                for first in range(1, 5):
                    for then in ("", "R", "G", "X", "RR", "XR"):
                        yield before, first, [(what, first + index) for index, what in enumerate(then)]
                    yield before, first, [("G", first + 1)]


@pytest.mark.slow
def test_they_agree_on_any_two_files_and_a_repair_keeps_what_it_can(folder: Path) -> None:
    for before, first, content in two_files():
        what = f"{before}, and from {first} on {content}"
        write(folder, 1, 1, before)
        write(folder, 2, first, content)
        numbers, damages = examined(folder)
        assert numbers == sorted({*numbers}), what
        wrong = [damage for damage in damages if not damage.torn]
        if wrong:
            with pytest.raises(CorruptJournal):
                opened(folder)
        else:
            assert opened(folder) == numbers, what
        done = repair(folder)
        left, damages = examined(folder)
        assert not damages, what
        assert opened(folder) == left, what
        # Of two copies nobody knows which one is right.
        is_copied = any("older copy" in damage.reason for damage in done.damages)
        assert left == numbers or is_copied, what


@pytest.mark.parametrize("reaches", [2, 3, 4, 9])
def test_a_gap_that_reaches_into_the_next_file_is_made_to_fit(tmp_path: Path, reaches: int) -> None:
    write(tmp_path, 1, 1, [(RECORD, 1), ("G", reaches)])
    write(tmp_path, 2, 3, [(RECORD, 3), (RECORD, 4), (RECORD, 5)])
    numbers, damages = examined(tmp_path)
    assert numbers == [1, 3, 4, 5]
    if reaches == 2:
        assert opened(tmp_path) == numbers
        assert not damages
        return
    with pytest.raises(CorruptJournal, match="jdbcstore journal check"):
        opened(tmp_path)
    [damage] = damages
    assert (damage.segment, damage.number, damage.next_number, damage.lost) == (1, 2, 3, 1)
    assert "reaches into the next file, which begins with 3" in damage.reason
    assert repair(tmp_path).damages == [damage]
    assert examined(tmp_path) == (numbers, [])
    assert opened(tmp_path) == numbers


def test_a_gap_of_records_that_the_next_file_has_is_removed(tmp_path: Path) -> None:
    write(tmp_path, 1, 1, [(RECORD, 1), (RECORD, 2), ("G", 4)])
    write(tmp_path, 2, 3, [(RECORD, 3), (RECORD, 4)])
    [damage] = repair(tmp_path).damages
    assert (damage.segment, damage.number, damage.lost) == (1, 3, 0)
    assert opened(tmp_path) == [1, 2, 3, 4]


def test_a_record_in_the_place_of_another_is_lost_with_it(tmp_path: Path) -> None:
    write(tmp_path, 1, 1, [(RECORD, 1), (RECORD, 3), (RECORD, 4)])
    [damage] = repair(tmp_path).damages
    assert (damage.number, damage.next_number, damage.lost) == (2, 4, 2)
    assert opened(tmp_path) == [1, 4]
