"""ActiveMQ's JMS client as a resource of distributed transactions."""

from __future__ import annotations

from itertools import count
from typing import Any

import jpype
import pytest

from jdbcstore import Store
from tests.support.broker.openwire.jms import Jms, activemq, refused
from tests.support.broker.openwire.serving import Served
from tests.support.polling import wait_until

pytestmark = pytest.mark.backends("memory", "sqlite")

_NUMBERS = count(1)
START, SUCCESS, FAIL = 0, 0x4000000, 0x20000000
ONE_PHASE, TWO_PHASES = True, False
XA_OK, XA_RDONLY = 0, 3
NOT_KNOWN = -4


def new_xid() -> Any:
    xid = activemq("command.XATransactionId")()
    xid.setFormatId(86)
    xid.setGlobalTransactionId(jpype.JArray(jpype.JByte)([1, 2, next(_NUMBERS)]))
    xid.setBranchQualifier(jpype.JArray(jpype.JByte)([9]))
    return xid


class Branch:
    """The work of one branch, from start to end, with an XA session."""

    def __init__(self, client: Jms) -> None:
        self.xid = new_xid()
        self._client = client
        self.resource = client.session.getXAResource()

    def __enter__(self) -> Branch:
        self.resource.start(self.xid, START)
        return self

    def __exit__(self, *_exc: object) -> None:
        self.resource.end(self.xid, SUCCESS)


def rest(store: Store, queue: str = "Q") -> list[str]:
    return [str(message.body) for message in store.queue(queue).recover()]


@pytest.fixture
def client(broker_url: str) -> Any:
    with Jms(broker_url, xa=True) as client:
        yield client


def test_one_phase(client: Jms, store: Store) -> None:
    with Branch(client) as branch:
        client.send("Q", "a")
    assert rest(store) == []
    branch.resource.commit(branch.xid, ONE_PHASE)
    assert rest(store) == ["a"]


def test_two_phases(client: Jms, store: Store, broker_url: str) -> None:
    with Jms(broker_url) as other:
        consumer = other.consumer("Q")
        with Branch(client) as branch:
            client.send("Q", "a")
        assert branch.resource.prepare(branch.xid) == XA_OK
        assert consumer.receive(100) is None
        branch.resource.commit(branch.xid, TWO_PHASES)
        assert other.texts(consumer, 1) == ["a"]
        other.send("Q", "b")
        assert other.texts(consumer, 1) == ["b"]
    wait_until(lambda: rest(store) == [], 30, "that both are acknowledged")


def test_acknowledgements_of_two_phases(client: Jms, store: Store, broker_url: str) -> None:
    with Jms(broker_url) as other:
        other.send("Q", "a", "b")
    consumer = client.consumer("Q")
    with Branch(client) as branch:
        assert client.texts(consumer, 1) == ["a"]
        client.send("OUT", "of a")
    assert branch.resource.prepare(branch.xid) == XA_OK
    branch.resource.commit(branch.xid, TWO_PHASES)
    assert rest(store) == ["b"]
    assert rest(store, "OUT") == ["of a"]


def test_a_rollback_of_either_phase(client: Jms, store: Store, broker_url: str) -> None:
    with Jms(broker_url) as other:
        other.send("Q", "a")
    consumer = client.consumer("Q")
    for is_prepared in (False, True):
        with Branch(client) as branch:
            assert client.texts(consumer, 1) == ["a"]
            client.send("OUT", "never")
        if is_prepared:
            assert branch.resource.prepare(branch.xid) == XA_OK
        branch.resource.rollback(branch.xid)
    with Branch(client) as branch:
        assert client.texts(consumer, 1) == ["a"]
    branch.resource.commit(branch.xid, ONE_PHASE)
    assert rest(store) == []
    assert rest(store, "OUT") == []


def test_nothing_to_do_is_read_only(client: Jms) -> None:
    with Branch(client) as branch:
        pass
    assert branch.resource.prepare(branch.xid) == XA_RDONLY


def test_an_unknown_branch(client: Jms) -> None:
    resource = client.session.getXAResource()
    for end in (lambda xid: resource.commit(xid, TWO_PHASES), resource.rollback):
        with refused("XAException") as caught:
            end(new_xid())
        assert caught[0].errorCode == NOT_KNOWN


@pytest.mark.parametrize("outcome", ["commit", "rollback"])
def test_recovery_after_the_broker_has_gone(store: Store, java_client: None, outcome: str) -> None:  # noqa: ARG001
    """Another broker on the store, or this one after a crash, lists what is prepared, and ends it."""
    with Served(store) as served:
        with Jms(served.url) as other:
            other.send("Q", "a", "b")
        with Jms(served.url, xa=True) as client:
            consumer = client.consumer("Q")
            with Branch(client) as branch:
                assert client.texts(consumer, 1) == ["a"]
                client.send("Q", "c")
            assert branch.resource.prepare(branch.xid) == XA_OK
    with Served(store) as served, Jms(served.url, xa=True) as client, Jms(served.url) as other:
        consumer = other.consumer("Q")
        assert other.texts(consumer, 1) == ["b"]
        resource = client.session.getXAResource()
        [xid] = resource.recover(0x1000000)
        assert xid.equals(branch.xid)
        if outcome == "commit":
            resource.commit(xid, TWO_PHASES)
            assert other.texts(consumer, 1) == ["c"]
        else:
            resource.rollback(xid)
            assert other.texts(consumer, 1) == ["a"]
        assert [*resource.recover(0x1000000)] == []
    assert rest(store) == []


def test_another_connection_ends_what_one_has_prepared(client: Jms, store: Store, broker_url: str) -> None:
    with Branch(client) as branch:
        client.send("Q", "a")
    branch.resource.prepare(branch.xid)
    client.connection.close()
    with Jms(broker_url, xa=True) as other:
        resource = other.session.getXAResource()
        assert [xid.equals(branch.xid) for xid in resource.recover(0x1000000)] == [True]
        resource.commit(branch.xid, TWO_PHASES)
    assert rest(store) == ["a"]
