"""Damage at random to the journal of a killed process: what is acknowledged later stays all the same."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from jdbcstore import JournaledStore, MemoryStore, Message, StoreConfig
from jdbcstore.errors import CorruptJournal, JournalPending
from jdbcstore.journal.directory import live_segments
from jdbcstore.journal.inspection import Damage, records, repair
from jdbcstore.journal.layout import BLOCK
from jdbcstore.stores.journaled.recovery import known_of
from jdbcstore.testing.messages import content
from tests.conftest import small_journal
from tests.support.journaled.world import Behind

LATER = 5


class Trial:
    """One store behind, which outlives its processes, and the folder of its journal, which may be spoilt."""

    def __init__(self, place: Path, seed: int) -> None:
        self._chance = random.Random(seed)
        self._place = place
        self._database = MemoryStore(StoreConfig(cleanup_period=0))
        self._behind = Behind(self._database, closes=False)
        self._lives = 0
        self._folder = place / "0"
        self._older: list[Path] = []
        self._sent: list[str] = []
        """Bodies in their order; with the end of the journal some are lost, and some come back."""

    def run(self) -> str:
        """What the damage came to, having asserted that nothing later is lost."""
        store = self._open()
        self._use(store)
        self._kill(store)
        spoil: Callable[[], None] = self._chance.choice(
            (self._flip, self._flip, self._cut, self._cut, self._take_older, self._remove)
        )
        spoil()
        try:
            store, end = self._open(), "opened"
        except (CorruptJournal, JournalPending):
            store, end = self._repaired(), "repaired"
        later = [f"later {number}" for number in range(LATER)]
        for body in later:
            store.queue("Q").add_message(Message(body))
        if self._chance.random() < 0.5:
            self._kill(store)
        else:
            store.close()
        with self._open() as store:
            found = content(store.queue("Q"))
            assert found[-LATER:] == later
            assert found[:-LATER] == [body for body in self._sent if body in found]
        assert content(self._database.queue("Q")) == found
        return f"{end} after {spoil.__name__.strip('_')}"

    def _open(self) -> JournaledStore:
        self._behind = Behind(self._database, closes=False)
        options = {"journal_log_file_size": 4096, "checkpoint_size": 1 << 20}
        return JournaledStore(self._behind, small_journal(self._folder, **options))

    def _use(self, store: JournaledStore) -> None:
        chance, queue = self._chance, store.queue("Q")
        for number in range(chance.randrange(1, 40)):
            body = f"{number} " + "x" * chance.choice((0, 100, 1000))
            reference = queue.add_message(Message(body))
            self._sent.append(body)
            if chance.random() < 0.2:
                queue.acknowledge(reference)
            if chance.random() < 0.1:
                store.checkpoint()
            if chance.random() < 0.1:
                self._older.append(self._copied("older"))

    def _copied(self, name: str) -> Path:
        self._lives += 1
        return Path(shutil.copytree(self._folder, self._place / f"{name}-{self._lives}"))

    def _kill(self, store: JournaledStore) -> None:
        """The files stay as they are now, and the store behind."""
        folder = self._copied("left")
        self._behind.down = True
        store.close()
        self._folder = folder

    def _repaired(self) -> JournaledStore:
        files = live_segments(self._folder)
        known = known_of(self._database, 0)
        damages = [one for one in records(self._folder, known) if isinstance(one, Damage)]
        assert any(not damage.torn for damage in damages), files
        repair(self._folder, cut=self._chance.random() < 0.5, known=known)
        assert not [one for one in records(self._folder, known) if isinstance(one, Damage)]
        return self._open()

    def _file(self) -> Path:
        return self._chance.choice([*live_segments(self._folder).values()])

    def _flip(self) -> None:
        for _ in range(self._chance.choice((1, 1, 3))):
            path = self._file()
            data = bytearray(path.read_bytes())
            used = len(data.rstrip(b"\0")) if self._chance.random() < 0.9 else BLOCK
            data[self._chance.randrange(max(used, 1))] ^= 1 << self._chance.randrange(8)
            path.write_bytes(data)

    def _cut(self) -> None:
        path = self._file()
        data = path.read_bytes().rstrip(b"\0")
        path.write_bytes(data[: self._chance.randrange(len(data) + 1)])

    def _take_older(self) -> None:
        if self._older:
            shutil.rmtree(self._folder)
            self._folder = self._chance.choice(self._older)

    def _remove(self) -> None:
        self._file().unlink()


def spoil_many(place: Path, seed: int, trials: int) -> Counter[str]:
    """So many trials; what they came to."""
    ends: Counter[str] = Counter()
    for number in range(seed, seed + trials):
        folder = place / f"trial-{number}"
        folder.mkdir()
        try:
            ends[Trial(folder, number).run()] += 1
        except BaseException as error:
            error.add_note(f"trial {number}")
            raise
        shutil.rmtree(folder)
    return ends
