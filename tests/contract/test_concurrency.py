"""Many threads at once: no reader misses a message, nothing is lost, stored twice or half."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Engine, text

from jdbcstore.testing import OpenStore
from jdbcstore.testing.contract.test_concurrency import *
from jdbcstore.testing.contract.test_concurrency import END, Readers, add_while_reading
from jdbcstore.testing.without import ONE_STORE
from tests.support.cli.zygote import fork_program
from tests.support.databases import Database


def raw(readers: Readers, name: str, engine: Engine, container: str) -> Callable[[], None]:
    """Read as any other program would, in keyset pages of its own."""
    query = text("SELECT ID, MSG FROM ACTIVEMQ_MSGS WHERE CONTAINER = :c AND ID > :last ORDER BY ID LIMIT 12")

    def read() -> None:
        found = readers.found.setdefault(name, [])
        last = 0
        with engine.connect() as connection:
            while True:
                rows = connection.execute(query, {"c": container, "last": last}).all()
                readers.turned[name] += bool(rows)
                for sequence, blob in rows:
                    last = sequence
                    if END.encode() in bytes(blob):
                        return
                    found.append(sequence)

    return read


OTHER_PROCESS = f"""
import json, sys
from jdbcstore import JdbcStore
from jdbcstore.config import StoreConfig
found, cursor, turned = [], None, 0
with JdbcStore(sys.argv[1], StoreConfig(cleanup_period=0), read_only=True) as store:
    queue = store.queue("ORDERS")
    print("ready", flush=True)
    while True:
        page = queue.recover(10, cursor)
        cursor = page.cursor
        turned += bool(page)
        for message in page:
            if message.body == {END!r}:
                json.dump([found, turned], sys.stdout)
                sys.exit()
            found.append(message.sequence)
"""


@contextlib.contextmanager
def other_process(readers: Readers, url: str) -> Iterator[None]:
    """A process that reads along, and what it found."""
    with fork_program(OTHER_PROCESS, url, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield
        found, turned = json.loads(process.stdout.read())
    readers.found["process"], readers.turned["process"] = found, turned


@ONE_STORE
@pytest.mark.slow
def test_no_reader_in_another_session_misses_one(open_store: OpenStore, database: Database) -> None:
    """Another store, a raw connection and another process, all on keyset pages."""
    store, other = open_store(), open_store()
    readers = Readers()
    tasks = [
        readers.through("store", other.queue("ORDERS"), 7),
        raw(readers, "raw", database.engine, "queue://ORDERS"),
    ]

    with other_process(readers, database.url):
        added = add_while_reading(store, tasks)

    assert readers.found.keys() == {"store", "raw", "process"}
    for name, found in readers.found.items():
        assert found == added, name
        assert readers.turned[name] > 50, f"{name} read everything at once: nothing was tested"
