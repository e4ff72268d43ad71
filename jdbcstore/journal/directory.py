"""The files of a journal's directory, by their names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from jdbcstore.journal.layout import SegmentHeader
from jdbcstore.util.files import UNFINISHED

LOCK = "journal.lock"
_SEGMENT = re.compile(r"journal-(\d{10,20})\.log")
_SPARE = re.compile(r"spare-(\d+)\.log")
_KEPT = re.compile(r"kept-([0-9a-f]{16})-(\d{10,20})-(\d+)-(\d+)-(\d+)-(\d+)\.log")


def segment_path(directory: Path, number: int) -> Path:
    return directory / f"journal-{number:010}.log"


def spare_path(directory: Path, number: int) -> Path:
    """A file that is ready to become a segment."""
    return directory / f"spare-{number}.log"


def unfinished_path(directory: Path, number: int) -> Path:
    """A file that is being made, and is nothing until it has another name."""
    return directory / f"spare-{number}{UNFINISHED}"


class Kept(NamedTuple):
    """A segment that the journal needs no more, kept for what was in it. All of it is in the file's name."""

    path: Path
    journal: int
    number: int
    first_number: int
    last_number: int
    """Of its records; before the first if it has none."""
    first_time: int
    """Epoch milliseconds, between which its records were written."""
    last_time: int

    @property
    def size(self) -> int:
        return self.path.stat().st_size


def kept_path(directory: Path, header: SegmentHeader, *, last_number: int, last_time: int) -> Path:
    return directory / (
        f"kept-{header.journal:016x}-{header.number:010}-{header.first_number}-{last_number}"
        f"-{header.created}-{last_time}.log"
    )


def live_segments(directory: Path) -> dict[int, Path]:
    """The journal's segments by their numbers, ascending."""
    found = {int(match[1]): path for path, match in _matching(directory, _SEGMENT)}
    return dict(sorted(found.items()))


def spares(directory: Path) -> dict[int, Path]:
    return {int(match[1]): path for path, match in _matching(directory, _SPARE)}


def kept_segments(directory: Path) -> list[Kept]:
    """Those that were kept, the oldest first."""
    found = [
        Kept(path, int(match[1], 16), *(int(match[group]) for group in range(2, 7)))
        for path, match in _matching(directory, _KEPT)
    ]
    return sorted(found, key=lambda kept: (kept.first_time, kept.number))


def unfinished(directory: Path) -> list[Path]:
    return [path for path in directory.iterdir() if path.name.endswith(UNFINISHED)]


def _matching(directory: Path, pattern: re.Pattern[str]) -> Iterator[tuple[Path, re.Match[str]]]:
    for path in directory.iterdir():
        if match := pattern.fullmatch(path.name):
            yield path, match
