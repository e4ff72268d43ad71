"""XA transactions: what is prepared survives, is hidden until its outcome, and has one."""

from __future__ import annotations

from jdbcstore.testing.contract.test_xa import *
