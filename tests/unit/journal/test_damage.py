"""Whatever is wrong in a file: never a wrong record, and never more memory than what is right in it."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

from jdbcstore.journal.directory import segment_path
from jdbcstore.journal.inspection import Damage, records
from jdbcstore.journal.layout import BLOCK
from tests.support.journal.damaging import BODIES, Fuzz, claims, every_cut, every_flip, spoilt, written

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("segment", [1, 2])
def test_flipped_bits(folder: Path, segment: int) -> None:
    files = written(folder, BODIES)
    assert len(files) == 2
    name = segment_path(folder, segment).name
    data = files[name]
    chance = random.Random(segment)
    bits = [8 * byte + chance.randrange(8) for byte in range(0, len(data), 2)]
    ends = Counter(spoilt(folder, *it, BODIES) for it in every_flip(name, data, bits))
    assert ends["shorter"] == 0
    assert ends["detected"] > len(bits) * 0.5


@pytest.mark.parametrize("segment", [1, 2])
def test_cut_at_every_byte(folder: Path, segment: int) -> None:
    files = written(folder, BODIES)
    name = segment_path(folder, segment).name
    ends = Counter(spoilt(folder, *it, BODIES) for it in every_cut(name, files[name], 3))
    assert ends["whole"] < 20
    assert ends["detected" if segment == 1 else "shorter"] > 200


def test_nonsense(folder: Path) -> None:
    fuzz = Fuzz(folder, 1)
    assert fuzz.measure(1_000) < 8 << 20
    fuzz.run(19_000)
    assert fuzz.read > 10_000
    assert fuzz.damages > 10_000


@pytest.mark.parametrize("length", [2**32 - 1, 40 << 20])
@pytest.mark.parametrize("size", [4096, 50 << 20])
def test_what_a_length_claims_is_not_believed(folder: Path, length: int, size: int) -> None:
    claims(segment_path(folder, 1), length, size)
    tracemalloc.start()
    try:
        [damage] = records(folder)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert isinstance(damage, Damage)
    assert damage.torn
    assert damage.offset == BLOCK
