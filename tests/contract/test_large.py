"""Large bodies in pieces: there as long as a message has them, and gone afterwards."""

from __future__ import annotations

import pytest

from jdbcstore import Store
from jdbcstore.errors import InvalidMessage
from jdbcstore.stores.memory.store import MemoryStore
from jdbcstore.testing.contract import test_large
from jdbcstore.testing.contract.test_large import *


def test_another_store_refuses_it(store: Store) -> None:
    with MemoryStore() as memory, pytest.raises(InvalidMessage, match="kept in pieces"):
        memory.queue("ORDERS").add_message(test_large.large(store))
