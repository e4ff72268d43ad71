"""A queue: messages are there, in order, until they are acknowledged."""

from __future__ import annotations

import threading

import pytest

from jdbcstore import (
    BodyType,
    Destination,
    Message,
    MessageId,
    MessageReference,
    MessageStore,
    ProducerId,
    Store,
    TopicMessageStore,
)
from jdbcstore.abc import Reference
from jdbcstore.errors import InvalidDestination, InvalidMessage, MessageNotFound, StoreClosed
from jdbcstore.testing.clock import FakeClock
from jdbcstore.testing.messages import bodies, content, fill, message_id, sequences
from jdbcstore.testing.provider import OpenStore
from jdbcstore.testing.tables import RawTables
from jdbcstore.testing.without import REFERENCES


def test_messages_come_back_in_the_order_they_were_added(queue: MessageStore) -> None:
    references = [queue.add_message(Message(body)) for body in "abc"]

    page = queue.recover()

    assert bodies(page) == ["a", "b", "c"]
    assert [reference.sequence for reference in references] == [1, 2, 3]
    assert [message.sequence for message in page] == [1, 2, 3]
    assert [message.message_id for message in page] == [reference.message_id for reference in references]
    assert page.at_end


def test_recovering_hides_nothing(queue: MessageStore) -> None:
    fill(queue, "a", "b")

    assert bodies(queue.recover()) == bodies(queue.recover()) == ["a", "b"]


def test_a_message_gets_id_destination_and_timestamp(open_store: OpenStore, clock: FakeClock) -> None:
    queue = open_store(clock=clock).queue("ORDERS")

    reference = queue.add_message(Message("a"))
    stored = queue.get_message(reference.sequence)

    assert stored.message_id == reference.message_id
    assert stored.destination == Destination.queue("ORDERS")
    assert stored.timestamp_ms == clock.now_ms()
    assert stored.producer_id == reference.message_id.producer_id


def test_given_names_and_times_are_kept(store: Store) -> None:
    given = Message(
        "a", message_id=message_id(7), timestamp_ms=1_234, destination=Destination.queue("ORDERS")
    )

    reference = store.queue("ORDERS").add_message(given)
    stored = store.queue("ORDERS").get_message(reference.sequence)

    assert reference.message_id == stored.message_id == message_id(7)
    assert stored.timestamp_ms == 1_234
    assert stored.original_destination is None


@pytest.mark.ours
def test_a_message_for_elsewhere_remembers_where_it_was_sent(store: Store) -> None:
    sent = Message("a", destination=Destination.topic("PRICES"))

    reference = store.queue("ORDERS").add_message(sent)
    stored = store.queue("ORDERS").get_message(reference.sequence)

    assert stored.destination == Destination.queue("ORDERS")
    assert stored.original_destination == Destination.topic("PRICES")


@pytest.mark.ours
def test_an_id_of_another_system_is_kept_as_text(queue: MessageStore) -> None:
    reference = queue.add_message(Message("a", message_id=MessageId.parse("order 17")))
    stored = queue.get_message(reference.message_id)

    assert stored.message_id == reference.message_id
    assert stored.message_id is not None
    assert stored.message_id.text_view == "order 17"
    assert stored.message_id.producer_id is not None


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("two pints \N{BEER MUG}", BodyType.TEXT),
        (b"\0\xff", BodyType.BYTES),
        ({"pints": 2, "name": "x"}, BodyType.MAP),
        ((1, "two", b"3"), BodyType.STREAM),
        (None, BodyType.MESSAGE),
    ],
)
def test_body_headers_and_properties_come_back(store: Store, body: object, kind: BodyType) -> None:
    sent = Message(
        body,  # type: ignore[arg-type]
        priority=7,
        expiration_ms=9_000_000_000_000,
        correlation_id="c",
        reply_to=Destination.queue("ANSWERS"),
        jms_type="order",
        properties={"n": 1, "s": "\0\N{SNOWMAN}", "f": 1.5, "b": True, "nothing": None},
        group_id="g",
        group_sequence=3,
        persistent=False,
        redelivery_counter=2,
        user_id="me",
    )
    queue = store.queue("ORDERS")

    [stored] = [queue.get_message(queue.add_message(sent).message_id)]

    assert stored.body_type is kind
    assert stored == sent.replace(
        message_id=stored.message_id,
        producer_id=stored.producer_id,
        destination=Destination.queue("ORDERS"),
        timestamp_ms=stored.timestamp_ms,
    )


