"""Several stores out of one configuration, ActiveMQ's mKahaDB among them."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing, suppress
from pathlib import Path

import pytest

import jdbcstore
from jdbcstore import Configuration, Destination, Message, Store, XATransactionId, load_config
from jdbcstore.config import to_toml
from jdbcstore.errors import ConfigurationError, InvalidDestination, LockLost, NotMaster
from jdbcstore.stores.filtered import FilteredStore
from jdbcstore.stores.filtered.transaction import FORMAT
from jdbcstore.stores.io_exceptions import GuardedStore
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.stores.journaled import JournaledStore
from jdbcstore.stores.opening import Opening
from jdbcstore.testing.messages import content, fill
from tests.cli.conftest import Invoke, invoke

__all__ = ["invoke"]

SEVERAL = """
[[stores]]
queue = "ORDERS.>, BILLS"
data_source = {{ url = "sqlite:///{folder}/orders.db" }}

[[stores]]
topic = "PRICES.>"
data_source = {{ url = "memory:" }}

[[stores]]
directory = "{folder}/each"
per_destination = true
[stores.journal]
journal_log_file_size = "1 mb"
"""


def load(folder: Path, text: str = SEVERAL, name: str = "jdbcstore.toml") -> Configuration:
    path = folder / name
    path.write_text(text.format(folder=folder))
    return load_config(path, environment={}, cleanup_period=0.0)


def opened(configuration: Configuration) -> FilteredStore:
    store = jdbcstore.open(configuration)
    assert isinstance(store, FilteredStore)
    return store


def store_of(store: FilteredStore, name: str) -> Store:
    return store.routes.store_of(Destination.parse(name))


def test_each_destination_is_where_it_belongs(tmp_path: Path) -> None:
    configuration = load(tmp_path)
    with opened(configuration) as store:
        fill(store.queue("ORDERS.EU"), "a")
        fill(store.queue("BILLS"), "b")
        fill(store.topic("PRICES.X"), "c")
        fill(store.queue("OTHER"), "d")
        fill(store.queue("AN/OTHER"), "e")
        assert store_of(store, "BILLS") is store_of(store, "ORDERS.EU")
        assert isinstance(store_of(store, "queue://OTHER"), JournaledStore)

    with opened(configuration) as store:
        assert [str(one) for one in store.destinations()] == [
            *("queue://AN/OTHER", "queue://BILLS", "queue://ORDERS.EU", "queue://OTHER")
        ]
        assert content(store.queue("AN/OTHER")) == ["e"]
    with jdbcstore.open(f"sqlite:///{tmp_path}/orders.db") as orders:
        assert sorted(map(str, orders.destinations())) == ["queue://BILLS", "queue://ORDERS.EU"]


def test_a_transaction_over_stores_of_their_own(tmp_path: Path) -> None:
    configuration = load(tmp_path)
    with opened(configuration) as store:
        with store.transaction() as transaction:
            for name in ("A", "B", "ORDERS"):
                transaction.queue(name).add_message(Message(name))
        assert [content(store.queue(name)) for name in ("A", "B", "ORDERS")] == [["A"], ["B"], ["ORDERS"]]


@pytest.mark.parametrize("decided", [False, True])
def test_what_was_left_undecided_is_finished_when_it_is_found_again(tmp_path: Path, decided: bool) -> None:
    """The coordinator is the store of the first queue: as it has it, so has the other."""
    configuration = load(tmp_path)
    with opened(configuration) as store:
        coordinator, other = store_of(store, "FIRST"), store_of(store, "SECOND")
        xid = XATransactionId(FORMAT, b"left", store.routes.name_of(coordinator))
        for one, name in ((coordinator, "FIRST"), (other, "SECOND")):
            branch = one.xa.start(xid)
            branch.queue(name).add_message(Message(name))
            assert branch.prepare()
        if decided:
            coordinator.xa.commit(xid)

    with opened(configuration) as store:
        found = [content(store.queue(name)) for name in ("FIRST", "SECOND")]
        assert found == ([["FIRST"], ["SECOND"]] if decided else [[], []])
        assert [one.xa.recover() for one in store.routes.stores] == [[]] * len(store.routes.stores)


def test_read_only_nothing_is_made_or_finished(tmp_path: Path) -> None:
    configuration = load(tmp_path)
    with opened(configuration) as store:
        fill(store.queue("A"), "a")
        fill(store.queue("ORDERS"), "b")

    with Opening(configuration, read_only=True).open() as store:
        assert isinstance(store, FilteredStore)
        assert isinstance(store_of(store, "A"), JdbcStore)
        assert (content(store.queue("A")), content(store.queue("ORDERS"))) == (["a"], ["b"])
        with pytest.raises(ConfigurationError, match="opened with read_only"):
            store.queue("A").add_message(Message("x"))
        with pytest.raises(InvalidDestination, match="nothing was ever stored there"):
            store.queue("B")
    assert len([*tmp_path.glob("each/*")]) == 1


def test_each_has_the_lock(tmp_path: Path) -> None:
    text = '[locker]\ntype = "shared-file-locker"\ndirectory = "{folder}/locks"\n' + SEVERAL
    configuration = load(tmp_path, text)
    with opened(configuration) as store:
        fill(store.queue("A"), "a")

        with pytest.raises(NotMaster):
            Opening(configuration, lock_timeout=0.0).open()

    opened(configuration).close()
    assert len([*tmp_path.glob("locks/*/lock"), *tmp_path.glob("each/queue_A-*/lock")]) == 2


def test_the_first_lock_that_is_lost_ends_it(tmp_path: Path) -> None:
    text = '[locker]\ntype = "lease-database-locker"\n' + SEVERAL
    told: list[LockLost] = []
    with opened(load(tmp_path, text)) as store:
        assert isinstance(store, GuardedStore)
        assert store.fence is not None
        store.fence.on_lost(told.append)
        fill(store.queue("OTHER"), "a")
        store.check()
        with closing(sqlite3.connect(next(tmp_path.glob("each/*/jdbcstore.db")))) as raw:
            raw.execute("UPDATE JDBCSTORE_STATE SET NUMBER = NUMBER + 1 WHERE NAME = 'epoch'")
            raw.commit()

        with pytest.raises(LockLost):
            store.check()

        assert store.fence.lost is not None
        assert len(told) == 1


MKAHADB = """<broker><persistenceAdapter><mKahaDB directory="{folder}/mkahadb"><filteredPersistenceAdapters>
<filteredKahaDB queue="ORDERS.&gt;"><persistenceAdapter><kahaDB journalMaxFileLength="1mb"/>
</persistenceAdapter></filteredKahaDB>
<filteredKahaDB perDestination="true"><persistenceAdapter><kahaDB journalMaxFileLength="1mb"/>
</persistenceAdapter></filteredKahaDB>
</filteredPersistenceAdapters></mKahaDB></persistenceAdapter></broker>"""
KAHADB = """<broker><persistenceAdapter><kahaDB directory="{folder}/kahadb" journalMaxFileLength="1mb"/>
</persistenceAdapter></broker>"""
ARTEMIS = """<configuration><core><journal-directory>{folder}/j</journal-directory>
<bindings-directory>{folder}/b</bindings-directory><journal-file-size>1M</journal-file-size></core></configuration>"""


@pytest.mark.parametrize("text", [MKAHADB, KAHADB, ARTEMIS], ids=["mKahaDB", "kahaDB", "Artemis"])
def test_a_store_in_files_works_and_so_does_its_toml(tmp_path: Path, text: str) -> None:
    configuration = load(tmp_path, text, "activemq.xml")
    (tmp_path / "made.toml").write_text(to_toml(configuration, "activemq.xml"))
    made = load_config(tmp_path / "made.toml", environment={}, cleanup_period=0.0)

    with jdbcstore.open(configuration) as store:
        fill(store.queue("ORDERS.EU"), "a", "b")
        store.topic("NEWS").subscribe("client", "reader")
        fill(store.topic("NEWS"), "c")
        store.queue("ORDERS.EU").acknowledge(store.queue("ORDERS.EU").recover()[0])

    with jdbcstore.open(made) as store:
        assert content(store.queue("ORDERS.EU")) == ["b"]
        assert content(store.topic("NEWS").subscription("client", "reader")) == ["c"]


def threads() -> int:
    return sum(thread.name.startswith("jdbcstore") for thread in threading.enumerate())


def files_open_in(folder: Path) -> int:
    """Others are those of earlier tests and of Java."""
    places = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile, as that of this directory
            places.append(descriptor.readlink())
    return sum(place.is_relative_to(folder) for place in places)


def test_a_folder_has_so_many_stores_of_one_destination(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever names clients invent."""
    monkeypatch.setattr("jdbcstore.stores.filtered.routes.MOST", 2)
    configuration = load(tmp_path)
    names = [f"N{number}" for number in range(8)]
    with opened(configuration) as store:
        for name in names[:3]:
            fill(store.queue(name), name)
        before, open_files = threads(), files_open_in(tmp_path)
        for name in names[3:]:
            fill(store.queue(name), name)
        store.topic("NEWS").subscribe("client", "reader")
        assert threads() == before
        assert files_open_in(tmp_path) == open_files
        assert len({store_of(store, name) for name in names}) == 3
        assert caplog.text.count("others share one") == 1
        with store.transaction() as transaction:
            for name in names:
                transaction.queue(name).add_message(Message("all"))
        assert len(list((tmp_path / "each").iterdir())) == 3
    with opened(configuration) as store:
        assert [content(store.queue(name)) for name in names] == [[name, "all"] for name in names]
        assert [str(one) for one in store.destinations()] == [
            *(f"queue://{name}" for name in names),
            "topic://NEWS",
        ]
        assert len({store_of(store, name) for name in (*names, "NEW")}) == 3
        assert store_of(store, "topic://NEWS") is store_of(store, "N7")


