"""What keeps a journal from being opened, ``journal check`` says, and ``journal repair`` mends or cannot."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import jdbcstore
from jdbcstore import JournaledStore, Message, load_config
from jdbcstore.cli.exit_codes import ExitCode
from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import ConfigurationError, CorruptJournal, JournalPending, StoreError
from jdbcstore.journal.directory import live_segments, segment_path
from jdbcstore.journal.layout import BLOCK
from jdbcstore.journal.log import Journal
from jdbcstore.testing.messages import content
from tests.cli.conftest import Invoke
from tests.support.journal.entries import Item, Told

OPTIONS = (
    'journal_log_file_size = "64 kb"\npreallocation_scope = "none"\njournal_disk_sync_strategy = "never"\n'
)
BODY = "x" * 8000


def write_toml(place: Path, *, database: str = "mq.db", more: str = "") -> None:
    (place / "jdbcstore.toml").write_text(
        f'url = "sqlite:///{database}"\ncleanup_period = 0\n[journal]\ndirectory = "journal"\n{OPTIONS}{more}'
    )


def opened() -> JournaledStore:
    store = jdbcstore.open(load_config(Path("jdbcstore.toml"), environment={}))
    assert isinstance(store, JournaledStore)
    return store


def left(place: Path, target: Path, *, more: str = "") -> Path:
    """What a killed process left: 42 messages, of which the database has 16, and four files."""
    (place / "journal").mkdir(parents=True)
    write_toml(place, more=more)
    here = Path.cwd()
    os.chdir(place)
    try:
        store = opened()
        queue = store.queue("Q")
        for number in range(42):
            queue.add_message(Message(f"{number} {BODY}"))
            if number == 3:
                shutil.copytree("journal", "older")
            if number == 15:
                store.checkpoint()
        shutil.copytree(place, target)
        assert more or len(files()) == 4
        store.close()
    finally:
        os.chdir(here)
    return target


@pytest.fixture(scope="module")
def of_a_killed_process(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("journal")
    return left(place / "open", place / "left")


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("quick")
    more = "use_quick_journal = true\njournal_log_files = 9\n"
    return left(place / "open", place / "left", more=more)


def flip(segment: int, offset: int) -> None:
    path = files()[segment]
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x10
    path.write_bytes(data)


def files() -> list[Path]:
    return [*live_segments(Path("journal")).values()]


def flips(*places: tuple[int, int]) -> Callable[[], None]:
    def spoil() -> None:
        for segment, offset in places:
            flip(segment, offset)

    return spoil


def removes(*segments: int) -> Callable[[], None]:
    def spoil() -> None:
        for path in [files()[segment] for segment in segments]:
            path.unlink()

    return spoil


def is_older() -> None:
    shutil.rmtree("journal")
    Path("older").rename("journal")


def is_older_in_part() -> None:
    for path in Path("older").glob("journal-*"):
        path.rename(Path("journal") / path.name)


def ends_too_early() -> None:
    removes(1, 2, 3)()
    os.truncate(files()[0], 9000)


def cannot_be_read() -> None:
    path = files()[1]
    path.unlink()
    path.mkdir()


def is_of_another(segment: int) -> Callable[[], None]:
    def spoil() -> None:
        config = JournalConfig(directory="another", journal_log_file_size=1 << 12, preallocation_scope="none")
        told = Told()
        journal = Journal(config, committed=told.committed, failed=told.fail)
        for _ in range(30):
            journal.append(Item(bytes(1000)), waits=True)
        journal.close()
        target = files()[segment]
        shutil.copy(segment_path(Path("another"), int(target.name[8:-4])), target)

    return spoil


def has_another_name() -> None:
    first, second = files()[:2]
    first.rename("aside")
    second.rename(first)
    Path("aside").rename(second)


def has_a_record_of_a_later_version() -> None:
    told = Told()
    journal = Journal(JournalConfig(directory="journal"), committed=told.committed, failed=told.fail)
    journal.append(Item(b"?", kind=99), waits=True)
    told.wait(1)
    journal.close()


def is_of_another_database() -> None:
    write_toml(Path(), database="another.db")
    with jdbcstore.open(replace(load_config(Path("jdbcstore.toml"), environment={}), journal=None)) as store:
        store.queue("Q").add_message(Message("own"))


def is_not_the_one_that_the_database_waits_for() -> None:
    shutil.rmtree("journal")
    has_a_record_of_a_later_version()


MENDED: dict[str, Callable[[], None]] = {
    "a record": flips((1, 10_000)),
    "the first record": flips((0, BLOCK + 50)),
    "the header of the first": flips((0, 20)),
    "the header of the last": flips((-1, 20)),
    "the header of each": flips((0, 20), (1, 20), (2, 20), (3, 20)),
    "the header and the first record of the first": flips((0, 20), (0, BLOCK + 50)),
    "the first file is missing": removes(0, 1),
    "one in the middle is missing": removes(2),
    "all are missing": removes(0, 1, 2, 3),
    "it ends too early": ends_too_early,
    "it is older": is_older,
    "it is older in part": is_older_in_part,
    "the first is of another": is_of_another(0),
    "one in the middle is of another": is_of_another(2),
    "the last is of another": is_of_another(-1),
    "one has another's name": has_another_name,
}  # fmt: skip
CUT = ("a record", "the header of each", "one in the middle is missing", "all are missing", "it is older")
NOT_MENDED: dict[str, tuple[Callable[[], None], str]] = {
    "a file cannot be read": (cannot_be_read, "Is a directory"),
    "a record of a later version": (has_a_record_of_a_later_version, "by this version or an earlier one"),
    "another database": (is_of_another_database, "belongs to another store"),
    "another journal": (is_not_the_one_that_the_database_waits_for, "its files are not in journal"),
}


def enter(monkeypatch: pytest.MonkeyPatch, template: Path, place: Path) -> None:
    shutil.copytree(template, place / "left")
    monkeypatch.chdir(place / "left")


@pytest.mark.parametrize(
    ("what", "cut"), [*((what, False) for what in MENDED), *((what, True) for what in CUT)]
)
def test_what_keeps_it_from_opening_is_reported_and_mended(
    of_a_killed_process: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    invoke: Invoke,
    what: str,
    cut: bool,
) -> None:
    enter(monkeypatch, of_a_killed_process, tmp_path)
    assert invoke("journal", "check").code == ExitCode.DONE
    MENDED[what]()
    with pytest.raises((CorruptJournal, JournalPending)):
        opened()

    found = invoke("journal", "check", "--json")
    assert (found.code, found.lines[-1]["sound"]) == (ExitCode.FAILED, False)
    done = invoke("journal", "repair", "--json", *(["--cut"] if cut else []))
    assert (done.code, done.json["refusal"]) == (ExitCode.DONE, None)
    assert done.json["damage"]
    assert invoke("journal", "check").code == ExitCode.DONE
    with opened() as store:
        bodies = [str(body).split()[0] for body in content(store.queue("Q"))]
        assert bodies[:16] == [f"{number}" for number in range(16)]
        store.queue("Q").add_message(Message("later"))
    with opened() as store:
        assert content(store.queue("Q"))[-1] == "later"


def test_a_repair_that_knows_no_database_says_so(
    of_a_killed_process: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    """The journal then ends before what the database has."""
    enter(monkeypatch, of_a_killed_process, tmp_path)
    ends_too_early()

    done = invoke("journal", "repair", "journal", "--cut", "--config", os.devnull)
    assert done.code == ExitCode.DONE
    assert "no database was compared" in done.err
    assert "--config" in done.err

    with pytest.raises(CorruptJournal, match="only with the configuration"):
        opened()
    done = invoke("journal", "repair")
    assert (done.code, done.err) == (ExitCode.DONE, "")
    with opened() as store:
        store.queue("Q").add_message(Message("later"))


@pytest.mark.parametrize("what", NOT_MENDED)
def test_or_it_is_said_why_it_cannot_be_mended(
    of_a_killed_process: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke, what: str
) -> None:
    enter(monkeypatch, of_a_killed_process, tmp_path)
    spoil, reason = NOT_MENDED[what]
    spoil()
    with pytest.raises((CorruptJournal, JournalPending, ConfigurationError)) as raised:
        opened()
    assert isinstance(raised.value, StoreError)
    assert reason in str(raised.value)

    found = invoke("journal", "check")
    assert found.code == ExitCode.FAILED
    assert reason in found.out
    done = invoke("journal", "repair")
    assert done.code != ExitCode.DONE
    assert reason in done.out + done.err


def test_files_that_the_database_refers_to_are_missed(
    quick: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    enter(monkeypatch, quick, tmp_path)
    files()[0].unlink()
    with pytest.raises(CorruptJournal, match="its file is missing"):
        opened()

    found = invoke("journal", "check")
    assert found.code == ExitCode.FAILED
    assert "the database refers to it" in found.out
    assert invoke("journal", "repair").code == ExitCode.DONE
    assert invoke("journal", "check").code == ExitCode.DONE
    with opened() as store:
        assert store.queue("Q").message_count() == 42


def test_without_the_database_nothing_is_removed_that_it_would_save(
    of_a_killed_process: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    enter(monkeypatch, of_a_killed_process, tmp_path)
    MENDED["the header of each"]()
    before = {path: path.read_bytes() for path in files()}

    done = invoke("journal", "repair", "journal", "--config", os.devnull)

    assert done.code != ExitCode.DONE
    assert "run jdbcstore journal repair with the configuration that names both" in done.err
    assert {path: path.read_bytes() for path in files()} == before
