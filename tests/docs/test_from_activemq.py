"""The page "From ActiveMQ to this broker in an evening", as it is written, beside a real ActiveMQ."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jdbcstore.testing.polling import wait_until
from tests.support import ROOT
from tests.support.broker.programs import Client
from tests.support.databases import Database
from tests.support.docs.pages import Page
from tests.support.interop.activemq import PeerMissing
from tests.support.interop.standalone import Standalone
from tests.support.ports import free_port
from tests.support.require import unavailable

PAGE = Page(ROOT / "docs" / "guide" / "from-activemq.md")
WAIT = 120.0
PROGRAMS = ("bash", "createdb", "curl", "pg_dump", "psql")
NOT_RUN = ("pip install", "cp /opt")
XML = """<beans xmlns="http://www.springframework.org/schema/beans"
    xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
    xsi:schemaLocation="http://www.springframework.org/schema/beans
    http://www.springframework.org/schema/beans/spring-beans-2.0.xsd
    http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="mq" useJmx="false">
    <plugins>
      <simpleAuthenticationPlugin>
        <users><authenticationUser username="test" password="secret" groups="admins"/></users>
      </simpleAuthenticationPlugin>
    </plugins>
    <persistenceAdapter><jdbcPersistenceAdapter dataSource="#database"/></persistenceAdapter>
    <transportConnectors>
      <transportConnector name="openwire" uri="tcp://127.0.0.1:{openwire}"/>
      <transportConnector name="stomp" uri="stomp://127.0.0.1:{stomp}"/>
    </transportConnectors>
  </broker>
  <bean id="database" class="org.postgresql.ds.PGPoolingDataSource">
    <property name="url" value="{url}"/>
    <property name="user" value="{user}"/>
    <property name="password" value="{password}"/>
  </bean>
