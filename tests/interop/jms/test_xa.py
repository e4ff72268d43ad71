"""Branches of distributed transactions."""

from __future__ import annotations

from itertools import count
from typing import Any

import jpype
import pytest

from tests.interop.jms.conftest import Connect, RunningBroker
from tests.support.broker.openwire.jms import Jms, is_left, refused, take
from tests.support.broker.openwire.xa import (
    NOT_KNOWN,
    ONE_PHASE,
    RECOVER,
    TWO_PHASES,
    XA_OK,
    XA_RDONLY,
    Branch,
    new_xid,
)

_NUMBERS = count(1)
FAILED = -7


@pytest.fixture
def xa(connect: Connect) -> Jms:
    return connect(xa=True)


def test_one_phase(xa: Jms, client: Jms, queue: str) -> None:
    with Branch(xa) as branch:
        xa.send(queue, "a")
    assert client.browse(queue) == []
    branch.resource.commit(branch.xid, ONE_PHASE)
    assert client.browse(queue) == ["a"]


def test_two_phases(xa: Jms, client: Jms, queue: str) -> None:
    consumer = client.consumer(queue)
    with Branch(xa) as branch:
        xa.send(queue, "a")
    assert branch.resource.prepare(branch.xid) == XA_OK
    assert consumer.receive(50) is None
    branch.resource.commit(branch.xid, TWO_PHASES)
    assert client.texts(consumer, 1) == ["a"]
    client.send(queue, "b")
    assert client.texts(consumer, 1) == ["b"]


@pytest.mark.parametrize("phases", [1, 2])
def test_acknowledgements(xa: Jms, client: Jms, queue: str, phases: int) -> None:
    client.send(queue, "a", "b")
    consumer = xa.consumer(queue)
    with Branch(xa) as branch:
        assert xa.texts(consumer, 1) == ["a"]
        xa.send(f"{queue}.OUT", "of a")
    if phases == 2:
        assert branch.resource.prepare(branch.xid) == XA_OK
    branch.resource.commit(branch.xid, phases == 1)
    is_left(client, queue, "b")
    assert client.browse(f"{queue}.OUT") == ["of a"]


@pytest.mark.parametrize("is_prepared", [False, True])
def test_a_rollback(xa: Jms, client: Jms, queue: str, is_prepared: bool) -> None:
    client.send(queue, "a")
    consumer = xa.consumer(queue)
    with Branch(xa) as branch:
        assert xa.texts(consumer, 1) == ["a"]
        xa.send(f"{queue}.OUT", "never")
    if is_prepared:
        assert branch.resource.prepare(branch.xid) == XA_OK
    branch.resource.rollback(branch.xid)
    with Branch(xa) as branch:
        again = take(consumer)
        assert str(again.getText()) == "a"
        assert again.getJMSRedelivered()
    branch.resource.commit(branch.xid, ONE_PHASE)
    is_left(client, queue)
    assert client.browse(f"{queue}.OUT") == []


def test_nothing_to_do_is_read_only(xa: Jms) -> None:
    with Branch(xa) as branch:
        pass
    assert branch.resource.prepare(branch.xid) == XA_RDONLY


def test_an_unknown_branch(xa: Jms, broker: RunningBroker) -> None:
    resource = xa.session.getXAResource()
    for end in (lambda xid: resource.commit(xid, TWO_PHASES), resource.rollback):
        with refused("XAException") as caught:
            end(new_xid())
        assert caught[0].errorCode == NOT_KNOWN
    with refused("XAException") as caught:
        resource.prepare(new_xid())
    assert caught[0].errorCode == broker.either(activemq=FAILED, ours=NOT_KNOWN)


def test_a_branch_that_is_not_ended(xa: Jms, queue: str) -> None:
    branch = Branch(xa)
    with branch:
        xa.send(queue, "a")
        with refused("XAException"):
            branch.resource.start(new_xid(), 0)
    branch.resource.rollback(branch.xid)


def test_another_connection_commits(connect: Connect, client: Jms, queue: str) -> None:
    with Jms(client.url, xa=True) as xa:
        with Branch(xa) as branch:
            xa.send(queue, "a")
        branch.resource.prepare(branch.xid)
    resource = connect(xa=True).session.getXAResource()
    assert branch.is_among(resource.recover(RECOVER))
    resource.commit(branch.xid, TWO_PHASES)
    assert client.browse(queue) == ["a"]
    assert not branch.is_among(resource.recover(RECOVER))


def test_another_connection_rolls_back(connect: Connect, client: Jms, queue: str) -> None:
    client.send(queue, "a")
    with Jms(client.url, xa=True) as xa:
        consumer = xa.consumer(queue)
        with Branch(xa) as branch:
            assert xa.texts(consumer, 1) == ["a"]
        branch.resource.prepare(branch.xid)
    resource = connect(xa=True).session.getXAResource()
    assert branch.is_among(resource.recover(RECOVER))
    resource.rollback(branch.xid)
    assert client.texts(client.consumer(queue), 1) == ["a"]


