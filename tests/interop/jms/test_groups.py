"""Message groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.interop.jms.conftest import Connect
from tests.support.broker.openwire.jms import CLIENT, Jms, take


def of(client: Jms, group: str, body: str, sequence: int = 0) -> Any:
    message = client.text(body, JMSXGroupID=group)
    message.setIntProperty("JMSXGroupSeq", sequence)
    return message


def which(consumers: Sequence[Any]) -> tuple[int, Any]:
    """The consumer that gets the next message, and the message."""
    while True:
        for number, consumer in enumerate(consumers):
            message = consumer.receive(10)
            if message is not None:
                return number, message


def test_a_group_stays_with_one_consumer(connect: Connect, queue: str) -> None:
    one, two = connect(), connect()
    consumers = [one.consumer(queue), two.consumer(queue)]
    one.send(queue, *(of(one, "g", str(number)) for number in range(6)))
    number, first = which(consumers)
    assert first.getBooleanProperty("JMSXGroupFirstForConsumer")
    rest = [take(consumers[number]) for _ in range(5)]
    assert [str(message.getText()) for message in rest] == ["1", "2", "3", "4", "5"]
    assert not any(message.getBooleanProperty("JMSXGroupFirstForConsumer") for message in rest)
    assert consumers[1 - number].receiveNoWait() is None


def test_groups_are_shared_out(connect: Connect, queue: str) -> None:
    clients = [connect(), connect()]
    consumers = [client.consumer(queue) for client in clients]
    clients[0].send(queue, *(of(clients[0], group, group) for group in "abcd" * 2))
    received = [client.texts(consumer, 4) for client, consumer in zip(clients, consumers, strict=True)]
    assert [len({*bodies}) for bodies in received] == [2, 2]
    assert sorted(received[0] + received[1]) == sorted("abcd" * 2)


def test_a_group_is_closed(connect: Connect, queue: str) -> None:
    """The message that closes it is its last one; after that it may go to anyone."""
    one, two = connect(), connect()
    consumer = one.consumer(queue)
    one.send(queue, of(one, "g", "1"), of(one, "g", "last", -1))
    assert one.texts(consumer, 2) == ["1", "last"]
    other = two.consumer(queue)
    one.send(queue, of(one, "h", "to one"))
    number, _ = which([consumer, other])
    one.send(queue, of(one, "g", "to the other"))
    message = take([other, consumer][number])
    assert str(message.getText()) == "to the other"
    assert message.getBooleanProperty("JMSXGroupFirstForConsumer")


def test_a_group_that_begins_again(connect: Connect, queue: str) -> None:
    """A sequence of 1 makes a consumer its owner, even if it has one."""
    one = connect()
    consumer = one.consumer(queue)
    one.send(queue, of(one, "g", "1", 1), of(one, "g", "2", 2), of(one, "g", "again", 1))
    assert one.texts(consumer, 3) == ["1", "2", "again"]


def test_a_group_moves_when_its_consumer_closes(connect: Connect, queue: str) -> None:
    one, two = connect(), connect()
    consumer = one.consumer(queue)
    one.send(queue, of(one, "g", "1"))
    assert one.texts(consumer, 1) == ["1"]
    other = two.consumer(queue)
    consumer.close()
    one.send(queue, of(one, "g", "2"))
    moved = take(other)
    assert str(moved.getText()) == "2"
    assert moved.getBooleanProperty("JMSXGroupFirstForConsumer")


def test_a_group_moves_with_what_is_not_acknowledged(client: Jms, queue: str) -> None:
    with Jms(client.url, CLIENT) as other:
        consumer = other.consumer(queue)
        client.send(queue, *(of(client, "g", str(number)) for number in range(4)))
        assert other.texts(consumer, 2) == ["0", "1"]
        heir = client.consumer(queue)
    messages = [take(heir) for _ in range(4)]
    assert [str(message.getText()) for message in messages] == ["0", "1", "2", "3"]
    assert [bool(message.getJMSRedelivered()) for message in messages] == [True, True, False, False]


def test_new_groups_go_to_the_consumer_with_fewest(connect: Connect, queue: str) -> None:
    one, two = connect(), connect()
    first = one.consumer(queue)
    one.send(queue, of(one, "a", "a"), of(one, "b", "b"))
    assert one.texts(first, 2) == ["a", "b"]
    second = two.consumer(queue)
    one.send(queue, of(one, "c", "c"), of(one, "d", "d"))
    assert two.texts(second, 2) == ["c", "d"]
    one.send(queue, of(one, "a", "a2"))
    assert one.texts(first, 1) == ["a2"]


def test_messages_without_a_group_go_to_anyone(connect: Connect, queue: str) -> None:
    one, two = connect(), connect()
    consumers = [one.consumer(queue), two.consumer(queue)]
    one.send(queue, of(one, "g", "g"), "1", "2", "3", of(one, "g", "g"), "4")
    received = [which(consumers) for _ in range(6)]
    assert len({number for number, message in received if str(message.getText()) == "g"}) == 1
    assert sorted(str(message.getText()) for _, message in received) == ["1", "2", "3", "4", "g", "g"]


def test_a_group_with_selectors(connect: Connect, queue: str) -> None:
    one, two = connect(), connect()
    red, blue = one.consumer(queue, "s = 'red'"), two.consumer(queue, "s = 'blue'")
    for colour in ("red", "blue"):
        message = of(one, f"of {colour}", colour)
        message.setStringProperty("s", colour)
        one.send(queue, message)
    assert one.texts(red, 1) == ["red"]
    assert two.texts(blue, 1) == ["blue"]


def test_a_group_in_transactions_stays_in_order(connect: Connect, queue: str) -> None:
    client, other = connect(), connect(None, jms__redeliveryPolicy__initialRedeliveryDelay=0)
    client.send(queue, *(of(client, "g", str(number)) for number in range(4)))
    consumer = other.consumer(queue)
    assert other.texts(consumer, 2) == ["0", "1"]
    other.session.rollback()
    assert other.texts(consumer, 4) == ["0", "1", "2", "3"]
    other.session.commit()


def test_a_closed_group_goes_to_another_consumer(connect: Connect, queue: str) -> None:
    one, two = connect(), connect()
    first = one.consumer(queue)
    one.send(queue, of(one, "g", "opens"))
    assert str(take(first).getText()) == "opens"
    second = two.consumer(queue)
    one.send(queue, of(one, "g", "closes", -1), of(one, "g", "opens again"))
    assert str(take(first).getText()) == "closes"
    assert str(take(second).getText()) == "opens again"
