"""A journal that lives, crashes and is opened again, many times."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jdbcstore.errors import StoreError
from jdbcstore.journal.log import Journal
from tests.support.journal.crashing import (
    CrashingFiles,
    State,
)
from tests.support.journal.entries import Item, configured
from tests.support.journal.witness import JOURNAL, Witness, closed


def body(index: int) -> bytes:
    return (b"%04d " % index) * 180


def appends_and_releases(witness: Witness, reopen: Callable[[], Journal]) -> None:
    """Three segments, two of which are released and used again, and a second opening."""
    journal = reopen()
    for index in range(8):
        witness.append(journal, Item(body(index)))
    witness.release(journal, 5)
    for index in range(8, 13):
        witness.append(journal, Item(body(index)))
    journal = reopen()
    witness.append(journal, Item(b"tiny"))
    witness.release(journal, journal.log.last_number)
    for index in range(13, 15):
        witness.append(journal, Item(body(index)))


def few_cuts(size: int) -> Sequence[int]:
    return [cut for cut in (1, 39, 41, size - 1) if 0 < cut < size]


class Machine:
    """Runs a history on one disk after the other."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self._folder = folder
        self._options = options
        self._count = 0
        self.states = 0

    def place(self) -> Path:
        self._count += 1
        place = self._folder / str(self._count)
        place.mkdir()
        (place / JOURNAL).mkdir()
        return place

    def run(
        self, history: Callable[[Witness, Callable[[], Journal]], None], stop_at: int | None, state: State
    ) -> tuple[Witness, CrashingFiles]:
        files = CrashingFiles(self.place(), state, stop_at)
        witness = Witness()
        opened: list[Journal] = []

        def reopen() -> Journal:
            for journal in opened:
                journal.close()
            opened.append(witness.open(configured(files.root / JOURNAL, **self._options), files))
            return opened[-1]

        try:
            history(witness, reopen)
            files.stop_at = files.operations
        except StoreError:
            assert files.down
        files.go_down()
        for journal in opened:
            closed(journal)
        return witness, files

    def check(self, witness: Witness, state: State, *, interrupted: bool) -> None:
        """Recover; and recover with an interruption at each boundary, which ends the same."""
        self.states += 1
        place = self.place()
        found = witness.check(state, place)
        shutil.rmtree(place)
        if not interrupted:
            return
        stop_at = 0
        while True:
            files = CrashingFiles(self.place(), state, stop_at)
            try:
                journal = Witness().open(configured(files.root / JOURNAL, **self._options), files)
            except StoreError:
                assert files.down
            else:
                files.go_down()
                closed(journal)
                return
            for after in files.after_each(few_cuts):
                self.states += 1
                place = self.place()
                assert [one[:4] for one in witness.check(after, place)] == [one[:4] for one in found]
                shutil.rmtree(place)
            shutil.rmtree(files.root)
            stop_at += 1


OPTIONS: list[dict[str, Any]] = [
    {"preallocation_scope": "entire_journal"},
    {"preallocation_scope": "none", "journal_retention": 1000.0},
]


def at_every_boundary(
    folder: Path, options: Mapping[str, Any], cuts: Callable[[int], Sequence[int]], *, interrupted: int
) -> int:
    """How many disks were recovered from; every so many of them with interruptions, too."""
    machine = Machine(folder, **options)
    _, files = machine.run(appends_and_releases, None, {})
    operations = files.operations
    assert operations > 40
    for stop_at in range(operations + 1):
        witness, files = machine.run(appends_and_releases, stop_at, {})
        for number, state in enumerate(files.after_each(cuts)):
            machine.check(witness, state, interrupted=number % interrupted == 0)
        machine.check(witness, files.everything(), interrupted=True)
        shutil.rmtree(files.root)
    return machine.states


def live_many_lives(folder: Path, chance: random.Random, *, lives: int) -> None:
    """One journal through so many crashes, each somewhere; what is there goes on as it is."""
    witness, state = Witness(), State()
    files: CrashingFiles | None = None
    for life in range(lives):
        if files is None:
            root = folder / str(life)
            (root / JOURNAL).mkdir(parents=True)
            files = CrashingFiles(root, state)
        files.start_again(chance.randrange(2, 80))
        live(witness, files, chance)
        for _ in range(2):
            place = folder / "look"
            (place / JOURNAL).mkdir(parents=True)
            witness.check(files.after_some(chance), place)
            shutil.rmtree(place)
        if chance.random() < 0.7:
            state = files.after_some(chance)
            shutil.rmtree(files.root)
            files = None


def live(witness: Witness, files: CrashingFiles, chance: random.Random) -> None:
    """Until the end comes."""
    config = configured(
        files.root / JOURNAL,
        journal_log_files=chance.randrange(1, 4),
        preallocation_scope=chance.choice(("none", "entire_journal")),
        preallocation_strategy=chance.choice(("zeros", "sparse_file")),
        journal_disk_sync_strategy=chance.choice(("always", "always", "never")),
        journal_retention_size=chance.choice((0, 0, 20_000)),
    )
    size = chance.choice((None, None, 0, 200))
    journal = None
    try:
        journal = witness.open(config, files)
        witness.go_on_with(journal, list(journal.log.records(journal.log.first_number - 1)))
        while True:
            act(witness, journal, chance, size)
    except StoreError:
        assert files.down
    finally:
        if journal is not None:
            closed(journal)


def act(witness: Witness, journal: Journal, chance: random.Random, size: int | None) -> None:
    """Something that a store does."""
    what = chance.random()
    if what < 0.5:
        witness.append(journal, item(chance, size))
    elif what < 0.8:
        for _ in range(chance.randrange(1, 30)):
            witness.append(journal, item(chance, size), waits=False)
    elif what < 0.9:
        witness.release(journal, chance.randint(0, max(witness.durable, 0)))
    else:
        witness.sync(journal)


def item(chance: random.Random, size: int | None) -> Item:
    """Of any size, or all of the same, so that one lies where another has been."""
    if size is None:
        size = chance.randint(0, chance.choice((7, 40, 200, 900, 5000)))
    return Item(chance.randbytes(size), chance.randint(1, 250), chance.randint(0, 3))
