"""Expired messages: found and removed when asked, by the store's clock."""

from __future__ import annotations

from jdbcstore.testing.contract.test_expiry import *
