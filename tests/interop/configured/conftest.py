"""A broker with the activemq.xml here: the real one, and ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template

import pytest

from tests.support import ROOT, tiers
from tests.support.broker.programs import BrokerProcess
from tests.support.interop.activemq import VERSION, PeerMissing
from tests.support.interop.standalone import Standalone
from tests.support.ports import free_port
from tests.support.require import unavailable

HERE = ROOT / "tests" / "interop" / "configured"


@dataclass(frozen=True)
class Configured:
    """A running broker, and where it serves."""

    name: str
    stomp_port: int
    openwire_url: str
    log: Path

    @property
    def is_ours(self) -> bool:
        return self.name == "jdbcstore"


@contextmanager
def _activemq(configuration: Path) -> Iterator[Configured]:
    if VERSION:
        pytest.skip("only Debian's ActiveMQ has Spring, which reads an activemq.xml")
    stomp, openwire = free_port(), free_port()
    _write(configuration, stomp, openwire)
    try:
        broker = Standalone(configuration)
    except PeerMissing as missing:
        unavailable("activemq", str(missing))
    tiers.starts("java")
    broker.start()
    try:
        broker.await_serving()
        log = configuration.with_name("activemq.log")
        yield Configured("activemq", stomp, f"tcp://127.0.0.1:{openwire}", log)
    finally:
        broker.kill()


@contextmanager
def _jdbcstore(configuration: Path) -> Iterator[Configured]:
    _write(configuration, 0, 0)
    options = ("--config", str(configuration), "--openwire", "127.0.0.1:0")
    with BrokerProcess(configuration.parent, *options) as process:
        yield Configured("jdbcstore", process.ready(), process.openwire_url, process.log)


def _write(configuration: Path, stomp: int, openwire: int) -> None:
    template = Template((HERE / "activemq.xml").read_text())
    # The real broker has its statistics of subscriptions from JMX.
    configuration.write_text(template.substitute(stomp=stomp, openwire=openwire, jmx="true"))


@pytest.fixture(scope="module", params=[_activemq, _jdbcstore], ids=["activemq", "jdbcstore"])
def configured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Configured]:
    configuration = tmp_path_factory.mktemp("configured") / "activemq.xml"
    with request.param(configuration) as broker:
        yield broker