</beans>
"""


class Evening:
    """The commands of the page, on a database of the test, and what they started."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.stomp = free_port()
        self._folder, self._database = folder, database
        self._rehearsal = f"{database.name}_r"
        self._url = database.engine.url
        self._exports: list[str] = []
        self.printed: dict[str, str] = {}
        self._broker: subprocess.Popen[bytes] | None = None
        configuration = folder / "activemq.xml"
        login = {"user": database.username, "password": database.password}
        ports = {"openwire": free_port(), "stomp": self.stomp}
        configuration.write_text(XML.format(url=database.jdbc_url, **login, **ports))
        self.activemq = Standalone(configuration)
        programs = folder / "bin"
        programs.mkdir()
        program = programs / "jdbcstore"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m jdbcstore "$@"\n')
        program.chmod(0o755)
        self._environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "LANG": "C.UTF-8",
        }
        url = self._url.set(database=self._rehearsal, password=None, drivername="postgresql")
        self._local = {
            "postgresql://activemq@db.example.com/rehearsal": url.render_as_string(),
            "PGHOST=db.example.com PGUSER=activemq": (
                f"PGHOST={url.host} PGPORT={url.port} PGUSER={url.username}"
            ),
            "'the password of the database'": f"'{database.password}'",
            "' activemq": f"' {database.name}",
            "admin:secret": "test:secret",
            "rehearsal": self._rehearsal,
        } | {f"127.0.0.1:{port}": f"127.0.0.1:{free_port()}" for port in (61700, 61701, 61702, 8161)}

    def step(self, number: int, blocks: slice = slice(None)) -> None:
        """Run the commands below a heading of the page, or those of some blocks there."""
        section = re.search(rf"^## {number}\. .*?(?=^## |\Z)", PAGE.text, re.MULTILINE | re.DOTALL)
        assert section is not None
        for block in re.findall(r"^```sh\n(.*?)^```$", section[0], re.MULTILINE | re.DOTALL)[blocks]:
            for command in block.replace("\\\n", " ").splitlines():
                self._run(re.sub(r" +# .*", "", command))

    def _run(self, command: str) -> None:
        if command.startswith(NOT_RUN):
            return
        if command == "systemctl stop activemq":
            self.activemq.stop()
        elif command == "systemctl start activemq":
            self.activemq.start()
            if self._broker is not None and self._broker.returncode is None:
                waits = "SELECT 1 FROM pg_stat_activity WHERE datname = :name AND wait_event_type = 'Lock'"
                wait_until(lambda: self._database.rows(waits, name=self._database.name), what="the slave")
        elif command.startswith("export "):
            self._exports.append(self._localised(command))
        elif command.startswith("jdbcstore broker"):
            self._start(command)
        else:
            done = subprocess.run(
                self._shell(command), cwd=self._folder, env=self._environment, capture_output=True, text=True
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            self.printed[command] = done.stdout

    def _start(self, command: str) -> None:
        """Start a broker of ours, and return when it serves, or waits for the lock."""
        with (self._folder / "broker.log").open("wb") as log:
            self._broker = subprocess.Popen(
                self._shell(f"exec {command}"),
                cwd=self._folder,
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self._broker.stdout is not None
        line = self._broker.stdout.readline().decode()
        assert line.startswith(("ready", "waiting for lock")), (self._folder / "broker.log").read_text()

    def stop_broker(self, number: signal.Signals) -> None:
        assert self._broker is not None
        self._broker.send_signal(number)
        self._broker.communicate(timeout=WAIT)

    def close(self) -> None:
        self.activemq.kill()
        if self._broker is not None and self._broker.returncode is None:
            self._broker.kill()
            self._broker.communicate()
        self._database.execute(f"DROP DATABASE IF EXISTS {self._rehearsal}")

    def client(self) -> Client:
        client = Client(self.stomp)
        client.connect()
        return client

    def _shell(self, command: str) -> list[str]:
        return ["bash", "-euo", "pipefail", "-c", "\n".join([*self._exports, self._localised(command)])]

    def _localised(self, command: str) -> str:
        for shown, local in self._local.items():
            command = command.replace(shown, local)
        return command


@pytest.fixture
def evening(tmp_path: Path, database: Database) -> Iterator[Evening]:
    for program in PROGRAMS:
        if shutil.which(program) is None:
            unavailable("activemq", f"no {program}; on Debian: apt-get install curl postgresql-client")
    try:
        evening = Evening(tmp_path, database)
    except PeerMissing as missing:
        unavailable("activemq", str(missing))
    try:
        yield evening
    finally:
        evening.close()


@pytest.mark.slow
@pytest.mark.backends("postgresql")
def test_the_page_leads_there_and_back(evening: Evening, database: Database) -> None:
    evening.activemq.start()
    evening.activemq.await_serving()
    client = evening.client()
    for number in range(4):
        client.send("/queue/ORDERS", str(number))
    client.close()

    evening.step(1)
    status = evening.printed["jdbcstore --config activemq.xml status"]
    assert re.search(r"^lock +held$", status, re.MULTILINE)
    assert re.search(r"^queue://ORDERS +4 ", status, re.MULTILINE)
    evening.step(2)
    evening.step(3)
    evening.stop_broker(signal.SIGINT)
    assert database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == [(4,)]

    evening.step(5)
    evening.step(6)
    assert re.search(r"^queue://ORDERS +4 ", evening.printed["jdbcstore status"], re.MULTILINE)
    assert "queue://ORDERS" in evening.printed["jdbcstore top --once"]
    client = evening.client()
    client.consume("/queue/ORDERS")
    client.wait_for(4)
    assert [body for body, _ in client.received] == ["0", "1", "2", "3"]
    wait_until(lambda: database.rows("SELECT 1 FROM ACTIVEMQ_MSGS") == [], what="the acknowledgements")
    client.send("/queue/ORDERS", "4")
    client.close()

    evening.step(7, slice(1))
    evening.activemq.await_serving()
    client = evening.client()
    client.consume("/queue/ORDERS")
    client.wait_for(1)
    assert client.bodies == {"4"}
    client.close()
    evening.stop_broker(signal.SIGTERM)
    evening.step(7, slice(1, None))
    evening.activemq.await_serving()
    ours = "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'jdbcstore%'"
    assert database.rows(ours) == []
