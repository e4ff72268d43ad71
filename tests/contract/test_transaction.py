"""Local transactions: all of it commits, or nothing."""

from __future__ import annotations

from jdbcstore.testing.contract.test_transaction import *