def test_many_messages_get_consecutive_sequences(queue: MessageStore) -> None:
    queue.add_message(Message("first"))

    references = fill(queue, *map(str, range(1_000)))

    assert [reference.sequence for reference in references] == list(range(2, 1_002))
    assert content(queue) == ["first", *map(str, range(1_000))]
    assert queue.add_messages([]) == []


def test_many_messages_are_stored_all_or_none(queue: MessageStore) -> None:
    unfit = Message("bad", message_id=message_id(1, ProducerId("x" * 300, 1, 1)))

    with pytest.raises(InvalidMessage):
        queue.add_messages([Message("good"), unfit, Message("good")])

    assert queue.message_count() == 0
    assert queue.add_message(Message("next")).sequence == 1


@pytest.mark.slow
def test_futures_complete_in_order(queue: MessageStore) -> None:
    futures = [queue.add_message_async(Message(str(number))) for number in range(2_000)]
    references = [future.result(180) for future in futures]

    assert [reference.sequence for reference in references] == list(range(1, 2_001))
    assert content(queue) == list(map(str, range(2_000)))
    queue.acknowledge_async(*references[:1_999]).result(180)
    assert content(queue) == ["1999"]


def test_a_callback_may_use_the_store(store: Store) -> None:
    """Nothing is locked while a future completes: another store's work continues, and this one's."""
    queue, called = store.queue("ORDERS"), threading.Event()

    def again(_: object) -> None:
        queue.add_message_async(Message("second"))
        called.set()

    queue.add_message_async(Message("first")).add_done_callback(again)

    assert called.wait(180)
    queue.add_message(Message("third"))
    assert content(queue) == ["first", "second", "third"]


@pytest.mark.parametrize("by", ["message", "reference", "id", "sequence"])
def test_acknowledging_by_any_name(queue: MessageStore, by: str) -> None:
    references = fill(queue, "a", "b", "c")
    names: dict[str, Reference] = {
        "message": queue.recover()[1],
        "reference": references[1],
        "id": references[1].message_id,
        "sequence": references[1].sequence,
    }

    queue.acknowledge(names[by])

    assert content(queue) == ["a", "c"]
    queue.acknowledge(names[by])  # it is gone: no error
    assert queue.message_count() == 2


def test_a_message_that_was_only_given_an_id_is_a_name(queue: MessageStore) -> None:
    sent = Message("a", message_id=message_id(1))
    queue.add_message(sent)
    queue.add_message(Message("b"))

    queue.acknowledge(sent)

    assert content(queue) == ["b"]


def test_acknowledging_many_at_once_and_nothing(queue: MessageStore) -> None:
    references = fill(queue, *map(str, range(700)))

    queue.acknowledge()
    queue.acknowledge(*references[::2])

    assert content(queue) == [str(number) for number in range(1, 700, 2)]


@pytest.mark.ours
def test_what_has_no_name_cannot_be_acknowledged(queue: MessageStore) -> None:
    fill(queue, "a")

    with pytest.raises(InvalidMessage, match="without an id"):
        queue.acknowledge(Message("a"))

    assert queue.message_count() == 1


def test_acknowledging_what_never_was(queue: MessageStore) -> None:
    fill(queue, "a")

    queue.acknowledge(99, message_id(5), MessageReference(98, message_id(5)), MessageId.parse("foreign"))

    assert content(queue) == ["a"]