def test_a_destination_that_is_deleted_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jdbcstore.stores.filtered.routes.MOST", 1)
    configuration = load(tmp_path)
    with opened(configuration) as store:
        before = threads()
        fill(store.queue("A"), "a", "b")
        fill(store.queue("B"), "shared")
        [folder] = [path for path in (tmp_path / "each").iterdir() if path.name != "shared"]
        assert store.delete_destination(Destination.queue("A")) == 2
        assert not folder.exists()
        assert store.delete_destination(Destination.queue("B")) == 1
        fill(store.queue("A"), "again")
        assert content(store.queue("A")) == ["again"]
        store.delete_destination(Destination.queue("A"))
        fill(store.queue("C"), "takes its place")
        assert store_of(store, "C") is not store_of(store, "B")
        with_shared = threads()
        store.delete_destination(Destination.queue("C"))
        assert threads() < with_shared
        assert before <= threads()
    with opened(configuration) as store:
        assert store.destinations() == []


def test_a_message_that_comes_while_its_destination_is_deleted_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = load(tmp_path)
    with opened(configuration) as store:
        fill(store.queue("A"), "a")
        own = store_of(store, "A")
        close = own.close

        def late(timeout: float | None = None) -> None:
            fill(own.queue("A"), "late")
            close(timeout)

        monkeypatch.setattr(own, "close", late)
        store.delete_destination(Destination.queue("A"))
        assert content(store.queue("A")) == ["late"]
    with opened(configuration) as store:
        assert content(store.queue("A")) == ["late"]


