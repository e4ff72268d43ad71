"""JdbcStore and MemoryStore under random operations and restarts."""

from __future__ import annotations

from jdbcstore.testing.contract.test_state_machine import *
