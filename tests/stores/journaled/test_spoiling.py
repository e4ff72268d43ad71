"""See ``spoiling``; ``python -m tests.long.journal`` is the long run."""

from __future__ import annotations

from pathlib import Path

from tests.support.journaled.spoiling import spoil_many
from tests.unit.journal.conftest import folder

__all__ = ["folder"]


def test_what_is_acknowledged_behind_any_damage_stays(folder: Path) -> None:
    ends = spoil_many(folder, 1, 80)
    assert {end.split()[0] for end in ends} == {"opened", "repaired"}
    assert len(ends) >= 6
