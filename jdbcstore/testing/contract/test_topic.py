"""Topics and durable subscriptions: each reads like a queue of its own."""

from __future__ import annotations

import pytest

from jdbcstore import Destination, Message, Store, SubscriptionInfo, TopicMessageStore
from jdbcstore.errors import InvalidDestination, InvalidSubscription, SubscriptionExists, SubscriptionNotFound
from jdbcstore.testing.messages import bodies, content, fill
from jdbcstore.testing.polling import wait_until
from jdbcstore.testing.provider import OpenStore
from jdbcstore.testing.tables import RawTables
from jdbcstore.testing.without import TOPICS_ELSEWHERE

PRICES = Destination.topic("PRICES")


def test_a_new_subscription_starts_behind_the_last_message(topic: TopicMessageStore) -> None:
    fill(topic, "before")

    subscription = topic.subscribe("client", "ticker")

    assert subscription.message_count() == 0
    assert content(subscription) == []
    fill(topic, "after")
    assert content(subscription) == ["after"]
    assert subscription.message_count() == 1


def test_a_retroactive_one_starts_at_the_first_message_stored(store: Store, topic: TopicMessageStore) -> None:
    fill(store.queue("ORDERS"), "not ours")
    references = fill(topic, "gone", "a", "b")
    topic.acknowledge(references[0])

    subscription = topic.subscribe("client", "ticker", retroactive=True)

    assert content(subscription) == ["a", "b"]
    assert subscription.message_count() == 2


def test_it_is_taken_up_where_it_was_left(topic: TopicMessageStore) -> None:
    first = topic.subscribe("client", "ticker")
    fill(topic, "a", "b")
    first.acknowledge(first.recover()[0])

    again = topic.subscribe("client", "ticker", retroactive=True)

    assert content(again) == ["b"]
    assert content(topic.subscription("client", "ticker")) == ["b"]


def test_each_subscription_has_its_own_messages(topic: TopicMessageStore) -> None:
    first, second = topic.subscribe("client", "first"), topic.subscribe("client", "second")
    other = topic.subscribe("other", "first")
    a, _, c = fill(topic, "a", "b", "c")

    first.acknowledge(a)
    second.acknowledge(c)

    assert content(first) == ["b", "c"]
    assert content(second) == ["a", "b"]
    assert content(other) == ["a", "b", "c"]
    assert (first.message_count(), second.message_count(), other.message_count()) == (2, 2, 3)
    assert content(topic) == ["a", "b", "c"]
    assert topic.message_count() == 3


def test_topics_have_their_own_subscriptions(store: Store) -> None:
    prices, news = store.topic("PRICES"), store.topic("NEWS")
    ticker, reader = prices.subscribe("client", "s"), news.subscribe("client", "s")
    fill(prices, "a")
    fill(news, "b")

    ticker.acknowledge(*ticker.recover())

    assert content(reader) == ["b"]
    news.unsubscribe("client", "s")
    assert prices.subscriptions() == [SubscriptionInfo("client", "s", PRICES, PRICES)]


def test_a_queue_and_a_topic_of_one_name_are_two(store: Store) -> None:
    queue, topic = store.queue("X"), store.topic("X")
    fill(queue, "queued")
    fill(topic, "published")

    assert content(queue) == ["queued"]
    assert content(topic) == ["published"]
    assert store.topic("topic://X").destination == topic.destination
    with pytest.raises(InvalidDestination, match="topic\\(\\)"):
        store.queue("topic://X")
    with pytest.raises(InvalidDestination, match="queue\\(\\)"):
        store.topic(Destination.queue("X"))


def test_what_a_subscription_is(store: Store) -> None:
    topic, pattern = store.topic("PRICES.OIL"), Destination.topic("PRICES.>")

    topic.subscribe("client", "all", selector="price > 10", subscribed_destination=pattern)
    topic.subscribe("client", "plain")

    expected = SubscriptionInfo("client", "all", topic.destination, pattern, "price > 10")
    plain = SubscriptionInfo("client", "plain", topic.destination, topic.destination)
    assert topic.subscription("client", "all").info == expected
    assert sorted(topic.subscriptions(), key=lambda info: info.subscription_name) == [expected, plain]


