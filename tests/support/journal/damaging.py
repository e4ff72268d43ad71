"""Files of a journal with something wrong in them, and what reading them may give."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from crc32c import crc32c

from jdbcstore.errors import CorruptJournal
from jdbcstore.journal.directory import live_segments, segment_path
from jdbcstore.journal.inspection import Damage, records
from jdbcstore.journal.layout import BLOCK, HEAD, RECORD, Record, SegmentHeader, Stamp, space
from jdbcstore.journal.recovery import recover
from tests.support.journal.entries import Item, Told, configured, opened

Files = Mapping[str, bytes]


def written(directory: Path, bodies: Iterable[bytes]) -> Files:
    """A journal of these, closed; its segments."""
    journal = opened(configured(directory, journal_disk_sync_strategy="never"), Told())
    for body in bodies:
        journal.append(Item(body), waits=True)
    journal.close()
    return {path.name: path.read_bytes() for path in live_segments(directory).values()}


def spoilt(directory: Path, name: str, data: bytes, bodies: list[bytes]) -> str:
    """Read a journal, one file of which is as given: what it ends as, having asserted that it may."""
    (directory / name).write_bytes(data)
    damages = []
    numbers = []
    for found in records(directory):
        if isinstance(found, Damage):
            damages.append(found)
        else:
            assert found.body == bodies[found.number - 1]
            numbers.append(found.number)
    assert numbers == sorted(set(numbers))
    torn = [damage for damage in damages if damage.torn]
    assert torn == damages[len(damages) - len(torn) :]
    try:
        recovered = recover(directory)
    except CorruptJournal as error:
        place = error.segment
    else:
        place = 0
    if place:
        assert len(damages) > len(torn)
        assert place == damages[0].segment
        return "detected"
    assert len(damages) == len(torn)
    assert (recovered.torn is not None) == bool(torn)
    assert numbers == [*range(1, len(numbers) + 1)]
    assert recovered.segments[-1].last_number >= len(numbers)
    return "whole" if len(numbers) == len(bodies) else "shorter"


def every_cut(name: str, data: bytes, step: int = 1) -> Iterator[tuple[str, bytes]]:
    for size in range(0, len(data), step):
        yield name, data[:size]


def every_flip(name: str, data: bytes, bits: Iterable[int]) -> Iterator[tuple[str, bytes]]:
    for bit in bits:
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        yield name, bytes(flipped)


class Fuzz:
    """Segments of nonsense, some of it with the right marker, or even the right checksum."""

    def __init__(self, directory: Path, seed: int) -> None:
        self._chance = random.Random(seed)
        self._directory = directory
        self._path = segment_path(directory, 1)
        self._header = SegmentHeader(7, 1, 1, 1, 0)
        self._stamp = Stamp.of(self._header)
        self.read = 0
        self.damages = 0

    def measure(self, count: int) -> int:
        """So many inputs; the most bytes that reading one needed."""
        tracemalloc.start()
        try:
            self.run(count)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    def run(self, count: int) -> None:
        for _ in range(count):
            self._path.write_bytes(self.segment())
            for found in records(self._directory):
                if isinstance(found, Record):
                    self.read += 1
                    assert found.kind
                else:
                    self.damages += 1
            try:
                recover(self._directory)
            except CorruptJournal:
                self.damages += 1

    def segment(self) -> bytes:
        chance = self._chance
        if chance.random() < 0.05:
            return chance.randbytes(chance.randrange(2000))
        data = bytearray(self._header.pack())
        number = 1
        for _ in range(chance.randrange(6)):
            data += self.record(number)
            number += 1
        data += chance.choice((b"", bytes(200), chance.randbytes(100)))
        for _ in range(chance.choice((0, 0, 1, 3))):
            self.mutate(data)
        return bytes(data)

    def record(self, number: int) -> bytes:
        """A right one, or one that has the right checksum for what is not right at all."""
        chance = self._chance
        body = chance.randbytes(chance.randrange(60))
        fields = [len(body), self._stamp.marker, number, 1, 1, 0, 0, number, number]
        if chance.random() < 0.3:
            sizes = (32, 32, 32, 32, 8, 8, 16, 64, 64)
            index = chance.randrange(len(fields))
            fields[index] = chance.choice(
                (0, 1, 2 ** sizes[index] - 1, 2 ** (sizes[index] - 1), chance.randrange(2 ** sizes[index]))
            )
        head = struct.pack(HEAD.format.replace("<I", "<", 1), *fields)
        crc = crc32c(body, crc32c(head, self._stamp.seed))
        return (struct.pack("<I", crc) + head + body).ljust(space(len(body)), b"\0")

    def mutate(self, data: bytearray) -> None:
        chance = self._chance
        at = chance.randrange(len(data))
        match chance.randrange(5):
            case 0:
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                del data[at:]
            case 2:
                del data[at : at + chance.randrange(100)]
            case 3:
                data[at:at] = chance.randbytes(chance.randrange(50))
            case _:
                other = chance.randrange(len(data))
                data[at : at + 64] = data[other : other + 64]
        if not data:
            data += b"\0"


def claims(path: Path, length: int, size: int) -> None:
    """A segment whose one record says that it is so long, in a file of such a size, with holes."""
    header = SegmentHeader(7, 1, 1, 1, 0)
    head = HEAD.pack(0, length, Stamp.of(header).marker, 1, 1, 1, 0, 0, 1, 1)
    assert len(head) == RECORD
    with path.open("wb") as file:
        file.write(header.pack()[:BLOCK] + head)
        file.truncate(size)


BODIES = [bytes([65 + index]) * (60 * index + 3) for index in range(11)]
