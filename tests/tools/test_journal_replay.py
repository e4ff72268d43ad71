"""Messages that a journal's files still have are delivered anew, once each, whatever stops it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jdbcstore import Destination, Message, XATransactionId
from jdbcstore.errors import CorruptJournal, StoresDiffer
from jdbcstore.stores.journaled import JournaledStore
from jdbcstore.tools.journal_history import JournalHistory
from jdbcstore.tools.replay import MARKS, replay
from tests.support.cli.zygote import run_program
from tests.support.tools.journals import LONG_AGO, file_of, flip, history, open_store, send
from tests.support.tools.replayed import AGAIN, ORDERS, consumed

NEWS = Destination.topic("NEWS.today")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JournaledStore]:
    with open_store(tmp_path) as store:
        yield store


def bodies(history: JournalHistory, behind: str | None = None) -> list[object]:
    found = [one.message for one in history.messages(behind)]
    return [message.body for message in found if isinstance(message, Message)]


def texts(first: int, end: int) -> list[str]:
    return [f"{number}" for number in range(first, end)]


def test_all_that_was_sent_is_there_consumed_or_not(tmp_path: Path, store: JournaledStore) -> None:
    send(store, 60)
    consumed(store, ORDERS)
    store.checkpoint()
    send(store, 40, first=60)

    found = list(history(tmp_path).messages(None))

    assert [one.message.body for one in found if isinstance(one.message, Message)] == texts(0, 100)
    assert {one.destination for one in found} == {ORDERS}
    for number in (0, 59, 60, 99):
        assert bodies(history(tmp_path), found[number].position) == texts(number + 1, 100)


def test_files_may_be_kept_elsewhere(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    with open_store(tmp_path, journal_archive_directory=str(archive)) as store:
        send(store, 60)
        store.checkpoint()
        send(store, 40, first=60)

        assert bodies(JournalHistory(tmp_path / "journal", archive=archive)) == texts(0, 100)
    kept = bodies(JournalHistory(archive))
    assert kept == texts(0, len(kept))
    assert len(kept) > 40


def test_it_is_chosen_by_destination_and_time(tmp_path: Path, store: JournaledStore) -> None:
    send(store, 10)
    send(store, 10, to=NEWS, first=10)

    assert bodies(history(tmp_path, "queue://ORDERS")) == texts(0, 10)
    assert bodies(history(tmp_path, "topic://NEWS.>")) == texts(10, 20)
    assert bodies(history(tmp_path, "queue://OTHERS")) == []
    times = {"since_ms": LONG_AGO + 5, "until_ms": LONG_AGO + 15}
    assert bodies(history(tmp_path, **times)) == texts(5, 15)


def test_a_transaction_is_there_if_it_was_committed(tmp_path: Path, store: JournaledStore) -> None:
    for number in range(3):
        branch = store.xa.start(XATransactionId(1, b"%d" % number, b""))
        branch.queue(ORDERS).add_message(Message(f"xa {number}"))
        assert branch.prepare()
    with store.transaction() as transaction:
        for body in ("one", "two"):
            transaction.queue(ORDERS).add_message(Message(body))
    store.checkpoint()
    store.xa.commit(XATransactionId(1, b"0", b""))
    store.xa.rollback(XATransactionId(1, b"1", b""))

    assert bodies(history(tmp_path)) == ["one", "two", "xa 0"]


def test_a_transaction_is_there_whose_prepare_is_kept_no_longer(
    tmp_path: Path, store: JournaledStore
) -> None:
    xid = XATransactionId(1, b"long", b"")
    branch = store.xa.start(xid)
    for body in ("first", "second"):
        branch.queue(ORDERS).add_message(Message(body))
    assert branch.prepare()
    send(store, 30)
    store.checkpoint()
    store.xa.commit(xid)
    send(store, 30, first=30)
    store.checkpoint()
    file_of(tmp_path, 1).unlink()

    found = list(history(tmp_path).messages(None))

    sent = [one.message.body for one in found if isinstance(one.message, Message)]
    assert sent == [*texts(62 - len(found), 30), "first", "second", *texts(30, 60)]
    assert len(sent) < 62, "the prepare was in a file that is gone"
    first = sent.index("first")
    assert bodies(history(tmp_path), found[first].position) == sent[first + 1 :]


def test_what_comes_after_its_beginning_is_not_replayed(
    tmp_path: Path, store: JournaledStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into the same store: what it delivers is in the journal, too."""
    monkeypatch.setattr("jdbcstore.tools.pages.PAGE", 7)
    send(store, 50)

    assert replay(history(tmp_path), store, ORDERS).messages == 50

    assert [message.body for message in consumed(store, ORDERS)] == texts(0, 50) * 2


