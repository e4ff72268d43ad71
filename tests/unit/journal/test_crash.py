"""The machine goes down at every boundary; what was acknowledged is there, and nothing is half there."""

from __future__ import annotations

import contextlib
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.errors import StoreError
from jdbcstore.journal.layout import BLOCK, RECORD
from jdbcstore.journal.log import Journal
from tests.support.journal.crashing import SECTOR, CrashingFiles
from tests.support.journal.entries import Item, configured
from tests.support.journal.lives import (
    OPTIONS,
    Machine,
    appends_and_releases,
    at_every_boundary,
    few_cuts,
    live_many_lives,
)
from tests.support.journal.witness import JOURNAL, Witness, closed

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("options", OPTIONS, ids=["again", "kept"])
def test_at_every_boundary_of_a_short_history(folder: Path, options: dict[str, Any]) -> None:
    assert at_every_boundary(folder, options, few_cuts, interrupted=40) > 500


def test_at_random_over_many_lives(folder: Path) -> None:
    for seed in range(4):
        live_many_lives(folder / str(seed), random.Random(seed), lives=25)


@pytest.mark.parametrize("scope", ["none", "entire_journal"])
def test_what_was_behind_a_hole_does_not_come_back(folder: Path, scope: str) -> None:
    machine = Machine(folder, preallocation_scope=scope, journal_disk_sync_strategy="never")

    def five(witness: Witness, reopen: Callable[[], Journal]) -> None:
        journal = reopen()
        for index in range(5):
            witness.append(journal, Item(b"old %d " % index * 8))

    witness, files = machine.run(five, None, {})
    state = files.everything()
    [name] = [name for name in state if "/journal-" in name]
    hole = state[name].index(b"old 2")
    state[name] = state[name][:hole] + bytes(20) + state[name][hole + 20 :]

    def one_more(witness: Witness, reopen: Callable[[], Journal]) -> None:
        witness.append(reopen(), Item(b"new 2 " * 8))

    _, files = machine.run(one_more, None, state)
    for number, after in enumerate(files.after_each(range)):
        place = machine.place()
        journal = Witness().open(configured(place / JOURNAL), CrashingFiles(place, after))
        bodies = [record.body for record in journal.log.records(0)]
        journal.close()
        kept = [b"old 0 " * 8, b"old 1 " * 8]
        assert bodies in (kept, [*kept, b"new 2 " * 8]), number
    machine.check(witness, state, interrupted=True)


def test_killed_at_every_boundary_and_then_the_machine_goes_down(folder: Path) -> None:
    machine = Machine(folder)
    _, files = machine.run(appends_and_releases, None, {})
    for stop_at in range(files.operations):
        witness, files = machine.run(appends_and_releases, stop_at, {})
        files.start_again(None)
        journal = witness.open(configured(files.root / JOURNAL), files)
        witness.go_on_with(journal, list(journal.log.records(journal.log.first_number - 1)))
        witness.append(journal, Item(b"after all"))
        files.go_down()
        closed(journal)
        for state in files.after_each(few_cuts):
            machine.check(witness, state, interrupted=False)
        shutil.rmtree(files.root)


def test_a_cut_that_was_not_synced_is_synced_by_the_next_process(folder: Path) -> None:
    """Else the beginning of what was cut, and the end of what is written in its place, are a record."""
    machine = Machine(folder, preallocation_scope="none", journal_disk_sync_strategy="never")
    until_sector = SECTOR - 24  # a record's number and sequence are behind its first 24 bytes

    def once_closed(witness: Witness, reopen: Callable[[], Journal]) -> None:
        witness.append(reopen(), Item(bytes(until_sector - 2 * RECORD)))
        witness.append(reopen(), Item(b""))

    _, files = machine.run(once_closed, None, {})
    state = files.everything()
    [name] = [name for name in state if "/journal-" in name]
    assert len(state[name]) == BLOCK + until_sector + RECORD
    state[name] = state[name][: BLOCK + SECTOR]  # torn
    for stop_at in range(8):
        witness, files = Witness(), CrashingFiles(machine.place(), state, stop_at)
        config = configured(files.root / JOURNAL, preallocation_scope="none")
        with contextlib.suppress(StoreError):
            closed(Witness().open(config, files))
        files.start_again(None)
        lazy = configured(files.root / JOURNAL, journal_disk_sync_strategy="never")
        journal = witness.open(lazy, files)
        found = list(journal.log.records(0))
        witness.waiting = [record.body for record in found]
        witness.go_on_with(journal, found)
        witness.append(journal, Item(b"anew" * 50))
        files.go_down()
        closed(journal)
        for after in files.after_each(few_cuts):
            machine.check(witness, after, interrupted=False)
    assert machine.states > 50
