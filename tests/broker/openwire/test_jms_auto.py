"""ActiveMQ's JMS client on a port that serves STOMP, too."""

from __future__ import annotations

import pytest

from jdbcstore import Store
from tests.support.broker.openwire.jms import Jms, take
from tests.support.broker.openwire.serving import Served
from tests.support.broker.stomp.serving import Client

pytestmark = [pytest.mark.backends("memory"), pytest.mark.usefixtures("java_client")]


def test_jms_and_stomp_on_one_port(store: Store) -> None:
    with Served(store, uri="auto://127.0.0.1:0") as served:
        port = served.openwire_port
        for scheme in ("tcp", "nio", "failover:(tcp"):
            url = f"{scheme}://127.0.0.1:{port}{')' if '(' in scheme else ''}"
            with Jms(url) as jms, Client(port) as stomp:
                stomp.subscribe("/queue/TO.STOMP")
                jms.send("TO.STOMP", "to STOMP")
                assert stomp.expect("MESSAGE").body == b"to STOMP"
                stomp.send("/queue/TO.JMS", "to JMS")
                assert str(take(jms.consumer("TO.JMS")).getText()) == "to JMS"
