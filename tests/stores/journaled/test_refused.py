"""What the database refuses fails alone: it stands aside, and everything else goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import StoreConfig
from jdbcstore.cli.exit_codes import ExitCode
from jdbcstore.errors import MessageNotFound, StoreError
from jdbcstore.stores.guarded import JournaledJdbcStore
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.stores.journaled.refused import Refused
from jdbcstore.testing.messages import content, fill
from tests.cli.conftest import Invoke, invoke  # noqa: F401
from tests.conftest import small_journal
from tests.support.databases import Database, SqliteDatabase

CONFIG = StoreConfig(cleanup_period=0)
LARGE = "x" * 100_000
NARROW = """CREATE TRIGGER NARROW_{0} BEFORE {0} ON ACTIVEMQ_MSGS WHEN length(NEW.MSG) > 60000
            BEGIN SELECT RAISE(ABORT, 'MSG is too long'); END"""


class Place:
    """A database that takes no large message, and a journal in front of it."""

    def __init__(self, database: Database, directory: Path) -> None:
        self.database = database
        self.directory = directory
        self._opened = ExitStack()

    def open(self, **options: Any) -> JournaledJdbcStore:
        behind = JdbcStore(self.database.url, CONFIG, journaled=True)
        given = {"checkpoint_interval": 0.0, **options}
        store = JournaledJdbcStore(behind, small_journal(self.directory, **given))
        self._opened.callback(store.close)
        return store

    def narrow(self) -> None:
        for operation in ("INSERT", "UPDATE"):
            self.database.execute(NARROW.format(operation))

    def widen(self) -> None:
        for operation in ("INSERT", "UPDATE"):
            self.database.execute(f"DROP TRIGGER NARROW_{operation}")

    def rows(self) -> list[int]:
        return [id_ for (id_,) in self.database.rows("SELECT ID FROM ACTIVEMQ_MSGS ORDER BY ID")]

    def aside(self) -> list[tuple[int, object]]:
        """As a second process sees it."""
        return [(one.sequence, one.message.body) for one in Refused(self.directory).every()]

    def close(self) -> None:
        self._opened.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    (tmp_path / "database").mkdir()
    database = SqliteDatabase(tmp_path / "database")
    place = Place(database, tmp_path / "journal")
    yield place
    place.close()
    database.close()


@pytest.mark.backends("mariadb", "mysql")
def test_a_column_of_the_database_is_too_narrow(database: Database, tmp_path: Path) -> None:
    place = Place(database, tmp_path / "journal")
    store = place.open()
    store.checkpoint()
    database.execute("ALTER TABLE ACTIVEMQ_MSGS MODIFY MSG BLOB")
    fill(store.queue("A"), "a", LARGE, "b")
    store.checkpoint()
    assert place.rows() == [1, 3]
    assert place.aside() == [(2, LARGE)]
    place.close()


def test_a_message_that_is_refused_stands_aside(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    store = place.open()
    place.narrow()
    for number in range(10):
        fill(store.queue("A"), LARGE if number in (3, 4, 9) else str(number))
    store.checkpoint()

    assert place.rows() == [1, 2, 3, 6, 7, 8, 9]
    assert place.aside() == [(4, LARGE), (5, LARGE), (10, LARGE)]
    [first, *_] = store.refused()
    assert (first.sequence, first.destination) == (4, "queue://A")
    assert "MSG is too long" in first.reason
    assert caplog.text.count("was refused, and is set aside") == 3
    store.check()
    fill(store.queue("A"), "later")
    store.checkpoint()
    store.close()
    assert place.rows() == [1, 2, 3, 6, 7, 8, 9, 11]
    caplog.clear()
    store = place.open()
    assert "3 messages that the database refused are set aside" in caplog.text
    assert content(store.queue("A")) == ["0", "1", "2", "5", "6", "7", "8", "later"]


def test_it_is_tried_again_or_dropped(place: Place, request: pytest.FixtureRequest) -> None:
    store = place.open()
    place.narrow()
    fill(store.queue("A"), LARGE, "a", LARGE, LARGE)
    store.checkpoint()
    again = store.retry_refused(1)
    assert again is None
    assert [sequence for sequence, _ in place.aside()] == [3, 4, 5]
    store.close()
    place.widen()
    run: Invoke = request.getfixturevalue("invoke")
    Path("jdbcstore.toml").write_text(
        f'url = "{place.database.url}"\n[journal]\ndirectory = "{place.directory}"\n'
    )

    assert "the database rejected 3 messages" in run("status").err
    listed = run("journal", "refused")
    assert "MSG is too long" in listed.out
    assert "3 messages rejected by the database" in listed.out
    assert run("journal", "refused", "--json").lines[0]["message"]["body"] == LARGE
    assert run("journal", "check", "--json").lines[-1]["refused_messages"] == 3
    assert "3: stored with the ID 6" in run("journal", "retry", "3").out
    assert "4: removed" in run("journal", "drop", "4").out
    assert run("journal", "retry", "4").code == ExitCode.USAGE
    assert place.rows() == [2, 6]
    assert [sequence for sequence, _ in place.aside()] == [5]


def test_a_consumer_acknowledges_a_refused_message(place: Place) -> None:
    store = place.open()
    place.narrow()
    fill(store.queue("A"), LARGE, "a", LARGE)
    held = store.queue("A").recover()
    store.checkpoint()
    store.queue("A").acknowledge(held[0])
    store.checkpoint()
    assert [sequence for sequence, _ in place.aside()] == [3]
    # What was not in the database by then is not there twice either.
    store.queue("A").acknowledge(held[2], held[1])
    store.close()
    assert place.aside() == []
    assert place.rows() == []


def test_new_contents_that_are_refused_leave_the_old_ones(place: Place) -> None:
    store = place.open()
    fill(store.queue("A"), "a", "b")
    store.checkpoint()
    place.narrow()
    for name in ("a", "b"):
        found = next(one for one in store.queue("A").recover() if one.body == name)
        store.queue("A").update_message(found.replace(body=LARGE if name == "a" else "changed"))
    store.checkpoint()

    assert content(store.queue("A")) == ["a", "changed"]
    assert place.aside() == [(1, LARGE)]
    place.widen()
    assert store.retry_refused(1) is not None
    assert content(store.queue("A")) == [LARGE, "changed"]
    assert place.aside() == []


def test_what_is_only_referred_to_is_refused_when_its_file_goes(place: Place) -> None:
    store = place.open(use_quick_journal=True, journal_log_file_size=4096, journal_log_files=1)
    place.narrow()
    fill(store.queue("A"), LARGE, "a")
    store.checkpoint()
    fill(store.queue("A"), *["y" * 3_000] * 4)
    store.close()

    assert place.aside() == [(1, LARGE)]
    assert place.rows() == [2, 3, 4, 5, 6]


def test_what_is_refused_for_another_reason_is_not_put_aside(place: Place) -> None:
    store = place.open()
    fill(store.queue("A"), "a")
    store.checkpoint()
    place.database.execute("ALTER TABLE ACTIVEMQ_MSGS RENAME TO AWAY")
    fill(store.queue("A"), "b")
    with pytest.raises(StoreError):
        store.checkpoint()
    with pytest.raises(StoreError, match="no checkpoint can be made"):
        store.check()
    assert place.aside() == []
    place.database.execute("ALTER TABLE AWAY RENAME TO ACTIVEMQ_MSGS")
    store.checkpoint()
    store.check()
    assert place.rows() == [1, 2]
    with pytest.raises(MessageNotFound):
        store.retry_refused(1)


@pytest.mark.parametrize("at", range(3))
def test_a_process_that_ends_meanwhile_has_it_once(
    place: Place, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it stands aside, before the database knows, and after."""
    store = place.open()
    place.narrow()
    fill(store.queue("A"), "a", LARGE, "b")

    class Killed(BaseException):
        pass

    def die(*_: object, **__: object) -> None:
        raise Killed

    steps: list[tuple[Any, str]] = [
        (Refused, "keep"),
        (type(store._checkpointer), "apply"),
        (type(store._checkpointer), "_drop_consumed"),
    ]
    owner, name = steps[at]
    if name == "apply":
        keep = Refused.keep

        def then_die(*arguments: Any, **options: Any) -> None:
            keep(*arguments, **options)
            monkeypatch.setattr(owner, name, die)

        monkeypatch.setattr(Refused, "keep", then_die)
    else:
        monkeypatch.setattr(owner, name, die)
    with pytest.raises(Killed):
        store.checkpoint()
    monkeypatch.setattr(type(store._checkpointer), "_end", lambda _: None)
    store.close()
    monkeypatch.undo()

    store = place.open()
    store.checkpoint()
    assert place.rows() == [1, 3]
    assert place.aside() == [(2, LARGE)]
