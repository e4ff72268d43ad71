"""The table of selectors, as ActiveMQ's own parser answers it."""

from __future__ import annotations

from tests.support.interop.activemq import Peer
from tests.support.interop.typed import describe
from tests.support.selector.table import CASES, MESSAGE


def test_activemq_differs_where_the_table_says(peer: Peer) -> None:
    results = peer.select([case.text for case in CASES], describe(MESSAGE))
    said = {case.text: result for case, result in zip(CASES, results, strict=True)}
    assert said == {case.text: case.activemq for case in CASES}
