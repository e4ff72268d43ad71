"""Batches: many messages, or many acknowledgements, in one call with one future."""

from __future__ import annotations

import pytest

from jdbcstore.testing import OpenStore
from jdbcstore.testing.contract.test_batches import *
from jdbcstore.testing.contract.test_batches import batch
from jdbcstore.testing.without import IN_THE_JOURNAL, ONE_STORE
from tests.support.cli.zygote import run_program
from tests.support.databases import Database

IN_ANOTHER_PROCESS = """
import sys, jdbcstore
with jdbcstore.open(sys.argv[1]) as store:
    print([message.body for message in store.queue("ORDERS").recover()])
"""


@ONE_STORE
@IN_THE_JOURNAL
@pytest.mark.ours
def test_another_process_sees_a_batch_whose_future_is_done(open_store: OpenStore, database: Database) -> None:
    queue = open_store().queue("ORDERS")
    first, *_ = queue.add_messages_async(batch("a", "b", "c")).result(180)
    queue.add_each_async(batch("d", "e")).result(180)
    queue.acknowledge_async(first, first.sequence + 3).result(180)
    seen = run_program(IN_ANOTHER_PROCESS, database.url)
    assert seen.stdout.strip() == "['b', 'c', 'e']"
