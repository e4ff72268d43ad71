"""A journal and the database behind it know each other.

Whatever is copied, deleted or restored, nothing acknowledged later is lost, and none is taken for another.
"""

from __future__ import annotations

import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from crc32c import crc32c

import jdbcstore
from jdbcstore import Configuration, JournaledStore, Message
from jdbcstore.config import DataSourceConfig, StoreConfig
from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import ConfigurationError, CorruptJournal, JournalPending
from jdbcstore.journal.directory import live_segments
from jdbcstore.journal.inspection import repair
from jdbcstore.journal.layout import BLOCK, SegmentHeader
from jdbcstore.stores.journaled.recovery import known_of
from jdbcstore.stores.opening import Opening
from jdbcstore.testing.messages import content
from jdbcstore.tools.transfer import copy

FILE = 1 << 16


def configured(
    place: Path, url: str | None = None, folder: str = "journal", **options: object
) -> Configuration:
    return Configuration(
        data_source=DataSourceConfig(url=url or f"sqlite:///{place}/mq.db"),
        store=StoreConfig(cleanup_period=0.0),
        journal=JournalConfig(
            directory=str(place / folder),
            journal_log_file_size=FILE,
            preallocation_scope="none",
            **options,  # type: ignore[arg-type]
        ),
    )


def opened(place: Path, url: str | None = None, folder: str = "journal", **options: object) -> JournaledStore:
    store = jdbcstore.open(configured(place, url, folder, **options))
    assert isinstance(store, JournaledStore)
    return store


def killed(store: JournaledStore, place: Path, target: Path) -> Path:
    """What is left in a place when the process of a store is killed now; the store goes on and is closed."""
    shutil.copytree(place, target)
    store.close()
    return target


def add(store: JournaledStore, *bodies: str) -> None:
    for body in bodies:
        store.queue("Q").add_message(Message(body))


def everything_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "journal.lock"}


def rows(place: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(place / "mq.db")) as raw:
        return raw.execute(sql).fetchall()


TEN = [f"{n}" for n in range(10)]
LATER = [f"later {n}" for n in range(5)]


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """Where a process was killed after ten messages and a checkpoint, with an older copy of the journal."""
    place = tmp_path / "first"
    store = opened(place)
    add(store, *TEN[:4])
    shutil.copytree(place / "journal", place / "older")
    add(store, *TEN[4:])
    store.checkpoint()
    return killed(store, place, tmp_path / "left")


def flipped(place: Path) -> None:
    [path] = live_segments(place / "journal").values()
    data = bytearray(path.read_bytes().rstrip(b"\0"))
    data[-1] ^= 1
    path.write_bytes(data)


def cut(place: Path) -> None:
    [path] = live_segments(place / "journal").values()
    data = bytearray(path.read_bytes())
    data[BLOCK + 1000] ^= 1
    path.write_bytes(data)


def older(place: Path) -> None:
    shutil.rmtree(place / "journal")
    (place / "older").rename(place / "journal")


@pytest.mark.parametrize("by", ["a kill", "a clean close"])
@pytest.mark.parametrize("damage", [flipped, cut, older])
def test_what_is_acknowledged_behind_a_journal_that_lost_its_end_is_kept(
    left: Path, tmp_path: Path, damage: Callable[[Path], None], by: str
) -> None:
    damage(left)
    before = everything_in(left / "journal")
    with pytest.raises(CorruptJournal, match="jdbcstore journal repair") as raised:
        opened(left)
    assert everything_in(left / "journal") == before
    if damage is cut:
        repair(left / "journal", cut=True)
        with pytest.raises(CorruptJournal, match="up to record 10"):
            opened(left)
    else:
        assert "up to record 10" in str(raised.value)

    with pytest.raises(CorruptJournal):
        opened(left)
    with Opening(configured(left), read_only=True).open_database() as plain:
        known = known_of(plain, 0)
    done = repair(left / "journal", known=known)
    assert done.damages
    store = opened(left)
    assert content(store.queue("Q")) == TEN
    add(store, *LATER)
    if by == "a kill":
        left = killed(store, left, tmp_path / "again")
    else:
        store.close()
    with opened(left) as store:
        assert content(store.queue("Q")) == TEN + LATER
    with Opening(configured(left), read_only=True).open() as plain:
        assert content(plain.queue("Q")) == TEN + LATER


