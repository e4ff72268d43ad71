"""Each file of each kind of store that an import reads, changed in one place, and what is said of that."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from jdbcstore.tools.importing.kahadb.logs import END
from jdbcstore.tools.importing.kinds import open_source
from jdbcstore.tools.importing.source import NothingToImport
from tests.support.importing import artemis_recorded, olds_recorded, recorded

STORES: dict[str, tuple[Callable[[Path], object], str]] = {
    **{
        f"kahadb-{version}": (partial(recorded.unpack, version), r"db-\d+\.log")
        for version in recorded.VERSIONS
    },
    **{
        f"{kind}-{version}": (partial(olds_recorded.unpack, kind, version), names)
        for kind, names in (("amq", r"data-\d+"), ("leveldb", r".*\.log"))
        for version in olds_recorded.VERSIONS[kind]
    },
    "artemis": (partial(artemis_recorded.unpack, "files"), r".*\.(amq|bindings|page|msg)"),
}
"""What unpacks a store, and the names of the files that have its messages."""
WITHOUT_CHECKSUMS = ("amq", "artemis")


class Found:
    """The messages of a store, and what is said of it."""

    def __init__(self, folder: Path) -> None:
        self.rows: Counter[tuple[object, ...]] = Counter()
        self.said: set[str] = set()
        try:
            with open_source(str(folder)) as source:
                for page in source.messages():
                    self.rows.update(row[1:] for row in page)
                self.said = {*map(str, source.findings.damages), *source.findings.notes}
        except NothingToImport as error:
            self.said = {str(error)}

    @property
    def names(self) -> Counter[tuple[object, ...]]:
        """The messages without their contents: destination, producer and number."""
        names: Counter[tuple[object, ...]] = Counter()
        for row, count in self.rows.items():
            names[row[:3]] += count
        return names


class RecordedStore:
    """A store that a real broker has written, and that is read again with one of its files changed."""

    def __init__(self, name: str, folder: Path) -> None:
        unpack, names = STORES[name]
        unpack(folder)
        self.folder = folder
        self.has_checksums = not name.startswith(WITHOUT_CHECKSUMS)
        self.whole = Found(folder)
        paths = sorted(folder.rglob("*"))
        self.files = [path for path in paths if path.is_file() and re.fullmatch(names, path.name)]

    def without(self, path: Path, changed: bytes | None) -> Found:
        """Return what is found with this content of a file, or without the file."""
        aside = self.folder.with_name("aside")
        shutil.copy2(path, aside)
        if changed is None:
            path.unlink()
        else:
            path.write_bytes(changed)
        found = Found(self.folder)
        shutil.copy2(aside, path)
        return found

    def silence(self, found: Found) -> str | None:
        """Return what has been lost or added without a line; None if nothing has."""
        before, now = self.whole.rows, found.rows
        if now == before or found.said - self.whole.said or self.is_inside(found):
            return None
        return f"{(before - now).total()} lost, {(now - before).total()} others"

    def is_inside(self, found: Found) -> bool:
        """Return whether only contents of messages have changed, and nothing shows that."""
        return found.names == self.whole.names and bool(found.rows) and not self.has_checksums

    def is_known(self, path: Path) -> bool:
        """Return whether anything tells that a missing file was there.

        Artemis removes files of its journal that it does not need, in any order, and pages at both ends.
        """
        beside = [one for one in self.files if one.parent == path.parent and one.suffix == path.suffix]
        if path.suffix == ".page":
            return path not in (beside[0], beside[-1])
        return path.suffix not in (".amq", ".bindings")


def used(content: bytes) -> int:
    """Return the size of what was written, without what was allocated beyond it."""
    return max(len(content.rstrip(b"\0J").removesuffix(END).rstrip(b"\0J")), 8)


def changes(content: bytes, step: int) -> Iterator[tuple[str, bytes]]:
    """Yield a file's contents that are cut, or lack a piece or have zeros in its place, at each place."""
    end = used(content)
    for at in range(0, end, step):
        yield f"cut at {at} of {end}", content[:at]
        yield f"without {step} bytes at {at} of {end}", content[:at] + content[at + step :]
        yield f"zeros at {at} of {end}", content[:at] + bytes(min(step, end - at)) + content[at + step :]
