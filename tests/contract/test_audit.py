"""The duplicate audit: a message that is sent again is not stored again."""

from __future__ import annotations

from jdbcstore.testing.contract.test_audit import *