def test_too_many_of_before_are_opened_while_there_is_something_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = load(tmp_path)
    with opened(configuration) as store:
        for name in ("A", "B", "C", "D"):
            store.queue(name).acknowledge(*fill(store.queue(name), "x"))
        fill(store.queue("E"), "kept")
    monkeypatch.setattr("jdbcstore.stores.filtered.routes.MOST", 2)
    with opened(configuration) as store:
        assert [str(one) for one in store.destinations()] == ["queue://E"]
        assert len(list((tmp_path / "each").iterdir())) == 3
        assert content(store.queue("E")) == ["kept"]


def test_commands_use_them(tmp_path: Path, invoke: Invoke) -> None:
    load(tmp_path)

    assert invoke("send", "Q", "x").code == 0
    assert invoke("browse", "Q", "--json").json["body"] == "x"
    refused = invoke("status")
    assert refused.code == 3
    assert "there are several stores, and this needs one database; name it with --url" in refused.err
    assert invoke("consume", "Q", "--json").json["body"] == "x"


WRONG = {
    "nowhere": ("[[stores]]\nqueue = 'A'", "a store has a data_source or a directory; give one"),
    "twice": (
        "[[stores]]\nqueue = 'A'\ndirectory = 'a'\n[[stores]]\nqueue = 'B'\ndirectory = 'a'",
        "two stores are in a; put their patterns into one",
    ),
    "each": (
        "[[stores]]\nper_destination = true\ndata_source = {{ url = 'memory:' }}",
        "per_destination needs a directory",
    ),
    "pattern": ("[[stores]]\nqueue = ''\ndirectory = 'a'", "a destination needs a name"),
    "unknown": ("[[stores]]\nqeue = 'A'\ndirectory = 'a'", "did you mean queue?"),
    "journal": ("[[stores]]\ndirectory = 'a'\n[journal]", "each of stores has its own journal; put it there"),
    "url": ("url = 'memory:'\n[[stores]]\ndirectory = 'a'", "each of stores has its own url; put it there"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_has_a_place_and_a_cure(tmp_path: Path, what: str) -> None:
    text, told = WRONG[what]

    with pytest.raises(ConfigurationError) as raised:
        load(tmp_path, text)

    assert told in str(raised.value)
    assert str(raised.value).startswith(f"{tmp_path}/jdbcstore.toml")


def test_what_cannot_be_opened_has_its_place(tmp_path: Path) -> None:
    configuration = load(tmp_path, SEVERAL.replace("sqlite:///{folder}/orders.db", "frobnicate://h/d"))

    with pytest.raises(ConfigurationError, match=r"no\. 1, \[stores\.data_source\]: no adapter"):
        jdbcstore.open(configuration)


def test_a_destination_of_nobody(tmp_path: Path) -> None:
    with opened(load(tmp_path, "[[stores]]\nqueue = 'A.>'\ndirectory = '{folder}/a'")) as store:
        fill(store.queue("A.B"), "x")
        with pytest.raises(InvalidDestination, match="no route matches queue://B"):
            store.queue("B")


def test_a_folder_that_lost_its_name(tmp_path: Path) -> None:
    with opened(load(tmp_path)) as store:
        fill(store.queue("A"), "a")
    [name] = tmp_path.glob("each/*/destination")
    name.write_bytes(b"\xff")

    with pytest.raises(ConfigurationError, match="does not say which destination's store is in its folder"):
        jdbcstore.open(load(tmp_path))


def test_a_url_from_elsewhere_stands_for_all(tmp_path: Path) -> None:
    load(tmp_path)

    configuration = load_config(tmp_path / "jdbcstore.toml", environment={"JDBCSTORE_URL": "memory:"})

    assert (configuration.stores, configuration.data_source.url) == ((), "memory:")
