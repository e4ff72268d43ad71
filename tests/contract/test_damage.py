"""Rows that do not decode: they stay, they are told of, and the others are still delivered."""

from __future__ import annotations

from jdbcstore.testing.contract.test_damage import *
