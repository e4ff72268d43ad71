"""BEGIN, COMMIT and ABORT over sends and acknowledgements."""

from __future__ import annotations

import pytest

from tests.interop.behaviours.conftest import Connect, RunningBroker
from tests.support.interop.behaviours.conversation import Refused

PERSISTENT = {"persistent": "true"}


def test_commit_sends(connect: Connect, queue: str) -> None:
    session, consumer = connect(), connect()
    consumer.subscribe(queue)
    transaction = session.begin()
    for body in ("1", "2"):
        session.send(queue, body, {**PERSISTENT, "transaction": transaction})
    session.send(queue, "outside", PERSISTENT)
    assert consumer.bodies(1) == ["outside"]
    session.commit(transaction)
    message = consumer.message()
    assert message.body == b"1"
    assert "transaction" not in message.headers
    assert consumer.bodies(1) == ["2"]


def test_abort_drops(connect: Connect, queue: str) -> None:
    session = connect()
    transaction = session.begin()
    session.send(queue, "dropped", {**PERSISTENT, "transaction": transaction})
    session.abort(transaction)
    session.send(queue, "kept", PERSISTENT)
    session.subscribe(queue)
    assert session.bodies(1) == ["kept"]


def test_lost_connection_aborts(connect: Connect, queue: str) -> None:
    session, other = connect(), connect()
    transaction = session.begin()
    session.send(queue, "dropped", {**PERSISTENT, "transaction": transaction})
    session.drop()
    other.send(queue, "kept", PERSISTENT)
    other.subscribe(queue)
    assert other.bodies(1) == ["kept"]


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_commit_acknowledges(connect: Connect, queue: str, version: str, ack: str) -> None:
    session = connect(version)
    for body in ("1", "2", "3"):
        session.send(queue, body, PERSISTENT)
    session.subscribe(queue, ack)
    messages = [session.message() for _ in range(3)]
    transaction = session.begin()
    for message in messages[:2]:
        session.acknowledge(message, transaction)
    session.commit(transaction)
    session.drop()
    other = connect()
    other.subscribe(queue)
    assert other.bodies(1) == ["3"]


@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_aborted_acknowledgement_can_be_made_again(connect: Connect, queue: str, ack: str) -> None:
    session = connect()
    session.send(queue, "one", PERSISTENT)
    session.subscribe(queue, ack)
    message = session.message()
    transaction = session.begin()
    session.acknowledge(message, transaction)
    session.abort(transaction)
    session.acknowledge(message)
    session.drop()
    other = connect()
    other.send(queue, "next")
    other.subscribe(queue)
    assert other.bodies(1) == ["next"]


def test_aborted_acknowledgement_is_redelivered_to_another(connect: Connect, queue: str) -> None:
    session = connect()
    session.send(queue, "one", PERSISTENT)
    session.subscribe(queue, "client")
    transaction = session.begin()
    session.acknowledge(session.message(), transaction)
    session.abort(transaction)
    session.drop()
    other = connect()
    other.subscribe(queue)
    message = other.message()
    assert (message.body, message.headers["redelivered"]) == (b"one", "true")


def test_uncommitted_acknowledgement_is_redelivered(connect: Connect, queue: str) -> None:
    session = connect()
    session.send(queue, "one", PERSISTENT)
    session.subscribe(queue, "client-individual")
    session.acknowledge(session.message(), session.begin())
    session.drop()
    other = connect()
    other.subscribe(queue)
    assert other.message().headers["redelivered"] == "true"


def test_consume_and_send_together(connect: Connect, queue: str) -> None:
    session = connect()
    answers = f"{queue}.ANSWERS"
    session.send(queue, "question", PERSISTENT)
    session.subscribe(queue, "client-individual")
    session.subscribe(answers)
    message = session.message()
    transaction = session.begin()
    session.acknowledge(message, transaction)
    session.send(answers, "answer", {**PERSISTENT, "transaction": transaction})
    session.send(f"/topic/{queue[7:]}", "told", {"transaction": transaction})
    session.commit(transaction)
    assert session.bodies(1) == ["answer"]


def test_two_transactions_at_once(connect: Connect, queue: str) -> None:
    session = connect()
    one, two = session.begin(), session.begin()
    session.send(queue, "one", {"transaction": one})
    session.send(queue, "two", {"transaction": two})
    session.commit(two)
    session.abort(one)
    session.send(queue, "end")
    session.subscribe(queue)
    assert session.bodies(2) == ["two", "end"]


