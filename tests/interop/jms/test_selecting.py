"""Selectors, priorities, browsers."""

from __future__ import annotations

import pytest

from tests.interop.jms.conftest import Connect, RunningBroker
from tests.support.broker.openwire.jms import CLIENT, NON_PERSISTENT, Jms, elements, refused, take
from tests.support.interop.behaviours.brokers import PRIORITISED

# Selectors


def test_selectors(client: Jms, queue: str) -> None:
    client.send(queue, *(client.text(f"m{number}", n=number) for number in range(6)))
    assert client.texts(client.consumer(queue, "n > 3"), 2) == ["m4", "m5"]
    assert client.texts(client.consumer(queue, "n BETWEEN 1 AND 2 AND JMSPriority = 4"), 2) == ["m1", "m2"]
    assert client.browse(queue) == ["m0", "m3"]


@pytest.mark.parametrize(
    "selector",
    [
        "s = 'red' AND n = 5",
        "s LIKE 'r_d' AND NOT (s LIKE 'b%')",
        "s LIKE 'r\\_d' ESCAPE '\\' OR n IN ('x') OR b",
        "s IN ('red', 'green')",
        "s NOT IN ('blue')",
        "absent IS NULL AND n IS NOT NULL AND n < 6",
        "n * 2 + 1 = 11 AND n % 2 = 1 AND -n > -6",
        "d BETWEEN 1.4 AND 1.6",
        "b = TRUE AND n <> 6",
        "JMSType = 'kind'",
        "JMSCorrelationID = 'c'",
        "JMSDeliveryMode = 'PERSISTENT'",
        "JMSPriority > 6 AND JMSTimestamp > 0",
        "JMSMessageID LIKE 'ID:%' AND JMSDestination IS NOT NULL AND b",
        "JMSXGroupID = 'g'",
        "n >= 5 and n <= 5 and not (n = 6)",
        "n = 5L AND d = 1.5 AND n = 0x5 AND d = 15e-1",
    ],
)
def test_a_selector_matches(client: Jms, queue: str, selector: str) -> None:
    message = client.text("wanted", s="red", n=5, d=1.5, b=True, JMSXGroupID="g")
    message.setJMSType("kind")
    message.setJMSCorrelationID("c")
    other = client.text("<none/>", s="blue", n=6, d=2.5, b=False)
    client.send(queue, other, priority=1, mode=NON_PERSISTENT)
    client.send(queue, message, priority=7)
    assert client.browse(queue, selector) == ["wanted"]
    assert client.texts(client.consumer(queue, selector), 1) == ["wanted"]


@pytest.mark.parametrize("selector", ["n >", "n = = 1", "'a", "n LIKE 5", "n BETWEEN 1", "(n = 1"])
def test_an_invalid_selector_is_refused(client: Jms, queue: str, selector: str) -> None:
    with refused("InvalidSelectorException"):
        client.consumer(queue, selector)
    client.send(queue, "x")
    assert client.texts(client.consumer(queue), 1) == ["x"]


def test_what_a_selector_leaves_is_for_others(connect: Connect, queue: str) -> None:
    one, two = connect(), connect()
    red, rest = one.consumer(queue, "s = 'red'"), two.consumer(queue, "s <> 'red'")
    one.send(queue, *(one.text(str(number), s=("red", "blue")[number % 2]) for number in range(6)))
    assert one.texts(red, 3) == ["0", "2", "4"]
    assert two.texts(rest, 3) == ["1", "3", "5"]


def test_many_that_do_not_match_before_one_that_does(client: Jms, broker: RunningBroker, queue: str) -> None:
    """ActiveMQ looks at a page of 200 messages, and no further."""
    client.send(queue, *(client.text("no", n=number) for number in range(400)), mode=NON_PERSISTENT)
    client.send(queue, client.text("yes", n=-1), mode=NON_PERSISTENT)
    consumer = client.consumer(queue, "n < 0")
    if broker.either(activemq=False, ours=True):
        assert client.texts(consumer, 1) == ["yes"]
    else:
        assert consumer.receive(100) is None


def test_a_selector_of_xml(client: Jms, broker: RunningBroker, queue: str) -> None:
    client.send(queue, client.text("<colour><red/></colour>"))
    if broker.either(activemq=True, ours=False):
        assert len(client.browse(queue, "XPATH 'colour/red'")) == 1
    else:
        with refused("InvalidSelectorException"):
            client.browse(queue, "XPATH 'colour/red'")


