"""Every option of ActiveMQ's own classes is known to the reader of an activemq.xml."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore import load_config
from jdbcstore.config import Kind
from tests.support.broker.openwire.jms import activemq
from tests.support.interop.activemq import PeerMissing
from tests.support.require import unavailable

BEGINNINGS = {
    "broker.TransportConnector": ("transportConnectors", '<transportConnector uri="tcp://127.0.0.1:1"'),
    "broker.region.policy.PolicyEntry": ("destinationPolicy", '<policyEntry queue="Q"'),
}
LEFT_OUT = {"destination", "messageGroupMapFactoryType", "queue", "topic", "uri"}
"""Options that are set above, or must not be 1."""


@pytest.mark.parametrize("name", BEGINNINGS)
def test_no_option_of_activemq_is_unknown(tmp_path: Path, name: str) -> None:
    try:
        kind = activemq(name)
    except PeerMissing as missing:
        unavailable("activemq", str(missing))
    setters = {str(method.getName()) for method in kind.class_.getMethods()}
    options = {one[3].lower() + one[4:] for one in setters if one.startswith("set")} - LEFT_OUT
    assert len(options) > 10
    element, begin = BEGINNINGS[name]
    entry = " ".join([begin, *(f'{option}="1"' for option in sorted(options)), "/>"])
    if element == "destinationPolicy":
        entry = f"<policyMap><policyEntries>{entry}</policyEntries></policyMap>"
    path = tmp_path / "activemq.xml"
    path.write_text(
        f"<broker><{element}>{entry}</{element}>"
        "<persistenceAdapter><jdbcPersistenceAdapter/></persistenceAdapter></broker>"
    )

    notes = load_config(path, environment={}).notes

    unknown = [note.text for note in notes if note.kind is Kind.UNKNOWN and "unknown attribute" in note.text]
    assert unknown == []
