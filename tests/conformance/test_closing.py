"""What is left of a store when it is closed."""

from __future__ import annotations

import threading

import pytest

from jdbcstore.errors import StoreClosed
from tests.conftest import OpenStore

pytestmark = pytest.mark.usefixtures("database")


@pytest.mark.parametrize("attempt", range(5))
def test_closed_at_once(open_store: OpenStore, attempt: int) -> None:
    """The fixture finds a connection that background work took while the store was closing."""
    open_store(cleanup_period=0.001 * attempt)


def test_closed_under_readers(open_store: OpenStore) -> None:
    store = open_store()
    queue = store.queue("A")
    reading = threading.Barrier(4)
    ends: list[type[BaseException]] = []

    def read() -> None:
        queue.message_count()
        reading.wait()
        try:
            while True:
                queue.message_count()
        except StoreClosed as closed:
            ends.append(type(closed))

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    reading.wait()
    store.close()
    for thread in threads:
        thread.join()

    assert ends == [StoreClosed] * 3
