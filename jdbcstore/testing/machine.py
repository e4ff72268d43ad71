"""Random operations on two stores that must not differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from jdbcstore import (
    Cursor,
    Destination,
    Message,
    MessageReference,
    MessageStore,
    Store,
    TopicMessageStore,
    Transaction,
    XATransactionId,
)
from jdbcstore.abc import Recoverable, Reference
from jdbcstore.errors import StoreError
from jdbcstore.stores.filtered.transaction import FORMAT, is_ours
from jdbcstore.testing.clock import FakeClock
from jdbcstore.testing.messages import message_id

numbers = st.integers(0, 1_000)
"""Stand for a thing of which it is not known yet how many there are: taken modulo that."""
some_numbers = st.lists(numbers, max_size=6)
names = st.sampled_from(["message", "reference", "id", "sequence"])
kinds = st.sampled_from(["add", "ack", "update", "sub"])
limits = st.sampled_from([1, 2, 3, 7, 500])

TWO_PHASES = XATransactionId(FORMAT, bytes(16), bytes(8))
"""Stands for the id of any transaction over several stores; they are random."""

SUBSCRIBERS = (("a", "s"), ("a", "t"), ("b", "s"))


class Place(NamedTuple):
    """A destination, and how it is used."""

    name: str
    is_topic: bool
    prioritized: bool

    @property
    def destination(self) -> Destination:
        return Destination.topic(self.name) if self.is_topic else Destination.queue(self.name)

    def on(self, store: Store) -> MessageStore:
        return self.on_topic(store) if self.is_topic else store.queue(self.name, prioritized=self.prioritized)

    def on_topic(self, store: Store) -> TopicMessageStore:
        return store.topic(self.name, prioritized=self.prioritized)


TOPICS = (Place("plain", True, False), Place("by.priority", True, True))
PLACES = (*TOPICS, Place("plain", False, False), Place("by.priority", False, True))
places, topics = st.sampled_from(PLACES), st.sampled_from(TOPICS)
messages = st.fixed_dictionaries(
    {
        "priority": st.sampled_from([0, 4, 9]),
        "lifetime": st.sampled_from([None, None, -1, 1_000, 5_000]),
        "id": st.sampled_from(["own", "own", "own", "old"]),
        "size": st.sampled_from([0, 1, 300]),
    }
)


Step = tuple[str, Place, dict[str, Any], int]


class TransactionStep(NamedTuple):
    """One write of a transaction; ``adds_to`` is where it adds a message, if it does."""

    adds_to: Place | None
    write: Callable[[Transaction], None]


class StoreMachine(RuleBasedStateMachine):
    """``model`` says what ``real`` must do; ``reopen`` closes the real one and opens it again."""

    def __init__(self, model: Store, real: Store, reopen: Callable[[], Store], clock: FakeClock) -> None:
        super().__init__()
        self.model = model
        self.real = real
        self.reopen = reopen
        self.clock = clock
        self.sent: list[Message] = []
        self.references: dict[Place, list[MessageReference]] = {place: [] for place in PLACES}
        self.cursors: list[tuple[Callable[[Store], Recoverable], Cursor, Cursor]] = []

    def both(self, operation: Callable[[Store], Any]) -> Any:
        """Run an operation on both, and return its result, which is the same."""
        expected, result = attempt(operation, self.model), attempt(operation, self.real)
        assert result == expected
        return expected

    def both_adding(self, operation: Callable[[Store], Any], added: Sequence[Destination]) -> Any:  # noqa: ARG002
        """As :meth:`both`, of what adds messages to several destinations, unless it is refused."""
        return self.both(operation)

    def message(self, about: dict[str, Any]) -> Message:
        number = len(self.sent)
        if about["id"] == "old" and self.sent:
            number = about["size"] % len(self.sent)
        lifetime = about["lifetime"]
        message = Message(
            "x" * about["size"],
            message_id=message_id(number),
            timestamp_ms=self.clock.now_ms(),
            priority=about["priority"],
            expiration_ms=0 if lifetime is None else self.clock.now_ms() + lifetime,
            properties={"number": number},
        )
        self.sent.append(message)
        return message

    def reference(self, place: Place, number: int, by: str) -> Reference:
        """Return a name of a message that was once added there: its sequence, id or reference, or itself."""
        known = self.references[place]
        if not known:
            return 1_000_000 + number
        reference = known[number % len(known)]
        if by == "sequence":
            return reference.sequence
        if by == "id":
            return reference.message_id
        if by == "message":
            stored = attempt(lambda store: place.on(store).get_message(reference.sequence), self.model)
            if isinstance(stored, Message):
                return stored
        return reference

    def can_update(self, message: Message) -> bool:
        """Return whether the message alone changes: ActiveMQ's own statement finds all of its id."""
        statements = getattr(getattr(self.real, "config", None), "statements", {})
        same = sum(sent.message_id == message.message_id for sent in self.sent)
        return same < 2 or "updateMessageStatement" not in statements

    @rule(place=places, about=messages, how=st.sampled_from(["add", "async"]))
    def add(self, place: Place, about: dict[str, Any], how: str) -> None:
        message = self.message(about)
        if how == "add":
            reference = self.both(lambda store: place.on(store).add_message(message))
        else:
            reference = self.both(lambda store: place.on(store).add_message_async(message).result(180))
        self.references[place].append(reference)

    @rule(place=places, about=st.lists(messages, max_size=8))
    def add_many(self, place: Place, about: list[dict[str, Any]]) -> None:
        added = [self.message(item) for item in about]
        self.references[place] += self.both(lambda store: place.on(store).add_messages(added))

    @rule(place=places, about=st.lists(messages, max_size=5))
    def add_without_waiting(self, place: Place, about: list[dict[str, Any]]) -> None:
        added = [self.message(item) for item in about]

        def add(store: Store) -> list[MessageReference]:
            futures = [place.on(store).add_message_async(message) for message in added]
            return [future.result(180) for future in futures]

        self.references[place] += self.both(add)

    @rule(place=places, which=some_numbers, by=names)
    def acknowledge(self, place: Place, which: list[int], by: str) -> None:
        done = [self.reference(place, number, by) for number in which]
        self.both(lambda store: place.on(store).acknowledge(*done))

    @rule(place=places, number=numbers, by=names, size=st.integers(0, 40))
    def update(self, place: Place, number: int, by: str, size: int) -> None:
        message = self.reference(place, number, "message")
        if isinstance(message, Message) and self.can_update(message):
            changed = message.replace(body="y" * size, redelivery_counter=size, priority=size % 10)
            if by == "id":
                changed = changed.replace(sequence=None)
            self.both(lambda store: place.on(store).update_message(changed))

    @rule(place=places, number=numbers, by=st.sampled_from(["id", "sequence"]))
    def get(self, place: Place, number: int, by: str) -> None:
        name = self.reference(place, number, by)
        self.both(lambda store: stored(place.on(store).get_message(name)))  # type: ignore[arg-type]

    @rule(place=places)
    def purge(self, place: Place) -> None:
        self.both(lambda store: place.on(store).remove_all_messages())

    @rule(place=places, limit=limits)
    def find_expired(self, place: Place, limit: int) -> None:
        self.both(lambda store: walk(lambda after: place.on(store).recover_expired(limit, after)))

    @rule(place=places)
    def remove_expired(self, place: Place) -> None:
        self.both(lambda store: place.on(store).remove_expired())

    @rule(seconds=st.sampled_from([0.001, 1.0, 5.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(place=places)
    def delete(self, place: Place) -> None:
        self.both(lambda store: store.delete_destination(place.on(store).destination))

    @rule(
        topic=topics, reader=st.sampled_from(SUBSCRIBERS), retroactive=st.booleans(), selector=st.booleans()
    )
    def subscribe(self, topic: Place, reader: tuple[str, str], retroactive: bool, selector: bool) -> None:
        text = "a = 1" if selector else None
        self.both(
            lambda store: (
                topic.on_topic(store)
                .subscribe(*reader, retroactive=retroactive, selector=text)
                .message_count()
            )
        )

    @rule(topic=topics, reader=st.sampled_from(SUBSCRIBERS))
    def unsubscribe(self, topic: Place, reader: tuple[str, str]) -> None:
        self.both(lambda store: topic.on_topic(store).unsubscribe(*reader))

    @rule(topic=topics, reader=st.sampled_from(SUBSCRIBERS), which=some_numbers, by=names, wait=st.booleans())
    def acknowledge_subscription(
        self, topic: Place, reader: tuple[str, str], which: list[int], by: str, wait: bool
    ) -> None:
        done = [self.reference(topic, number, by) for number in which]

        def acknowledge(store: Store) -> None:
            subscription = topic.on_topic(store).subscription(*reader)
            if wait:
                subscription.acknowledge(*done)
            else:
                for future in [subscription.acknowledge_async(name) for name in done]:
                    future.result(180)

        self.both(acknowledge)

    @rule(topic=topics, reader=st.sampled_from(SUBSCRIBERS), limit=limits)
    def consume(self, topic: Place, reader: tuple[str, str], limit: int) -> None:
        def take(store: Store) -> object:
            subscription = topic.on_topic(store).subscription(*reader)
            page = subscription.recover(limit)
            subscription.acknowledge(*page)
            return list(map(stored, page))

        self.both(take)

    @rule()
    def cleanup(self) -> None:
        self.both(lambda store: store.cleanup())

    @rule(place=places, reader=st.sampled_from([None, *SUBSCRIBERS]), limit=limits)
    def read_a_page(self, place: Place, reader: tuple[str, str] | None, limit: int) -> None:
        def source(store: Store) -> Recoverable:
            return (
                place.on_topic(store).subscription(*reader) if reader and place.is_topic else place.on(store)
            )

        def read(store: Store) -> Any:
            return source(store).recover(limit)

        expected, actual = attempt(read, self.model), attempt(read, self.real)
        if isinstance(expected, type):
            assert actual == expected
            return
        assert list(map(stored, actual)) == list(map(stored, expected))
        self.cursors.append((source, expected.cursor, actual.cursor))

    @precondition(lambda self: self.cursors)
    @rule(number=numbers, limit=limits)
    def read_on(self, number: int, limit: int) -> None:
        """Behind a cursor of any age, after any other steps."""
        source, of_model, of_real = self.cursors[number % len(self.cursors)]
        expected = attempt(
            lambda store: walk(lambda after: source(store).recover(limit, after), of_model), self.model
        )
        actual = attempt(
            lambda store: walk(lambda after: source(store).recover(limit, after), of_real), self.real
        )
        assert actual == expected

    @rule(
        steps=st.lists(st.tuples(kinds, places, messages, numbers), max_size=8),
        reader=st.sampled_from(SUBSCRIBERS),
        by=names,
        end=st.sampled_from(["commit", "async", "rollback"]),
    )
    def transact(
        self,
        steps: list[Step],
        reader: tuple[str, str],
        by: str,
        end: str,
    ) -> None:
        writes = self.steps(steps, reader, by)
        added = [] if end == "rollback" else added_to(writes)
        outcome = self.both_adding(lambda store: transact(store, writes, end), added)
        if isinstance(outcome, tuple):
            self.refer(writes, *outcome)

    def steps(self, steps: Sequence[Step], reader: tuple[str, str], by: str) -> list[TransactionStep]:
        """Return the writes of a transaction, in order."""
        return [
            TransactionStep(item[1] if item[0] == "add" else None, self.step(*item, reader, by))
            for item in steps
        ]

    def refer(
        self, writes: list[TransactionStep], _outcomes: object, references: list[MessageReference] | None
    ) -> None:
        """Remember where a transaction that was committed has put its messages."""
        added = [step.adds_to for step in writes if step.adds_to is not None]
        for place, reference in zip(added, references or (), strict=references is not None):
            self.references[place].append(reference)

    def step(
        self, kind: str, place: Place, about: dict[str, Any], number: int, reader: tuple[str, str], by: str
    ) -> Callable[[Transaction], None]:
        def on(transaction: Transaction) -> Any:
            return transaction.topic(place.name) if place.is_topic else transaction.queue(place.name)

        if kind == "add":
            message = self.message(about)
            return lambda transaction: on(transaction).add_message(message)
        if kind == "sub" and place.is_topic:
            done = self.reference(place, number, by)
            return lambda transaction: on(transaction).acknowledge_subscription(*reader, done)
        if kind == "update":
            stored = self.reference(place, number, "message")
            if isinstance(stored, Message) and self.can_update(stored):
                changed = stored.replace(jms_type="changed", priority=number % 10)
                return lambda transaction: on(transaction).update_message(changed)
        gone = self.reference(place, number, by)
        return lambda transaction: on(transaction).acknowledge(gone)

    @rule()
    def restart(self) -> None:
        self.real = self.reopen()

    @invariant()
    def cannot_be_told_apart(self) -> None:
        self.both(everything)

    def teardown(self) -> None:
        self.model.close()
        self.real.close()


def run(new_machine: Callable[[], StoreMachine], examples: int) -> None:
    """Run so many examples, of 40 steps each."""
    run_state_machine_as_test(
        new_machine,  # type: ignore[arg-type]
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            suppress_health_check=list(HealthCheck),
        ),
    )


def added_to(writes: Sequence[TransactionStep]) -> list[Destination]:
    """Return the destination of each message that is added."""
    return [step.adds_to.destination for step in writes if step.adds_to is not None]


def transact(
    store: Store, writes: list[TransactionStep], end: str
) -> tuple[list[Any], list[MessageReference] | None]:
    """Return the outcome of each write, and the references of the messages if they are stored."""
    for place in PLACES:
        place.on(store)
    transaction = store.transaction()
    outcomes = [attempt(write, transaction) for _, write in writes]
    if end == "rollback":
        transaction.rollback()
        return outcomes, None
    if end == "async":
        return outcomes, transaction.commit_async().result(180)
    return outcomes, transaction.commit()


def attempt(operation: Callable[[Any], Any], on: Any) -> Any:
    """Return the result, or the class of the error."""
    try:
        return operation(on)
    except StoreError as error:
        return type(error)


def stored(message: Message) -> tuple[int | None, Message]:
    # Where a message is stored does not count when messages are compared.
    if isinstance(message.transaction_id, XATransactionId) and is_ours(message.transaction_id):
        message = message.replace(transaction_id=TWO_PHASES)
    return message.sequence, message


def walk(read: Callable[[Cursor | None], Any], after: Cursor | None = None) -> list[object]:
    """Return everything behind a cursor, page by page."""
    messages: list[object] = []
    while True:
        page = read(after)
        messages += map(stored, page)
        if page.at_end:
            return messages
        after = page.cursor


def everything(store: Store) -> dict[str, object]:
    """Return all that can be seen of a store from outside."""
    seen: dict[str, object] = {"last": store.last_sequence(), "destinations": store.destinations()}
    seen["producer"] = store.last_producer_sequence_id(message_id(0).producer_id)  # type: ignore[arg-type]
    for place in PLACES:
        destination = place.on(store)
        seen[f"{place} holds"] = walk(lambda after, source=destination: source.recover(500, after))  # type: ignore[misc]
        seen[f"{place} counts"] = (destination.message_count(), destination.statistics())
    for place in TOPICS:
        topic = place.on_topic(store)
        subscriptions = sorted(topic.subscriptions(), key=attrgetter("client_id", "subscription_name"))
        seen[f"{place} has"] = subscriptions
        for info in subscriptions:
            subscription = topic.subscription(info.client_id, info.subscription_name)
            pending = [message.sequence for message in subscription.recover(500)]
            seen[f"{place} {info}"] = (pending, subscription.message_count())
    return seen
