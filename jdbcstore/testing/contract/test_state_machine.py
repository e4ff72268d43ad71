"""The store under test and MemoryStore under random operations and restarts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jdbcstore import MemoryStore, Store, StoreConfig
from jdbcstore.testing.clock import FakeClock
from jdbcstore.testing.machine import StoreMachine, run
from jdbcstore.testing.provider import OpenStore
from jdbcstore.testing.without import TABLES_ALONE


@TABLES_ALONE
@pytest.mark.variants("statements")
@pytest.mark.slow
@pytest.mark.needs("durable")
@pytest.mark.new_database
def test_no_operations_tell_them_apart(
    open_store: OpenStore, empty_database: Callable[[], None], examples: int
) -> None:
    def new_machine() -> StoreMachine:
        clock = FakeClock()

        def reopen() -> Store:
            machine.real.close()
            return open_store(clock=clock)

        model = MemoryStore(StoreConfig(cleanup_period=0), clock=clock)
        real = open_store(clock=clock)
        empty_database()
        machine = StoreMachine(model, real, reopen, clock)
        return machine

    run(new_machine, examples)
