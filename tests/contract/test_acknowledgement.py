"""Acknowledgements of a durable subscription in any order, and the mark that ActiveMQ reads."""

from __future__ import annotations

import pytest

from jdbcstore import TopicMessageStore
from jdbcstore.database.adapters.sql import Row
from jdbcstore.stores.jdbc import acknowledgements as acknowledgement
from jdbcstore.stores.jdbc.topic import JdbcTopicMessageStore
from jdbcstore.testing import OpenStore
from jdbcstore.testing.contract.test_acknowledgement import *
from jdbcstore.testing.contract.test_acknowledgement import ahead, marks
from jdbcstore.testing.messages import content, fill
from jdbcstore.testing.without import IN_THE_JOURNAL, TOPICS_ELSEWHERE
from tests.support.databases import Database


@IN_THE_JOURNAL
@TOPICS_ELSEWHERE
@pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
@pytest.mark.parametrize("prioritized", [False, True])
def test_a_gap_that_closes_while_a_page_is_read(
    open_store: OpenStore, database: Database, monkeypatch: pytest.MonkeyPatch, prioritized: bool
) -> None:
    """What was acknowledged before is not seen again, and what is behind it is not missed."""
    topic = open_store().topic("PRICES", prioritized=prioritized)
    subscription = topic.subscribe("client", "ticker")
    first, *others = fill(topic, *map(str, range(8)))
    subscription.acknowledge(*others[:4])
    assert len(ahead(database)) == 4
    marks = JdbcTopicMessageStore.marks

    def close(self: JdbcTopicMessageStore, *names: str) -> list[Row]:
        rows = marks(self, *names)
        monkeypatch.undo()
        subscription.acknowledge(first)
        return rows

    for limit in (2, 100):
        monkeypatch.setattr(JdbcTopicMessageStore, "marks", close)
        page = subscription.recover(limit)
        assert [message.body for message in page] == ["5", "6", "7"][:limit]
        assert page.at_end == (limit == 100)
        assert ahead(database) == []


@TOPICS_ELSEWHERE
@pytest.mark.slow
@pytest.mark.variants
def test_far_ahead_of_the_mark(
    topic: TopicMessageStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Further than what is remembered of a window: the tables know the rest."""
    monkeypatch.setattr(acknowledgement, "_WINDOW", 2_000)  # as it is, so many messages take long
    subscription = topic.subscribe("client", "ticker")
    references = fill(topic, *map(str, range(2_400)))

    subscription.acknowledge(references[-1], references[2_200])
    assert subscription.message_count() == 2_398
    assert len(ahead(database)) == 2
    subscription.acknowledge(*references[1:2_300])
    assert content(subscription) == ["0", *map(str, range(2_300, 2_399))]
    subscription.acknowledge(references[0])
    assert marks(database) == [2_300]
    subscription.acknowledge(*references)
    assert (marks(database), ahead(database)) == ([2_400], [])
    assert content(subscription) == []