def test_a_division(client: Jms, broker: RunningBroker, queue: str) -> None:
    client.send(queue, client.text("x", n=5))
    value = broker.either(activemq=2.5, ours=2)
    assert client.browse(queue, f"n / 2 = {value}") == ["x"]


# Priorities


def test_priorities(client: Jms) -> None:
    for priority in (1, 9, 4):
        client.send(PRIORITISED, f"p{priority}", priority=priority)
    assert client.texts(client.consumer(PRIORITISED), 3) == ["p9", "p4", "p1"]


def test_priorities_are_in_order_among_themselves(client: Jms) -> None:
    for number, priority in enumerate((4, 9, 4, 9)):
        client.send(PRIORITISED, str(number), priority=priority)
    assert client.browse(PRIORITISED) == ["1", "3", "0", "2"]
    assert client.texts(client.consumer(PRIORITISED), 4) == ["1", "3", "0", "2"]


def test_priorities_mean_nothing_elsewhere(client: Jms, queue: str) -> None:
    for priority in (4, 0, 9):
        client.send(queue, str(priority), priority=priority)
    assert client.texts(client.consumer(queue), 3) == ["4", "0", "9"]


def test_the_client_sorts_what_it_has_prefetched(client: Jms, queue: str) -> None:
    consumer = client.consumer(queue)
    client.connection.stop()
    for priority in (4, 0, 9):
        client.send(queue, str(priority), priority=priority)
    client.connection.start()
    assert sorted(client.texts(consumer, 3)) == ["0", "4", "9"]


def test_a_priority_that_does_not_exist(client: Jms, queue: str) -> None:
    producer = client.session.createProducer(client.destination(queue))
    with refused("IllegalStateException"):
        producer.setPriority(10)


# Browsers


@pytest.mark.parametrize("prefetch", [500, 1])
def test_browsing_consumes_nothing(connect: Connect, queue: str, prefetch: int) -> None:
    client = connect(jms__prefetchPolicy__queueBrowserPrefetch=prefetch)
    bodies = [f"m{number}" for number in range(1, 13)]
    client.send(queue, *bodies)
    for _ in range(2):
        assert client.browse(queue) == bodies
    consumer = client.consumer(queue)
    messages = [take(consumer) for _ in bodies]
    assert not any(message.getJMSRedelivered() for message in messages)
    assert client.browse(queue) == []


def test_browsing_with_a_selector(client: Jms, queue: str) -> None:
    client.send(queue, client.text("a", k="1"), client.text("b", k="2"))
    assert client.browse(queue, "k = '2'") == ["b"]
    assert client.browse(queue, "k = '3'") == []


def test_browsing_what_others_have_in_flight(connect: Connect, client: Jms, queue: str) -> None:
    client.send(queue, "m1", "m2")
    other = connect(CLIENT)
    take(other.consumer(queue))
    assert client.browse(queue) == ["m1", "m2"]


def test_browsing_messages_that_are_not_persistent(client: Jms, queue: str) -> None:
    client.send(queue, "m1", "m2", mode=NON_PERSISTENT)
    assert client.browse(queue) == ["m1", "m2"]


def test_browsing_what_was_sent_without_a_response(connect: Connect, queue: str) -> None:
    client, bodies = connect(jms__useAsyncSend="true"), [str(number) for number in range(20)]
    client.send(queue, *bodies)
    assert client.browse(queue) == bodies


def test_one_browser_twice(client: Jms, queue: str) -> None:
    browser = client.session.createBrowser(client.destination(queue))
    for count in (1, 2):
        client.send(queue, "x")
        assert len([*elements(browser.getEnumeration())]) == count
    assert str(browser.getQueue()) == f"queue://{queue}"


def test_a_browser_of_a_transacted_session(connect: Connect, client: Jms, queue: str) -> None:
    client.send(queue, "m1")
    other = connect(None)
    assert other.browse(queue) == ["m1"]
    other.session.rollback()
    assert other.browse(queue) == ["m1"]


def test_a_browser_sees_headers(client: Jms, queue: str) -> None:
    message = client.text("x", k="v")
    message.setJMSCorrelationID("c")
    client.send(queue, message, priority=8)
    [seen] = elements(client.session.createBrowser(client.destination(queue)).getEnumeration())
    assert str(seen.getJMSMessageID()) == str(message.getJMSMessageID())
    assert str(seen.getJMSCorrelationID()) == "c"
    assert seen.getJMSPriority() == 8
    assert str(seen.getStringProperty("k")) == "v"