@pytest.mark.ours
def test_the_selector_is_not_applied(store: Store) -> None:
    subscription = store.topic("PRICES").subscribe("client", "ticker", selector="n = 2")
    store.topic("PRICES").add_message(Message("a", properties={"n": 1}))

    assert content(subscription) == ["a"]


def test_another_selector_or_pattern_is_refused(topic: TopicMessageStore) -> None:
    topic.subscribe("client", "ticker", selector="a = 1")

    with pytest.raises(SubscriptionExists, match="unsubscribe"):
        topic.subscribe("client", "ticker", selector="a = 2")
    with pytest.raises(SubscriptionExists):
        topic.subscribe("client", "ticker")
    with pytest.raises(SubscriptionExists):
        topic.subscribe("client", "ticker", selector="a = 1", subscribed_destination=Destination.topic("P.>"))

    topic.unsubscribe("client", "ticker")
    assert topic.subscribe("client", "ticker", selector="a = 2").info.selector == "a = 2"


def test_unsubscribing(store: Store, topic: TopicMessageStore) -> None:
    subscription = topic.subscribe("client", "ticker")
    fill(topic, "a")

    topic.unsubscribe("client", "ticker")

    assert topic.subscriptions() == []
    for use in (
        subscription.recover,
        subscription.message_count,
        lambda: subscription.acknowledge(*topic.recover()),
        lambda: topic.subscription("client", "ticker"),
        lambda: topic.unsubscribe("client", "ticker"),
        lambda: store.transaction().topic("PRICES").acknowledge_subscription("client", "ticker", 1),
    ):
        with pytest.raises(SubscriptionNotFound):
            use()
    # The next one of this name starts afresh.
    assert content(topic.subscribe("client", "ticker")) == []
    fill(topic, "b")
    assert content(topic.subscription("client", "ticker")) == ["b"]


def test_unknown_subscriptions_are_not_found(topic: TopicMessageStore) -> None:
    topic.subscribe("client", "ticker")

    for client_id, name in (("client", "other"), ("other", "ticker")):
        with pytest.raises(SubscriptionNotFound, match=name):
            topic.subscription(client_id, name)
        with pytest.raises(LookupError):
            topic.unsubscribe(client_id, name)


def test_removing_a_message_for_all(topic: TopicMessageStore) -> None:
    subscription = topic.subscribe("client", "ticker")
    a, b, _ = fill(topic, "a", "b", "c")

    topic.acknowledge(b)
    topic.acknowledge_async(a.message_id).result(180)

    assert content(topic) == ["c"]
    assert content(subscription) == ["c"]
    assert subscription.message_count() == 1


def test_purging_keeps_subscriptions(topic: TopicMessageStore) -> None:
    subscription = topic.subscribe("client", "ticker")
    fill(topic, *map(str, range(1_200)))
    subscription.acknowledge(*topic.recover(limit=10)[5:])

    assert topic.remove_all_messages() == 1_200

    assert subscription.message_count() == 0
    fill(topic, "new")
    assert content(subscription) == ["new"]


def test_updates_reach_subscribers(topic: TopicMessageStore) -> None:
    subscription = topic.subscribe("client", "ticker")
    fill(topic, "a")

    topic.update_message(topic.recover()[0].replace(body="A"))

    assert content(subscription) == ["A"]


@pytest.mark.ours
@pytest.mark.parametrize("wrong", ["", "x" * 251, "nul\0", "half \ud800"])
def test_names_that_the_tables_cannot_hold(topic: TopicMessageStore, wrong: str) -> None:
    with pytest.raises(InvalidSubscription, match="client_id"):
        topic.subscribe(wrong, "ticker")
    with pytest.raises(InvalidSubscription, match="subscription_name"):
        topic.subscribe("client", wrong)
    if wrong:
        with pytest.raises(InvalidSubscription, match="selector"):
            topic.subscribe("client", "ticker", selector=wrong)

    assert topic.subscriptions() == []
    with pytest.raises(SubscriptionNotFound):
        topic.subscription(wrong, wrong)


@pytest.mark.ours
def test_a_pattern_that_the_tables_cannot_hold(topic: TopicMessageStore) -> None:
    for pattern in ("x" * 250, "A,B"):
        with pytest.raises(InvalidDestination):
            topic.subscribe("client", "ticker", subscribed_destination=Destination.topic(pattern))

    assert topic.subscriptions() == []