CHILD = """
import os, signal, sys
from pathlib import Path
from jdbcstore.stores.shared import transaction
from jdbcstore.tools import pages
from jdbcstore.tools.replay import replay
from tests.support.tools.journals import history, open_store
from tests.support.tools.replayed import AGAIN

when, at, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
pages.PAGE, commit, calls = 10, transaction.BufferedTransaction.commit, []

def dying(self):
    calls.append(self)
    if when == "before" and len(calls) == at:
        os.kill(os.getpid(), signal.SIGKILL)
    references = commit(self)
    if len(calls) == at:
        os.kill(os.getpid(), signal.SIGKILL)
    return references

transaction.BufferedTransaction.commit = dying
replay(history(folder, "queue://ORDERS"), open_store(folder), AGAIN)
"""


def test_killed_again_and_again_each_message_is_delivered_once(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        send(store, 100)
        consumed(store, ORDERS)
    delivered: list[object] = []
    for when, at in (("behind", "3"), ("before", "3")):
        died = run_program(CHILD, when, at, str(tmp_path))
        assert died.returncode == -signal.SIGKILL, died.stderr
        with open_store(tmp_path) as store:
            delivered += [message.body for message in consumed(store)]
    with open_store(tmp_path) as store:
        assert replay(history(tmp_path, "queue://ORDERS"), store, AGAIN).before == 50
        delivered += [message.body for message in consumed(store)]
        assert store.queue(MARKS).message_count() == 0
    assert delivered == texts(0, 100)


def spoil_header(path: Path) -> None:
    path.write_bytes(b"?" + path.read_bytes()[1:])


@pytest.mark.parametrize(
    ("spoil", "error"), [(flip, CorruptJournal), (Path.unlink, CorruptJournal)], ids=["damaged", "missing"]
)
def test_damage_is_no_gap(tmp_path: Path, spoil: Callable[[Path], None], error: type[Exception]) -> None:
    with open_store(tmp_path) as store:
        send(store, 100)
    spoil(file_of(tmp_path, 2))

    with pytest.raises(error) as raised:
        bodies(history(tmp_path))
    assert isinstance(raised.value, CorruptJournal)
    assert raised.value.segment == 2


@pytest.mark.parametrize("spoil", [flip, spoil_header, Path.unlink])
def test_who_is_told_of_damage_has_the_rest(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    with open_store(tmp_path) as store:
        send(store, 100)
    whole = file_of(tmp_path, 2).read_bytes()
    spoil(file_of(tmp_path, 2))
    told: list[CorruptJournal] = []

    found = bodies(history(tmp_path, on_damage=told.append))

    missing = [number for number in range(100) if f"{number}" not in found]
    assert 0 < len(missing) < 50
    assert found == [text for text in texts(0, 100) if int(text) not in missing]
    assert missing == [*range(missing[0], missing[-1] + 1)]
    [error] = told
    assert error.segment == 2
    assert 0 <= error.offset < len(whole)


def test_files_whose_time_is_over_are_no_gap_either(tmp_path: Path, store: JournaledStore) -> None:
    """A replay that had not come to them ends; one that begins then has what there is."""
    send(store, 100)
    position = next(history(tmp_path).messages(None)).position
    file_of(tmp_path, 1).unlink()

    with pytest.raises(StoresDiffer, match="were removed before the replay reached them"):
        next(history(tmp_path).messages(position))
    left = bodies(history(tmp_path))
    assert left == texts(100 - len(left), 100)
    assert 0 < len(left) < 100
