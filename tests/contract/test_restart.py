"""A store that is opened again: everything is there, and no sequence comes twice."""

from __future__ import annotations

import pytest

from jdbcstore import Message, MessageReference, Store, SubscriptionInfo
from jdbcstore.errors import MessageNotFound
from tests.conftest import OpenStore
from tests.support.cli.zygote import run_program
from tests.support.contract.messages import content, fill, message_id
from tests.support.contract.without import NO_WAITING, ONE_STORE, TOPICS_ELSEWHERE
from tests.support.databases import Database

pytestmark = pytest.mark.usefixtures("database")


@TOPICS_ELSEWHERE
def test_everything_is_there(open_store: OpenStore) -> None:
    store = open_store()
    queue, topic = store.queue("ORDERS"), store.topic("PRICES")
    topic.subscribe("client", "ticker", selector="a = 1")
    fill(queue, "a", "b", "c")
    queue.acknowledge(queue.recover()[1])
    d, _ = fill(topic, "d", "e")
    topic.subscription("client", "ticker").acknowledge(d)
    queue.update_message(queue.recover()[0].replace(redelivery_counter=3))
    before = [*queue.recover(), *topic.recover()]
    statistics = queue.statistics()
    store.close()

    store = open_store()
    queue, topic = store.queue("ORDERS"), store.topic("PRICES")

    assert [*queue.recover(), *topic.recover()] == before
    assert queue.recover()[0].redelivery_counter == 3
    assert queue.statistics() == statistics
    assert topic.subscriptions() == [
        SubscriptionInfo("client", "ticker", topic.destination, topic.destination, "a = 1")
    ]
    assert content(topic.subscription("client", "ticker")) == ["e"]
    assert store.last_sequence() == 5
    assert fill(queue, "f")[0].sequence == 6


@ONE_STORE
def test_two_stores_at_once_see_each_other_s_messages(open_store: OpenStore) -> None:
    first, second = open_store(), open_store()

    sequences = [
        reference.sequence
        for _ in range(5)
        for store in (first, second)
        for reference in fill(store.queue("ORDERS"), "x", "y")
    ]

    assert len(set(sequences)) == 20
    assert first.queue("ORDERS").message_count() == second.queue("ORDERS").message_count() == 20
    second.queue("ORDERS").acknowledge(*first.queue("ORDERS").recover())
    assert first.queue("ORDERS").message_count() == 0


@pytest.mark.parametrize("end", ["closed", "drained"])
def test_sequences_go_on(open_store: OpenStore, end: str) -> None:
    last = 0
    for _ in range(4):
        store = open_store()
        assert store.last_sequence() == last
        queue = store.queue("ORDERS")
        for reference in (*fill(queue, "a", "b"), *fill(queue, "c")):
            assert reference.sequence == last + 1
            last += 1
        if end == "drained":
            queue.remove_all_messages()
        assert store.last_sequence() == last
        store.close()


def test_a_late_acknowledgement_removes_nothing_new(open_store: OpenStore) -> None:
    """ActiveMQ starts its IDs anew in drained tables, and this one would hit another message."""
    store = open_store()
    [old] = fill(store.queue("ORDERS"), "old")
    store.queue("ORDERS").acknowledge(old)
    store.close()

    store = open_store()
    fill(store.queue("ORDERS"), "new")
    store.queue("ORDERS").acknowledge(old)

    assert content(store.queue("ORDERS")) == ["new"]
    with pytest.raises(MessageNotFound):
        store.queue("ORDERS").get_message(old.sequence)


@TOPICS_ELSEWHERE
def test_behind_what_an_activemq_wrote(open_store: OpenStore, database: Database) -> None:
    store = open_store()
    fill(store.queue("ORDERS"), "a")
    store.close()
    database.execute("UPDATE ACTIVEMQ_MSGS SET ID = 70000")
    store = open_store()
    assert store.last_sequence() == 70_000
    assert fill(store.queue("ORDERS"), "b")[0].sequence == 70_001
    store.topic("PRICES").subscribe("client", "ticker")
    store.close()

    database.execute("DELETE FROM ACTIVEMQ_MSGS")
    database.execute("UPDATE ACTIVEMQ_ACKS SET LAST_ACKED_ID = 90000")
    store = open_store()

    assert fill(store.queue("ORDERS"), "c")[0].sequence == 90_001


KILLED = """
import os, signal, sys
import jdbcstore
store = jdbcstore.open(sys.argv[1], cleanup_period=0)
queue = store.queue("ORDERS")
references = [queue.add_message(jdbcstore.Message(str(n))) for n in range(7)]
if sys.argv[2] == "drained":
    queue.acknowledge(*references)
print(references[-1].sequence, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.variants
@pytest.mark.slow
@pytest.mark.parametrize("end", ["filled", "drained"])
def test_sequences_go_on_behind_a_killed_process(open_store: OpenStore, url: str, end: str) -> None:
    last = 0
    expected: list[object] = []
    for _ in range(2):
        done = run_program(KILLED, url, end)
        assert done.returncode == -9, done.stderr
        assert int(done.stdout) >= last + 7
        last = int(done.stdout)
        expected += map(str, range(7))

    store = open_store()

    assert content(store.queue("ORDERS")) == ([] if end == "drained" else expected)
    assert fill(store.queue("ORDERS"), "next")[0].sequence > last


@NO_WAITING
@pytest.mark.variants
def test_another_process_sees_what_is_committed(store: Store, url: str) -> None:
    fill(store.queue("ORDERS"), "a", "b")
    code = (
        "import sys, jdbcstore\n"
        "with jdbcstore.open(sys.argv[1]) as store:\n"
        "    queue = store.queue('ORDERS')\n"
        "    print([message.body for message in queue.recover()])\n"
        "    queue.acknowledge(1)\n"
        "    queue.add_message(jdbcstore.Message('c'))\n"
    )

    done = run_program(code, url)
    assert done.returncode == 0, done.stderr

    assert done.stdout.strip() == "['a', 'b']"
    assert content(store.queue("ORDERS")) == ["b", "c"]
    fill(store.queue("ORDERS"), "d")
    assert sorted(map(str, content(store.queue("ORDERS")))) == ["b", "c", "d"]


def test_references_outlive_the_store(open_store: OpenStore) -> None:
    store = open_store()
    reference = store.queue("ORDERS").add_message(Message("a", message_id=message_id(1)))
    kept = MessageReference(*reference)
    store.close()

    store = open_store()
    store.queue("ORDERS").acknowledge(kept)
    store.close()

    assert open_store().queue("ORDERS").message_count() == 0
