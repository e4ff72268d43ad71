"""What is queued can be withdrawn; what has begun cannot."""

from __future__ import annotations

from jdbcstore.testing.contract.test_cancelling import *