def test_a_journal_is_not_replayed_into_a_copy(tmp_path: Path) -> None:
    store = opened(tmp_path)
    add(store, *TEN)
    store.close()
    with_another = f"sqlite:///{tmp_path}/copy.db"
    target = replace(configured(tmp_path, with_another), journal=None)
    copy(replace(configured(tmp_path), journal=None), target)

    before = everything_in(tmp_path / "journal")
    with pytest.raises(ConfigurationError, match=r"belongs to another store than sqlite:.*copy\.db"):
        opened(tmp_path, with_another)
    assert everything_in(tmp_path / "journal") == before
    with opened(tmp_path, with_another, "another") as store:
        assert content(store.queue("Q")) == TEN
        add(store, *LATER)
        store.checkpoint()
    with opened(tmp_path) as store:
        assert content(store.queue("Q")) == TEN


def test_another_journal_acknowledges_nothing_in_a_database_of_its_own(tmp_path: Path) -> None:
    store = opened(tmp_path / "one")
    add(store, *TEN)
    store.queue("Q").acknowledge(*store.queue("Q").recover())
    left = killed(store, tmp_path / "one", tmp_path / "left")
    plain = Configuration(
        data_source=DataSourceConfig(url=f"sqlite:///{tmp_path}/own.db"),
        store=StoreConfig(cleanup_period=0.0),
    )
    with jdbcstore.open(plain) as own:
        for body in TEN[:8]:
            own.queue("Q").add_message(Message(body))

    with pytest.raises(ConfigurationError, match="belongs to another store"):
        opened(left, f"sqlite:///{tmp_path}/own.db")
    with jdbcstore.open(plain) as own:
        assert content(own.queue("Q")) == TEN[:8]


@pytest.mark.parametrize("used", ["used", "not used"])
def test_a_deleted_database_is_missed(tmp_path: Path, used: str) -> None:
    store = opened(tmp_path)
    if used == "used":
        add(store, *TEN)
    store.close()
    (tmp_path / "mq.db").unlink()

    with pytest.raises(ConfigurationError) as raised:
        opened(tmp_path)

    for said in (f"{tmp_path}/journal", "mq.db", "was the database deleted", "move the files away", "replay"):
        assert said in str(raised.value)


def test_nor_is_a_new_one_used_without_the_journal_that_says_so(tmp_path: Path) -> None:
    store = opened(tmp_path)
    add(store, *TEN)
    store.close()
    without = configured(tmp_path, use_journal=False)
    with jdbcstore.open(without) as plain:
        assert content(plain.queue("Q")) == TEN
    (tmp_path / "mq.db").unlink()

    with pytest.raises(ConfigurationError, match="was the database deleted"):
        jdbcstore.open(without)


def test_the_first_message_behind_a_journal_in_front_of_older_ones_is_kept(tmp_path: Path) -> None:
    """A checkpoint before it has only taken something away."""
    with jdbcstore.open(f"sqlite:///{tmp_path}/mq.db") as store:
        store.queue("Q").add_message(Message("old"))
    with opened(tmp_path) as store:
        store.queue("Q").acknowledge(*store.queue("Q").recover())
        store.checkpoint()
        store.queue("Q").add_message(Message("new"))
        store.checkpoint()
        assert content(store.queue("Q")) == ["new"]


def test_folders_used_in_turns_open(tmp_path: Path) -> None:
    expected = []
    for turn, folder in enumerate(["one", "two", "one", "one", "two", "three", "one"]):
        with opened(tmp_path, folder=folder) as store:
            added = [f"{turn}.{n}" for n in range(1 + turn % 3 * 4)]
            add(store, *added)
            expected += added
            assert content(store.queue("Q")) == expected


def test_a_folder_that_has_more_is_not_passed_over_for_another(tmp_path: Path) -> None:
    opened(tmp_path, folder="one").close()
    store = opened(tmp_path, folder="two")
    add(store, *TEN)
    left = killed(store, tmp_path, tmp_path / "left")

    for folder in ("one", "new"):
        with pytest.raises(JournalPending, match=f"not in {left}/{folder}"):
            opened(left, folder=folder)
        assert not live_segments(left / folder) or folder == "one"
    with opened(left, folder="two") as store:
        assert content(store.queue("Q")) == TEN


