"""Durable subscriptions on a database whose writes take their time: cases of test_durable.py."""

from __future__ import annotations

import pytest

from tests.broker.test_durable import (
    test_a_prioritised_topic,
    test_a_transaction_outlives_its_consumer,
    test_after_a_restart_it_goes_on,
    test_what_is_not_stored_keeps_its_place_behind_what_is,
    test_what_is_rejected_is_redelivered_and_then_dead,
    test_wildcards_have_a_row_for_each_topic,
)

pytestmark = pytest.mark.backends("postgresql")

__all__ = [
    "test_a_prioritised_topic",
    "test_a_transaction_outlives_its_consumer",
    "test_after_a_restart_it_goes_on",
    "test_what_is_not_stored_keeps_its_place_behind_what_is",
    "test_what_is_rejected_is_redelivered_and_then_dead",
    "test_wildcards_have_a_row_for_each_topic",
]