def test_a_branch_that_is_forgotten(xa: Jms, client: Jms, queue: str) -> None:
    client.send(queue, "a")
    consumer = xa.consumer(queue)
    with Branch(xa) as branch:
        assert xa.texts(consumer, 1) == ["a"]
        xa.send(f"{queue}.OUT", "never")
    branch.resource.prepare(branch.xid)
    branch.resource.forget(branch.xid)
    assert not branch.is_among(branch.resource.recover(RECOVER))
    assert client.browse(f"{queue}.OUT") == []
    consumer.close()
    assert client.texts(client.consumer(queue), 1) == ["a"]
    with refused("XAException") as caught:
        branch.resource.forget(new_xid())
    assert caught[0].errorCode == NOT_KNOWN


def test_what_is_prepared_is_not_delivered(connect: Connect, client: Jms, queue: str) -> None:
    client.send(queue, "a", "b")
    with Jms(client.url, xa=True) as xa:
        consumer = xa.consumer(queue)
        with Branch(xa) as branch:
            assert xa.texts(consumer, 1) == ["a"]
        branch.resource.prepare(branch.xid)
    assert client.texts(client.consumer(queue), 1) == ["b"]
    connect(xa=True).session.getXAResource().commit(branch.xid, TWO_PHASES)
    is_left(client, queue)


def test_a_branch_that_is_not_prepared_ends_with_its_connection(client: Jms, queue: str) -> None:
    client.send(queue, "a")
    with Jms(client.url, xa=True) as xa:
        consumer = xa.consumer(queue)
        with Branch(xa):
            assert xa.texts(consumer, 1) == ["a"]
            xa.send(f"{queue}.OUT", "never")
    assert client.texts(client.consumer(queue), 1) == ["a"]
    assert client.browse(f"{queue}.OUT") == []


def test_durable_acknowledgements(connect: Connect, client: Jms, name: str) -> None:
    def subscribe(client: Jms) -> Any:
        return client.session.createDurableSubscriber(client.session.createTopic(name), "s")

    with Jms(client.url, client_id=name) as other:
        subscribe(other).close()
    client.send(f"topic://{name}", "1", "2")
    with Jms(client.url, client_id=name, xa=True) as xa:
        consumer = subscribe(xa)
        with Branch(xa) as branch:
            assert xa.texts(consumer, 1) == ["1"]
        assert branch.resource.prepare(branch.xid) == XA_OK
        branch.resource.commit(branch.xid, TWO_PHASES)
    other = connect(client_id=name)
    assert other.texts(subscribe(other), 1) == ["2"]


def test_a_scheduled_message_of_a_branch(xa: Jms, client: Jms, queue: str) -> None:
    for body, is_committed in (("no", False), ("yes", True)):
        with Branch(xa) as branch:
            xa.send(queue, xa.text(body, AMQ_SCHEDULED_DELAY=100))
        branch.resource.prepare(branch.xid)
        if is_committed:
            branch.resource.commit(branch.xid, TWO_PHASES)
        else:
            branch.resource.rollback(branch.xid)
    assert client.texts(client.consumer(queue), 1) == ["yes"]


def test_a_branch_of_several_sessions(xa: Jms, client: Jms, queue: str) -> None:
    """The second one joins what the first has begun."""
    with Branch(xa) as branch:
        xa.send(queue, "1")
    other = xa.connection.createXASession()
    resource = other.getXAResource()
    assert resource.isSameRM(branch.resource)
    resource.start(branch.xid, 0x200000)
    other.createProducer(other.createQueue(queue)).send(other.createTextMessage("2"))
    resource.end(branch.xid, 0x4000000)
    branch.resource.commit(branch.xid, ONE_PHASE)
    assert sorted(client.browse(queue)) == ["1", "2"]


def test_a_branch_is_forgotten(xa: Jms, queue: str) -> None:
    with Branch(xa) as branch:
        xa.send(queue, "a")
    branch.resource.prepare(branch.xid)
    branch.resource.rollback(branch.xid)
    with refused("XAException"):
        branch.resource.commit(branch.xid, TWO_PHASES)


def test_a_session_without_a_branch(xa: Jms, client: Jms, queue: str) -> None:
    with refused("JMSException"):
        xa.send(queue, "a")
    assert client.browse(queue) == []


def test_long_ids_of_branches(xa: Jms, client: Jms, queue: str) -> None:
    branch = Branch(xa)
    branch.xid.setGlobalTransactionId(jpype.JArray(jpype.JByte)([next(_NUMBERS), *[-1] * 63]))
    branch.xid.setBranchQualifier(jpype.JArray(jpype.JByte)([-128] * 64))
    with branch:
        xa.send(queue, "a")
    branch.resource.prepare(branch.xid)
    assert branch.is_among(branch.resource.recover(RECOVER))
    branch.resource.commit(branch.xid, TWO_PHASES)
    assert client.browse(queue) == ["a"]
