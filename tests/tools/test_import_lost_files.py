"""Each file of each kind of store is emptied, cut at its end, or missing: what is lost is named."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

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


def _emptied(_content: bytes) -> bytes:
    return b""


def _halved(content: bytes) -> bytes:
    return content[: _used(content) // 2]


def _cut(content: bytes) -> bytes:
    return content[: _used(content) - 8]


def _used(content: bytes) -> int:
    """Return the size of what was written, without what was allocated beyond it."""
    return max(len(content.rstrip(b"\0J")), 8)


CHANGES: dict[str, Callable[[bytes], bytes] | None] = {
    "emptied": _emptied,
    "halved": _halved,
    "cut at its end": _cut,
    "missing": None,
}


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


def _is_known(path: Path, files: list[Path]) -> bool:
    """Return whether anything tells that a missing file was there.

    Artemis removes files of its journal that it does not need, in any order, and the first and last pages.
    """
    beside = [one for one in files if one.parent == path.parent and one.suffix == path.suffix]
    if path.suffix == ".page":
        return path not in (beside[0], beside[-1])
    return path.suffix not in (".amq", ".bindings")


@pytest.mark.parametrize("store", STORES)
def test_what_a_file_has_lost_is_named(store: str, tmp_path: Path) -> None:
    unpack, names = STORES[store]
    unpack(tmp_path)
    whole = Found(tmp_path)
    assert whole.rows
    files = sorted(path for path in tmp_path.rglob("*") if path.is_file() and re.fullmatch(names, path.name))
    aside = tmp_path.with_name("aside")
    silent = []
    for path in files:
        for name, change in CHANGES.items():
            content = path.read_bytes()
            if change is None and not _is_known(path, files):
                continue
            if not content or (change is not None and change(content) == content):
                continue
            shutil.copy2(path, aside)
            if change is None:
                path.unlink()
            else:
                path.write_bytes(change(content))
            found = Found(tmp_path)
            shutil.copy2(aside, path)
            if found.rows != whole.rows and not found.said - whole.said:
                lost, more = (whole.rows - found.rows).total(), (found.rows - whole.rows).total()
                silent.append(f"{path.relative_to(tmp_path)} {name}: {lost} lost, {more} others")
    assert len(files) > 1
    assert not silent, "\n".join(silent)