@pytest.mark.ours
@pytest.mark.parametrize("sequence", [-1, 2**63, -(2**80)])
def test_a_sequence_that_cannot_be(queue: MessageStore, topic: TopicMessageStore, sequence: int) -> None:
    subscription = topic.subscribe("client", "ticker")
    fill(queue, "a")
    fill(topic, "b")

    queue.acknowledge(sequence)
    topic.acknowledge(sequence)
    subscription.acknowledge(sequence, MessageReference(sequence, message_id(1)))
    with pytest.raises(MessageNotFound):
        queue.get_message(sequence)

    assert content(queue) == ["a"]
    assert content(subscription) == ["b"]


@pytest.mark.ours
@pytest.mark.parametrize("producer", ["half \ud800", "nul\0", "x" * 300])
def test_an_id_that_no_row_can_have(store: Store, producer: str) -> None:
    queue, unfit = store.queue("ORDERS"), ProducerId(producer, 1, 1)
    fill(queue, "a")

    with pytest.raises(InvalidMessage, match="connection id"):
        queue.add_message(Message("b", message_id=message_id(1, unfit)))
    with pytest.raises(MessageNotFound):
        queue.get_message(message_id(1, unfit))
    queue.acknowledge(message_id(1, unfit))

    assert store.last_producer_sequence_id(unfit) is None
    assert content(queue) == ["a"]


def test_another_queue_s_messages_are_not_here(store: Store) -> None:
    here, there = store.queue("HERE"), store.queue("THERE")
    [reference] = fill(there, "theirs")

    with pytest.raises(MessageNotFound):
        here.get_message(reference.sequence)
    with pytest.raises(MessageNotFound):
        here.get_message(reference.message_id)
    with pytest.raises(MessageNotFound):
        here.update_message(there.recover()[0])
    message = there.get_message(reference.sequence)
    here.acknowledge(reference.message_id, message)
    with store.transaction() as transaction:
        transaction.queue("HERE").acknowledge(reference.message_id, message)

    assert content(there) == ["theirs"]
    assert here.recover().messages == ()


@pytest.mark.one_writer
def test_a_sequence_of_another_destination_acknowledges_nothing(store: Store) -> None:
    orders, prices = store.queue("ORDERS"), store.topic("PRICES")
    ticker = prices.subscribe("client", "ticker")
    here, there = store.queue("HERE"), store.topic("THERE")
    reader = there.subscribe("client", "reader")
    theirs = [*fill(orders, "a", "b", "c"), *fill(prices, "d", "e", "f")]
    numbers = [reference.sequence for reference in theirs]
    fill(here, "mine")
    fill(there, "mine")

    for wrong in (here, there, reader):
        wrong.acknowledge(*theirs, *numbers)
        wrong.acknowledge_async(*theirs, *numbers).result()
    with store.transaction() as transaction:
        transaction.queue("HERE").acknowledge(*theirs, *numbers)
        transaction.topic("THERE").acknowledge(*theirs, *numbers)
        transaction.topic("THERE").acknowledge_subscription("client", "reader", *theirs, *numbers)

    assert content(orders) == ["a", "b", "c"]
    assert content(prices) == content(ticker) == ["d", "e", "f"]
    assert [orders.message_count(), here.message_count(), reader.message_count()] == [3, 1, 1]
    assert content(here) == content(there) == content(reader) == ["mine"]


def test_sequences_of_several_queues_acknowledged_in_one_commit(store: Store) -> None:
    names = [f"Q{number}" for number in range(5)]
    references = {name: fill(store.queue(name), "a", "b", "c") for name in names}

    with store.transaction() as transaction:
        for name in names:
            transaction.queue(name).acknowledge(*references[name][:2], references[names[0]][2])

    assert [content(store.queue(name)) for name in names] == [[], *[["c"]] * 4]


