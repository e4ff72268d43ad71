"""Each file of a store is emptied, cut, without a piece, zeros, or missing: what is lost is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jdbcstore.tools.importing.artemis.journal import JournalReader
from tests.support.importing.lost import STORES, RecordedStore, used

CHANGES: dict[str, Callable[[bytes], bytes] | None] = {
    "emptied": lambda _: b"",
    "halved": lambda content: content[: used(content) // 2],
    "cut at its end": lambda content: content[: used(content) - 8],
    "without its middle": lambda content: content[: used(content) // 3] + content[used(content) // 2 :],
    "zeros": lambda content: bytes(len(content)),
    "missing": None,
}


@pytest.mark.parametrize("name", STORES)
def test_what_a_file_has_lost_is_named(name: str, tmp_path: Path) -> None:
    store = RecordedStore(name, tmp_path)
    assert store.whole.rows
    silent = []
    for path in store.files:
        content = path.read_bytes()
        for what, change in CHANGES.items():
            if change is None and not store.is_known(path):
                continue
            changed = None if change is None else change(content)
            if not content or changed == content:
                continue
            lost = store.silence(store.without(path, changed))
            if lost is not None:
                silent.append(f"{path.relative_to(tmp_path)} {what}: {lost}")
    assert len(store.files) > 1
    assert not silent, "\n".join(silent)


def test_a_journal_of_artemis_that_is_cut_between_records_is_named(tmp_path: Path) -> None:
    """The broker gives each file the same size before it writes to it."""
    store = RecordedStore("artemis", tmp_path)
    for path in [one for one in store.files if one.name.startswith("activemq-data-")][:4]:
        content = path.read_bytes()
        ends = [record.offset + record.size for record, _ in JournalReader(path, lambda *_: None).records()]
        for end in ends[:-1:29]:
            assert store.silence(store.without(path, content[:end])) is None, f"{path.name} at {end}"
