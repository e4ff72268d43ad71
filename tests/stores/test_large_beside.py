"""Large bodies in pieces beside what cannot keep them: each refuses with a sentence, and loses nothing."""

from __future__ import annotations

import gc
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import jdbcstore
from jdbcstore import BodyType, Destination, Message, StoreConfig
from jdbcstore.config import load_file
from jdbcstore.database.connection import Connection
from jdbcstore.database.engine import Database as Target
from jdbcstore.database.migrations import migration_of
from jdbcstore.errors import SchemaError, StoreError
from jdbcstore.message.openwire.pieces import LargeBody, body_in_pieces, with_body_in_pieces
from jdbcstore.stores.claims import Claims
from jdbcstore.stores.jdbc.large import JdbcLargeBodies
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.tools import transfer
from jdbcstore.util.clock import SystemClock


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Of a store with one small and one large message."""
    url = f"sqlite:///{tmp_path}/large.db"
    with JdbcStore(url) as store:
        body = store.large_bodies.begin()
        store.large_bodies.add(body, 0, b"content")
        body.end(7)
        store.queue("Q").add_message(Message("small"))
        store.queue("Q").add_message(with_body_in_pieces(Message(), BodyType.BYTES, body))
    return url


def configuration(folder: Path, text: str) -> jdbcstore.Configuration:
    file = folder / "jdbcstore.toml"
    file.write_text(text)
    return load_file(file)


def test_a_journal_does_not_open(url: str, tmp_path: Path) -> None:
    journaled = configuration(tmp_path, f'url = "{url}"\n[journal]\ndirectory = "{tmp_path}/journal"')
    with pytest.raises(StoreError, match=r"large bodies in pieces in .*consume them without the journal"):
        jdbcstore.open(journaled)
    with JdbcStore(url) as store:
        store.queue("Q").remove_all_messages()
        store.cleanup()
    with jdbcstore.open(journaled) as store:
        store.queue("Q").add_message(Message("small"))


def test_a_copy_has_the_pieces_too(url: str, tmp_path: Path) -> None:
    there = f"sqlite:///{tmp_path}/there.db"
    source, target = (configuration(tmp_path, f'url = "{one}"') for one in (url, there))
    assert transfer.copy(source, target).messages == 2
    assert transfer.copy(source, target).messages == 0
    with JdbcStore(there) as store:
        _, message = store.queue("Q").recover()
        assert b"".join(store.large_bodies.pieces_of(message)) == b"content"
        store.queue("Q").acknowledge(message)
        del message
        gc.collect()
        store.cleanup()
        assert not store.large_bodies.exist()
    with JdbcStore(url) as store:
        assert store.large_bodies.exist()


def test_the_way_back_to_activemq_is_refused(url: str) -> None:
    target = Target(url, StoreConfig())
    with (
        pytest.raises(SchemaError, match=r"ID 2 in .* has its body in pieces, which no ActiveMQ"),
        migration_of(target, "activemq") as migration,
    ):
        migration.run()
    with JdbcStore(url) as store:
        store.queue("Q").remove_all_messages()
    with migration_of(target, "activemq") as migration:
        migration.run()
    with JdbcStore(url) as store:
        assert isinstance(store.large_bodies.begin(), LargeBody)


class SlowWriter:
    """The writer of a store, whose second transaction waits."""

    def __init__(self, store: JdbcStore) -> None:
        self._call = store._writes.call
        self._calls = itertools.count(1)
        self.is_waiting, self.may_go_on = threading.Event(), threading.Event()

    def call(self, function: Callable[[Connection], Any]) -> Any:
        if next(self._calls) == 2:
            self.is_waiting.set()
            assert self.may_go_on.wait(60)
        return self._call(function)


def test_a_cleanup_returns_when_what_another_removes_is_gone(url: str) -> None:
    with JdbcStore(url) as store, ThreadPoolExecutor() as threads:
        store.queue("Q").remove_all_messages()
        writer: Any = SlowWriter(store)
        bodies = JdbcLargeBodies(store._session, writer, SystemClock(), is_master=True, period=0)
        first = threads.submit(bodies.clean)
        assert writer.is_waiting.wait(60)
        second = threads.submit(lambda: (bodies.clean(), bodies.exist()))
        with suppress(TimeoutError):
            second.result(timeout=0.2)  # it is not to end now
        writer.may_go_on.set()
        assert first.result() == 1
        assert second.result() == (0, False)


def test_claims_see_all_but_the_body(url: str) -> None:
    with Claims(url) as claims:
        queue = claims.queue("Q")
        small, large = queue.claim(2)
        assert small.message.body == "small"
        assert large.message.body_size == 7
        assert body_in_pieces(large.message) is not None
        with pytest.raises(StoreError, match="7 bytes is kept in pieces"):
            _ = large.message.body
        queue.acknowledge(small)
    with JdbcStore(url) as store:
        [message] = store.queue("Q").recover()
        assert b"".join(store.large_bodies.pieces_of(message)) == b"content"


def test_two_stores_do_not_take_it_from_each_other(url: str, tmp_path: Path) -> None:
    with JdbcStore(url) as store, JdbcStore(f"sqlite:///{tmp_path}/there.db") as other:
        _, message = store.queue("Q").recover()
        with pytest.raises(StoreError, match="are not in this store"):
            other.queue("Q").add_message(message.replace(destination=Destination.queue("Q")))