def test_a_message_that_is_gone_is_not_found(queue: MessageStore) -> None:
    [reference] = fill(queue, "a")
    message = queue.get_message(reference.sequence)
    queue.acknowledge(message)

    with pytest.raises(MessageNotFound, match="ORDERS"):
        queue.get_message(reference.sequence)
    with pytest.raises(MessageNotFound):
        queue.get_message(reference.message_id)
    with pytest.raises(MessageNotFound):
        queue.update_message(message)
    with pytest.raises(MessageNotFound):
        queue.get_message(MessageId.parse("never seen"))
    with pytest.raises(LookupError):
        queue.get_message(0)


def test_an_update_keeps_id_and_place(queue: MessageStore) -> None:
    references = fill(queue, "a", "b", "c")
    second = queue.get_message(references[1].sequence)

    queue.update_message(second.replace(redelivery_counter=1))
    queue.update_message(queue.get_message(second.sequence or 0).replace(body="B", properties={"p": 1}))

    stored = queue.recover()
    assert bodies(stored) == ["a", "B", "c"]
    assert stored[1].redelivery_counter == 1
    assert stored[1].properties == {"p": 1}
    assert (stored[1].message_id, stored[1].sequence) == (second.message_id, second.sequence)
    assert stored[1].timestamp_ms == second.timestamp_ms


def test_an_update_finds_the_message_by_its_id(queue: MessageStore) -> None:
    sent = Message("a", message_id=message_id(1))
    [reference] = queue.add_messages([sent])

    queue.update_message(sent.replace(body="A"))

    assert queue.get_message(reference.sequence).body == "A"


@pytest.mark.ours
def test_an_update_without_a_name_is_refused(store: Store) -> None:
    with pytest.raises(InvalidMessage, match="without an id"):
        store.queue("ORDERS").update_message(Message("a"))


def test_two_messages_may_have_one_id(store: Store) -> None:
    """Without the audit an id may come twice, as in ActiveMQ; acknowledging the id is for both."""
    queue = store.queue("ORDERS")
    first, second = queue.add_messages([Message(body, message_id=message_id(1)) for body in "ab"])

    assert queue.get_message(message_id(1)).body == "a"
    queue.acknowledge(first)
    assert queue.get_message(message_id(1)).body == "b"
    queue.add_message(Message("c", message_id=message_id(1)))
    queue.acknowledge(second.message_id)
    assert queue.message_count() == 0


@pytest.mark.slow
def test_purging(store: Store) -> None:
    queue, other = store.queue("ORDERS"), store.queue("OTHER")
    fill(queue, *map(str, range(2_500)))
    fill(other, "kept")
    reported: list[int] = []

    assert queue.remove_all_messages(reported.append) == 2_500

    assert queue.message_count() == 0
    assert sum(reported) == 2_500
    assert len(reported) > 1
    assert content(other) == ["kept"]
    assert queue.remove_all_messages() == 0


def test_statistics(queue: MessageStore) -> None:
    empty = queue.statistics()
    assert (empty.message_count, empty.message_bytes, empty.oldest_timestamp_ms) == (0, 0, None)

    references = queue.add_messages(Message("x" * 100, timestamp_ms=when) for when in (3_000, 1_000, 2_000))

    # The first that was stored, whatever its producer's clock said.
    full = queue.statistics()
    assert (full.message_count, full.oldest_timestamp_ms) == (3, 3_000)
    queue.acknowledge(references[0])
    rest = queue.statistics()
    assert (rest.message_count, rest.oldest_timestamp_ms) == (2, 1_000)
    assert rest.message_bytes == full.message_bytes // 3 * 2


@REFERENCES
def test_bytes_are_those_of_the_rows(queue: MessageStore, database: RawTables) -> None:
    fill(queue, "a", "two pints", "x" * 10_000)

    [(size,)] = database.rows(f"SELECT SUM({database.length}(MSG)) FROM ACTIVEMQ_MSGS")

    assert queue.statistics().message_bytes == size


def test_an_update_changes_the_bytes(queue: MessageStore) -> None:
    [reference] = fill(queue, "x")
    before = queue.statistics().message_bytes

    queue.update_message(queue.get_message(reference.sequence).replace(body="x" * 1_001))

    assert queue.statistics().message_bytes == before + 1_000
    assert queue.message_count() == 1