def test_a_database_that_was_restored_gets_what_the_journal_has_since(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        add(store, *TEN)
    shutil.copy(tmp_path / "mq.db", tmp_path / "backup.db")
    with opened(tmp_path) as store:
        add(store, *LATER)
    shutil.copy(tmp_path / "backup.db", tmp_path / "mq.db")

    shutil.copy(tmp_path / "backup.db", tmp_path / "backup-2.db")
    with opened(tmp_path) as store:
        assert content(store.queue("Q")) == TEN + LATER
    shutil.copy(tmp_path / "backup-2.db", tmp_path / "mq.db")
    with jdbcstore.open(configured(tmp_path, use_journal=False)) as plain:
        assert content(plain.queue("Q")) == TEN + LATER


def test_but_not_if_it_was_written_to_before(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        add(store, *TEN)
    shutil.copy(tmp_path / "mq.db", tmp_path / "backup.db")
    with opened(tmp_path) as store:
        add(store, *LATER)
    shutil.copy(tmp_path / "backup.db", tmp_path / "mq.db")
    with opened(tmp_path, folder="another") as store:
        add(store, "own")

    with pytest.raises(ConfigurationError, match="was restored from before record"):
        opened(tmp_path)
    with opened(tmp_path, folder="another") as store:
        assert content(store.queue("Q")) == [*TEN, "own"]


def as_before_identities(place: Path) -> None:
    """As earlier versions left it: neither says anything of the other but the mark."""
    with closing(sqlite3.connect(place / "mq.db")) as raw:
        raw.execute("DELETE FROM JDBCSTORE_STATE WHERE NAME LIKE 'journal_left%' OR NAME = 'journal_store'")
        raw.commit()
    for path in live_segments(place / "journal").values():
        data = path.read_bytes()
        header = SegmentHeader.unpack(data[:BLOCK])
        packed = struct.pack("<8sII5Q", b"jdbcsJRN", 1, 0, *header[:5])
        packed += struct.pack("<I", crc32c(packed))
        path.write_bytes(packed.ljust(BLOCK, b"\0") + data[BLOCK:])


@pytest.mark.parametrize("by", ["a kill", "a clean close"])
def test_what_earlier_versions_left_is_adopted(tmp_path: Path, by: str) -> None:
    store, place = opened(tmp_path / "place"), tmp_path / "place"
    add(store, *TEN)
    if by == "a kill":
        store.checkpoint()
        add(store, *LATER)
        place = killed(store, place, tmp_path / "left")
    else:
        store.close()
    as_before_identities(place)
    expected = [*TEN, *LATER] if by == "a kill" else [*TEN]

    for _ in range(2):
        with opened(place) as store:
            assert content(store.queue("Q")) == expected
            add(store, "more")
            expected.append("more")
    [(identity,)] = rows(place, "SELECT NUMBER FROM JDBCSTORE_STATE WHERE NAME = 'journal_store'")
    last = [*live_segments(place / "journal").values()][-1]
    assert SegmentHeader.unpack(last.read_bytes()[:BLOCK]).store == identity
    (place / "mq.db").unlink()
    with pytest.raises(ConfigurationError, match="was the database deleted"):
        opened(place)


def test_of_earlier_versions_another_stores_journal_is_not_adopted(tmp_path: Path) -> None:
    for name in ("one", "two"):
        store = opened(tmp_path / name)
        add(store, *(TEN if name == "one" else LATER))
        killed(store, tmp_path / name, tmp_path / f"{name}-left")
        as_before_identities(tmp_path / name)
        as_before_identities(tmp_path / f"{name}-left")

    with pytest.raises(JournalPending):
        opened(tmp_path / "two", f"sqlite:///{tmp_path}/one-left/mq.db")
    for url in ("two/mq.db", "new.db"):
        with pytest.raises(ConfigurationError, match="belongs to another store"):
            opened(tmp_path / "one-left", f"sqlite:///{tmp_path}/{url}")


def test_in_front_of_memory_nothing_that_is_left_is_let_go_of(tmp_path: Path) -> None:
    """What a store in memory has ends with the process: only the journal has it then."""
    body = "x" * (FILE // 8)
    store = opened(tmp_path / "place", "memory:")
    add(store, "kept")
    for _ in range(3):
        for _ in range(12):
            store.queue("Q").acknowledge(store.queue("Q").add_message(Message(body)))
        store.checkpoint()
    assert len(live_segments(tmp_path / "place" / "journal")) > 4
    left = killed(store, tmp_path / "place", tmp_path / "left")

    for place in (left, tmp_path / "place"):
        with opened(place, "memory:") as store:
            assert content(store.queue("Q")) == ["kept"]
            store.queue("Q").acknowledge(*store.queue("Q").recover())
            store.checkpoint()
            assert len(live_segments(place / "journal")) == 1
            add(store, "last")
        with opened(place, "memory:") as store:
            assert content(store.queue("Q")) == ["last"]
        with pytest.raises(ConfigurationError, match="belongs to another store"):
            opened(place)
