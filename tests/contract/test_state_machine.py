"""JdbcStore and MemoryStore under random operations and restarts."""

from __future__ import annotations

import pytest

import jdbcstore
from jdbcstore import Store
from tests.contract.conftest import empty
from tests.support.backends import Backend
from tests.support.clock import FakeClock
from tests.support.contract.machine import StoreMachine, run
from tests.support.databases import Database

EXAMPLES = {"sqlite": 60, "postgresql": 10}
FEW = 3
"""Where it takes longer, and would find little that it does not find on those."""


@pytest.mark.variants("statements")
@pytest.mark.slow
@pytest.mark.new_database
def test_no_operations_tell_them_apart(database: Database, backend: Backend) -> None:
    options = {"cleanup_period": 0, **backend.variant.options}

    def new_machine() -> StoreMachine:
        clock = FakeClock()

        def open_store() -> Store:
            return jdbcstore.open(database.url, clock=clock, **options)

        def reopen() -> Store:
            machine.real.close()
            return open_store()

        model = jdbcstore.open("memory:", clock=clock, **options)
        real = open_store()
        empty(database)
        machine = StoreMachine(model, real, reopen, clock)
        return machine

    run(new_machine, EXAMPLES.get(backend.label, FEW))