@pytest.mark.variants("renamed", "statements")
def test_the_longest_names_fit(store: Store) -> None:
    longest = "\N{SNOWMAN}" * 250
    topic = store.topic("t" * 242)

    topic.subscribe(longest[1:] + "c", longest[1:] + "s", selector=longest)

    [info] = topic.subscriptions()
    assert (info.client_id, info.subscription_name, info.selector) == (
        longest[1:] + "c",
        longest[1:] + "s",
        longest,
    )


def test_cleanup_removes_what_all_have_acknowledged(store: Store, topic: TopicMessageStore) -> None:
    first, second = topic.subscribe("client", "first"), topic.subscribe("client", "second")
    alone = store.topic("ALONE")
    fill(alone, "nobody subscribed")
    queue = store.queue("ORDERS")
    fill(queue, "queued")
    a, b, c, d = fill(topic, "a", "b", "c", "d")
    first.acknowledge(a, b, d)
    second.acknowledge(a, d, c)
    reported: list[int] = []

    assert store.cleanup(reported.append) == 2

    assert sum(reported) == 2
    assert content(topic) == ["b", "c"]
    assert content(first) == ["c"]
    assert content(second) == ["b"]
    assert content(alone) == ["nobody subscribed"]
    assert content(queue) == ["queued"]
    assert store.cleanup() == 0


def test_cleanup_takes_what_was_there_before_the_first_subscription(
    store: Store, topic: TopicMessageStore
) -> None:
    fill(topic, "nobody waits for this")
    subscription = topic.subscribe("client", "ticker")
    fill(topic, "a")

    assert store.cleanup() == 1
    assert content(topic) == content(subscription) == ["a"]


def test_cleanup_follows_who_leaves(store: Store, topic: TopicMessageStore) -> None:
    quick = topic.subscribe("client", "quick")
    topic.subscribe("client", "slow")
    fill(topic, *map(str, range(2_100)))
    quick.acknowledge(*topic.recover(2_050))
    assert store.cleanup() == 0

    topic.unsubscribe("client", "slow")

    assert store.cleanup() == 2_050
    assert content(quick) == list(map(str, range(2_050, 2_100)))


def test_cleanup_in_the_background(open_store: OpenStore) -> None:
    topic = open_store(cleanup_period=0.01).topic("PRICES")
    subscription = topic.subscribe("client", "ticker")
    a, _ = fill(topic, "a", "b")
    subscription.acknowledge(a)

    wait_until(lambda: topic.message_count() == 1)
    assert content(topic) == ["b"]


@TOPICS_ELSEWHERE
def test_rows_of_a_subscription(store: Store, database: RawTables) -> None:
    topic = store.topic("PRICES.OIL")
    fill(store.queue("ORDERS"), "moves the sequence")
    topic.subscribe("client", "all", selector="a = 1", subscribed_destination=Destination.topic("PRICES.>"))
    topic.subscribe("client", "early", retroactive=True)

    columns = "CONTAINER, SUB_DEST, CLIENT_ID, SUB_NAME, SELECTOR, LAST_ACKED_ID, PRIORITY, XID"
    here = "topic://PRICES.OIL"
    assert database.rows(f"SELECT {columns} FROM ACTIVEMQ_ACKS ORDER BY SUB_NAME") == [
        (here, "topic://PRICES.>", "client", "all", "a = 1", 1, 0, None),
        (here, here, "client", "early", None, -1, 0, None),
    ]


@TOPICS_ELSEWHERE
def test_a_subscription_that_another_process_made(topic: TopicMessageStore, database: RawTables) -> None:
    fill(topic, "a", "b")
    database.execute(
        "INSERT INTO ACTIVEMQ_ACKS (CONTAINER, SUB_DEST, CLIENT_ID, SUB_NAME, LAST_ACKED_ID, PRIORITY)"
        " VALUES ('topic://PRICES', 'topic://PRICES', 'java', 'ticker', 1, 0)"
    )

    subscription = topic.subscribe("java", "ticker")

    assert content(subscription) == ["b"]
    assert bodies(topic.subscription("java", "ticker").recover()) == ["b"]
    subscription.acknowledge(2)
    assert database.rows("SELECT LAST_ACKED_ID FROM ACTIVEMQ_ACKS") == [(2,)]