def test_nack_cannot_be_in_a_transaction(connect: Connect, queue: str) -> None:
    session = connect()
    session.send(queue, "one", PERSISTENT)
    session.subscribe(queue, "client-individual")
    transaction = session.begin()
    with pytest.raises(Refused, match="cannot be transacted"):
        session.reject(session.message(), transaction)


def test_unknown_transaction_is_refused(connect: Connect, queue: str) -> None:
    session = connect()
    with pytest.raises(Refused, match="Invalid transaction id: unknown"):
        session.send(queue, "one", {"transaction": "unknown"})
    session.send(queue, "two")
    session.subscribe(queue)
    assert session.bodies(1) == ["two"]


def test_committed_transaction_is_unknown(connect: Connect, queue: str) -> None:
    session = connect()
    transaction = session.begin()
    session.commit(transaction)
    with pytest.raises(Refused, match=f"Invalid transaction id: {transaction}"):
        session.send(queue, "one", {"transaction": transaction})


def test_empty_transaction(connect: Connect) -> None:
    session = connect()
    session.commit(session.begin())
    session.abort(session.begin())


def test_large_transaction_keeps_its_order(connect: Connect, queue: str) -> None:
    session = connect()
    transaction = session.begin()
    bodies = [str(number) for number in range(200)]
    for body in bodies:
        session.post(queue, body, {**PERSISTENT, "transaction": transaction})
    session.commit(transaction)
    session.subscribe(queue)
    assert session.bodies(200) == bodies


def _gone_queue(connect: Connect) -> str:
    """A temporary queue that nobody can send to any more."""
    owner = connect()
    owner.subscribe("/temp-queue/answers")
    owner.send("/queue/asked", "", {"reply-to": "/temp-queue/answers"})
    other = connect()
    other.subscribe("/queue/asked")
    gone = other.message().headers["reply-to"]
    owner.disconnect()
    other.disconnect()
    return gone


def test_refused_send_dooms_its_transaction(connect: Connect, queue: str) -> None:
    gone, session, other = _gone_queue(connect), connect(), connect()
    session.send(queue, "question", PERSISTENT)
    session.subscribe(queue, "client-individual")
    question = session.message()
    transaction = session.begin()
    session.post(f"{queue}.A", "before", {**PERSISTENT, "transaction": transaction})
    session.acknowledge(question, transaction)
    session.post(gone, "refused", {"transaction": transaction})
    session.error()
    session.post(f"{queue}.A", "behind", {**PERSISTENT, "transaction": transaction})
    with pytest.raises(Refused, match=r"[Rr]oll"):
        session.commit(transaction)
    session.drop()
    other.send(f"{queue}.A", "end", PERSISTENT)
    other.subscribe(f"{queue}.A")
    assert other.bodies(1) == ["end"]
    other.subscribe(queue)
    assert other.bodies(1) == ["question"]


def test_refused_send_with_a_receipt_in_a_transaction(
    connect: Connect, broker: RunningBroker, queue: str
) -> None:
    gone, session = _gone_queue(connect), connect()
    transaction = session.begin()
    session.send(queue, "before", {**PERSISTENT, "transaction": transaction})
    with pytest.raises(Refused):
        session.send(gone, "refused", {"transaction": transaction})
    if broker.either(activemq=True, ours=False):
        session.commit(transaction)
    else:
        with pytest.raises(Refused, match="rolled back"):
            session.commit(transaction)
    session.send(queue, "end", PERSISTENT)
    session.subscribe(queue)
    assert session.bodies(1) == broker.either(activemq=["before"], ours=["end"])


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_acknowledgements_out_of_order_in_client_mode(
    connect: Connect, broker: RunningBroker, queue: str, version: str
) -> None:
    session = connect(version)
    for body in ("1", "2", "3", "4"):
        session.send(queue, body, PERSISTENT)
    session.subscribe(queue, "client")
    messages = [session.message() for _ in range(4)]
    transaction = session.begin()
    session.acknowledge(messages[2], transaction)
    if broker.either(activemq=version == "1.2", ours=False):
        with pytest.raises(Refused, match="Unexpected ACK"):
            session.acknowledge(messages[0], transaction)
    else:
        session.acknowledge(messages[0], transaction)
    session.commit(transaction)
    session.drop()
    other = connect()
    other.subscribe(queue)
    assert other.bodies(1) == ["4"]
