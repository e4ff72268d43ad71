"""Recovering in pages: each message once, in delivery order, whatever happens between two pages."""

from __future__ import annotations

from jdbcstore.testing.contract.test_paging import *
