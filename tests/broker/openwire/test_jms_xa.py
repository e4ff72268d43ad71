"""ActiveMQ's JMS client as a resource of distributed transactions: recovery by the next broker."""

from __future__ import annotations

import pytest

from jdbcstore import Store
from tests.support.broker.openwire.jms import Jms
from tests.support.broker.openwire.serving import Served
from tests.support.broker.openwire.xa import RECOVER, TWO_PHASES, XA_OK, Branch

pytestmark = pytest.mark.backends("memory", "sqlite")


def rest(store: Store, queue: str = "Q") -> list[str]:
    return [str(message.body) for message in store.queue(queue).recover()]


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
        [xid] = resource.recover(RECOVER)
        assert xid.equals(branch.xid)
        if outcome == "commit":
            resource.commit(xid, TWO_PHASES)
            assert other.texts(consumer, 1) == ["c"]
        else:
            resource.rollback(xid)
            assert other.texts(consumer, 1) == ["a"]
        assert [*resource.recover(RECOVER)] == []
    assert rest(store) == []
