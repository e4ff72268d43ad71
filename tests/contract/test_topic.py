"""Topics and durable subscriptions: each reads like a queue of its own."""

from __future__ import annotations

from jdbcstore.testing.contract.test_topic import *