def test_a_row_is_what_activemq_would_have_written(store: Store, database: RawTables) -> None:
    sent = Message("a", message_id=message_id(7), priority=9, expiration_ms=123)
    store.queue("ORDERS").add_message(sent)

    assert database.rows(
        "SELECT ID, CONTAINER, MSGID_PROD, MSGID_SEQ, EXPIRATION, PRIORITY, XID FROM ACTIVEMQ_MSGS"
    ) == [(1, "queue://ORDERS", "ID:machine-1-1:1:1:1", 7, 123, 0, None)]


def test_a_committed_row_is_there_for_others_when_add_returns(
    queue: MessageStore, database: RawTables
) -> None:
    count = "SELECT COUNT(*) FROM ACTIVEMQ_MSGS"

    reference = queue.add_message(Message("a"))
    assert database.rows(count) == [(1,)]
    fill(queue, "b", "c")
    assert database.rows(count) == [(3,)]
    queue.add_message_async(Message("d")).result(180)
    assert database.rows(count) == [(4,)]
    queue.acknowledge(reference)
    assert database.rows(count) == [(3,)]
    queue.remove_all_messages()
    assert database.rows(count) == [(0,)]


@pytest.mark.one_writer
def test_sequences_are_shared_by_all_destinations(store: Store) -> None:
    first, second = store.queue("FIRST"), store.topic("SECOND")
    for number in range(3):
        first.add_message(Message(str(number)))
        second.add_message(Message(str(number)))

    assert sequences(first) == [1, 3, 5]
    assert sequences(second) == [2, 4, 6]
    assert store.last_sequence() == 6


def test_the_last_sequence_of_a_producer(store: Store) -> None:
    producer, other = ProducerId("ID:a-1-1:1", 1, 1), ProducerId("ID:a-1-1:1", 1, 2)
    assert store.last_producer_sequence_id(producer) is None

    store.queue("A").add_message(Message("x", message_id=message_id(5, producer)))
    store.topic("B").add_message(Message("x", message_id=message_id(9, producer)))
    store.queue("A").add_message(Message("x", message_id=message_id(100, other)))

    assert store.last_producer_sequence_id(producer) == 9
    assert store.last_producer_sequence_id(other) == 100


@pytest.mark.ours
@pytest.mark.variants("journaled", "filtered")
def test_messages_stored_together_are_refused_alone(store: Store) -> None:
    """Each in its own destination; what is wrong with one is reported in its place."""
    orders, audit = Destination.queue("ORDERS"), Destination.topic("AUDIT")
    outcomes = store.add_each_async(
        [
            Message("0", destination=orders),
            Message("1", destination=audit),
            Message("of nowhere"),
            Message("2", destination=Destination.queue("OTHER.ORDERS")),
            Message("3", destination=orders, message_id=message_id(1, ProducerId("x" * 300, 1, 1))),
            Message("4", destination=orders),
            Message("5", destination=Destination.queue("a,b")),
        ]
    ).result(180)

    assert [type(outcomes[at]) for at in (2, 4, 6)] == [
        InvalidDestination,
        InvalidMessage,
        InvalidDestination,
    ]
    stored = [outcome for outcome in outcomes if isinstance(outcome, MessageReference)]
    assert [store.queue("ORDERS").get_message(stored[at].sequence).body for at in (0, 3)] == ["0", "4"]
    assert content(store.queue("ORDERS")) == ["0", "4"]
    assert content(store.topic("AUDIT")) == ["1"]
    assert content(store.queue("OTHER.ORDERS")) == ["2"]
    assert store.add_each_async([]).result(180) == []


@pytest.mark.ours
def test_nothing_is_stored_together_after_a_close(store: Store) -> None:
    store.close()

    with pytest.raises(StoreClosed):
        store.add_each_async([Message("x", destination=Destination.queue("Q"))]).result(180)
