"""Names are as long as the configured types allow, and not one character longer; nothing is cut."""

from __future__ import annotations

from jdbcstore.testing.contract.test_types import *
