"""Rows that programs of several languages insert, received by clients of JMS and STOMP, and by Celery."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jpype
import pytest
from sqlalchemy import URL, make_url

from jdbcstore import Claims
from jdbcstore.message.dead_letters import DEAD_LETTERS
from jdbcstore.stores.claims.outbox import OutboxMover
from jdbcstore.testing.polling import wait_until
from tests.support import ROOT, npm
from tests.support.broker.openwire.jms import Jms, take
from tests.support.broker.programs import BrokerProcess
from tests.support.broker.stomp.serving import Client
from tests.support.databases import Database
from tests.support.kombu.app import make_app, worker
from tests.support.migrations.clients import run_script
from tests.support.require import unavailable

pytestmark = [pytest.mark.backends("postgresql", "mariadb"), pytest.mark.slow]

_INSERT = "INSERT INTO JDBCSTORE_OUTBOX (DESTINATION, BODY, PROPERTIES) VALUES ('{}', '{}', '{}')"
_PROPERTIES = json.dumps({"table": 7, "total": 2.5, "new": True, "name": "Ærø"}, ensure_ascii=False)
_NODE = ROOT / ".build" / "node-drivers"
_JAVA = {
    "postgresql": ("org.postgresql.Driver", "postgresql.jar"),
    "mariadb": ("org.mariadb.jdbc.Driver", "mariadb-java-client.jar"),
}
_PHP = """
$db = new PDO($argv[1], $argv[2], $argv[3], [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
$db->beginTransaction(); $db->exec($argv[4]); $db->rollBack();
$db->beginTransaction(); $db->exec($argv[5]); $db->commit();
"""
_JAVASCRIPT = """
const [, vendor, url, ...statements] = process.argv;
(async () => {
  const pg = vendor === 'postgresql';
  const client = pg ? new (require('pg').Client)(url) : await require('mysql2/promise').createConnection(url);
  if (pg) await client.connect();
  for (const [end, statement] of [['ROLLBACK', statements[0]], ['COMMIT', statements[1]]]) {
    await client.query('BEGIN'); await client.query(statement); await client.query(end);
  }
  await client.end();
})();
"""


def _run(*command: str) -> None:
    done = subprocess.run(
        command, cwd=_NODE if command[0] == "node" else None, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def _client(database: Database, url: URL, folder: Path, *statements: str) -> None:
    """The vendor's own client: psql, or mariadb."""
    script = folder / "insert.sql"
    head = "SET NAMES utf8mb4;\n" if url.get_backend_name() == "mariadb" else ""
    script.write_text(f"{head}BEGIN; {statements[0]}; ROLLBACK;\nBEGIN; {statements[1]}; COMMIT;\n")
    run_script(database, script)


def _php(database: Database, url: URL, folder: Path, *statements: str) -> None:  # noqa: ARG001
    """PDO."""
    if shutil.which("php") is None:
        unavailable("php", "on Debian: apt-get install php-cli php-pgsql php-mysql")
    kind, more = ("pgsql", "") if "postgresql" in url.drivername else ("mysql", ";charset=utf8mb4")
    name = f"{kind}:host={url.host};port={url.port};dbname={url.database}{more}"
    _run("php", "-r", _PHP, "--", name, str(url.username), str(url.password), *statements)


def _node(database: Database, url: URL, folder: Path, *statements: str) -> None:  # noqa: ARG001
    """The packages pg and mysql2."""
    if shutil.which("node") is None:
        unavailable("node", "on Debian: apt-get install nodejs npm")
    npm.installed("node", _NODE, "pg@8", "mysql2@3")
    vendor = "postgresql" if "postgresql" in url.drivername else "mysql"
    plain = url.set(drivername=vendor, query={}).render_as_string(hide_password=False)
    _run("node", "-e", _JAVASCRIPT, vendor, plain, *statements)


def _java(database: Database, url: URL, folder: Path, *statements: str) -> None:  # noqa: ARG001
    """JDBC, in the virtual machine of the JMS client."""
    java = jpype.JClass
    name, jar = _JAVA[url.get_backend_name()]
    jars = [java("java.net.URL")(f"file:///usr/share/java/{jar}")]
    driver = java(name, loader=java("java.net.URLClassLoader")(jars))()
    login = java("java.util.Properties")()
    login.setProperty("user", url.username)
    login.setProperty("password", str(url.password))
    connection = driver.connect(database.jdbc_url, login)
    connection.setAutoCommit(False)
    for statement, end in zip(statements, (connection.rollback, connection.commit), strict=True):
        connection.createStatement().executeUpdate(statement)
        end()
    connection.close()


_SENDERS: dict[str, Callable[..., None]] = {"client": _client, "php": _php, "node": _node, "java": _java}


def _statements(queue: str, name: str) -> tuple[str, str]:
    return _INSERT.format(queue, "rolled back", _PROPERTIES), _INSERT.format(queue, name, _PROPERTIES)


@pytest.fixture
def broker(database: Database, tmp_path: Path) -> Any:
    configuration = tmp_path / "jdbcstore.toml"
    configuration.write_text("outbox = true\n")
    options = "--url", database.url, "--config", str(configuration), "--openwire", "127.0.0.1:0"
    with BrokerProcess(tmp_path, *options) as process:
        process.ready()
        yield process


@pytest.mark.whole("mariadb")
@pytest.mark.parametrize("sender", _SENDERS)
def test_jms_and_stomp_receive_what_other_languages_insert(
    database: Database, broker: BrokerProcess, tmp_path: Path, sender: str
) -> None:
    with Jms(broker.openwire_url) as jms:
        for queue in ("queue://JMS", "queue://STOMP"):
            _SENDERS[sender](database, make_url(database.url), tmp_path, *_statements(queue, f"{sender} Ærø"))
        message = take(jms.consumer("JMS"))
        assert str(message.getText()) == f"{sender} Ærø"
        values = [message.getObjectProperty(name) for name in ("table", "total", "new", "name")]
        assert [value.getClass().getSimpleName() for value in values[:3]] == ["Integer", "Double", "Boolean"]
        assert [*map(str, values)] == ["7", "2.5", "True", "Ærø"]
    with Client(broker.port) as client:
        client.subscribe("/queue/STOMP")
        frame = client.expect("MESSAGE")
        assert frame.body.decode() == f"{sender} Ærø"
        assert [frame.headers[name] for name in ("table", "total", "new")] == ["7", "2.5", "true"]


@pytest.mark.backends("postgresql")
def test_a_worker_of_celery_runs_what_another_language_inserts(database: Database, tmp_path: Path) -> None:
    held = tmp_path / "held"
    task = {
        "body": json.dumps([[str(held)], {}, {}]),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {"task": "hold", "id": "order-1", "lang": "sql"},
        "properties": {"body_encoding": "utf-8"},
    }
    insert = (
        "INSERT INTO JDBCSTORE_OUTBOX (DESTINATION, JMS_TYPE, BODY)"
        f" VALUES ('celery', 'kombu', '{json.dumps(task)}')"
    )
    with Claims(database.url) as claims:
        mover = OutboxMover(claims.database, claims.queue, DEAD_LETTERS)
        _client(database, make_url(database.url), tmp_path, insert, insert)
        while mover.move():
            pass
    with make_app(database.url, 30.0), worker(database.url, 30.0, tmp_path / "worker.log"):
        wait_until(held.is_file, 120.0, "that the task has run")
