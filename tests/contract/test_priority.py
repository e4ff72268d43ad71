"""Destinations that deliver by priority, and those that do not."""

from __future__ import annotations

from jdbcstore.testing.contract.test_priority import *
