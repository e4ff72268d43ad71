"""Drives a real ActiveMQ broker and JMS client in a JVM of their own; see the README here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support import ROOT, tiers
from tests.support.jvm import NO_TRACES, QUICK, compiled
from tests.support.maven import CONNECTOR_J, why_missing

SOURCES = ROOT / "tests" / "interop" / "peer"
VERSION = os.environ.get("JDBCSTORE_ACTIVEMQ", "")
"""That of an ActiveMQ which ``make maven`` has fetched, instead of Debian's."""
LIBRARIES = ROOT / ".build" / "activemq" / VERSION if VERSION else Path("/usr/share/activemq/lib")
NUMBER = tuple(map(int, (VERSION or "5.17.2").split(".")))
IS_SIX = NUMBER >= (6,)
JMS = "jakarta.jms" if IS_SIX else "javax.jms"
"""The package of the interfaces."""
JARS = tuple(
    Path("/usr/share/java") / name
    for name in ("jaxb-api.jar", "mariadb-java-client.jar", "postgresql.jar", "slf4j-simple.jar")
)
OF_SOME = (CONNECTOR_J, Path("/usr/share/java/h2.jar"), Path("/usr/share/java/activeio-core.jar"))
"""What only some tests need: drivers, and the files of ActiveMQ's own journal."""
PACKAGES = "activemq libmariadb-java libpostgresql-jdbc-java default-jdk-headless"
QUICK_START = (*QUICK, "-Xshare:auto")
ANSWER_TIMEOUT = 120.0

Json = dict[str, Any]


class PeerMissing(Exception):
    """ActiveMQ, a JDBC driver or the JDK is not installed."""


class PeerError(Exception):
    """The peer's answer to a request was an exception; the text is its Java stack trace."""


def classpath() -> str:
    """Debian's jars of ActiveMQ and the JDBC drivers, as a Java class path."""
    absent = [str(path) for path in (LIBRARIES, *JARS) if not path.exists()]
    absent += [program for program in ("java", "javac") if shutil.which(program) is None]
    if absent:
        cure = f"on Debian: apt-get install {PACKAGES}"
        if VERSION:
            cure += f"; {why_missing(LIBRARIES)}"
        raise PeerMissing(f"no {', '.join(absent)}; {cure}")
    return ":".join([f"{LIBRARIES}/*", *map(str, JARS), *map(str, OF_SOME)])


@cache
def _classes(jars: str) -> Path:
    sources = sorted(SOURCES.glob("*.java"))
    return compiled({source.name: source.read_text().replace("javax.jms", JMS) for source in sources}, jars)


class Peer:
    """A JVM that runs one broker at a time; a context manager that ends it and removes its files.

    Not for more than one thread. ``jvm_options`` replace those that make the JVM start quickly,
    which a benchmark must not have. ``patience`` is the time in seconds for each answer.
    """

    def __init__(self, jvm_options: Iterable[str] = QUICK_START, *, patience: float = ANSWER_TIMEOUT) -> None:
        self._patience = patience
        classes, jars = self.program()
        self._directory = tempfile.TemporaryDirectory(prefix="jdbcstore-activemq-")
        directory = Path(self._directory.name)
        self._log = directory / "log"
        with self._log.open("wb") as log:
            command = [
                "java",
                NO_TRACES,
                *jvm_options,
                f"-Djava.io.tmpdir={directory}",
                f"-Duser.home={directory}",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                "-cp",
                f"{classes}:{jars}",
                "Peer",
            ]
            tiers.starts("java")
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=directory,
                encoding="ascii",
            )

    def program(self) -> tuple[str, str]:
        """Return the folder of the compiled program, and the class path of ActiveMQ."""
        jars = classpath()
        return str(_classes(jars)), jars

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the broker, end the JVM and remove everything it wrote outside its database."""
        try:
            self._process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            self._directory.cleanup()

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """End the JVM with SIGKILL, whatever it does, and remove what it wrote outside its database."""
        self._process.kill()
        self._process.communicate()
        self._directory.cleanup()

    def call(self, command: str, **arguments: Any) -> Any:
        """Send one request and wait for its answer.

        :raises PeerError: the request failed in Java
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"do": command, **arguments}), file=self._process.stdin, flush=True)
        # The watchdog ends the JVM, and with it the wait for a line.
        watchdog = threading.Timer(self._patience, self._process.kill)
        watchdog.start()
        try:
            line = self._process.stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            raise PeerError(f"the peer ended during {command!r}:\n{self.log_end()}")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(f"{command}: {answer['error']}")
        return answer["ok"]

    def log_end(self) -> str:
        """The end of what the JVM and ActiveMQ logged."""
        return self._log.read_text(errors="replace")[-4000:]

    def serialize(self, value: Json) -> Json:
        """A typed value as ActiveMQ's client puts it into an object message, as typed bytes."""
        serialized: Json = self.call("serialize", value=value)
        return serialized

    def select(self, selectors: Iterable[str], message: Json) -> list[str]:
        """What each selector makes of the message: true, false, unknown, error, exception."""
        results: list[str] = self.call("select", selectors=list(selectors), message=message)
        return results

    def broker(self, jdbc_url: str, user: str, password: str, **options: Any) -> Broker:
        """Start the broker on a database; a context manager stops it."""
        started = self.call("start", jdbc_url=jdbc_url, user=user, password=password, **options)
        return Broker(self, started["stomp_port"], started["openwire_url"])

    def file_broker(self, directory: Path, **options: Any) -> Broker:
        """The same on KahaDB's files in a directory, which syncs every write."""
        started = self.call("start", kahadb=str(directory), **options)
        return Broker(self, started["stomp_port"], started["openwire_url"])


class Broker:
    """A running broker and a JMS client for it. Destinations are qualified names: ``queue://X``."""

    def __init__(self, peer: Peer, stomp_port: int, openwire_url: str = "") -> None:
        self._peer = peer
        self.stomp_port = stomp_port
        self.openwire_url = openwire_url

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._peer.call("stop")

    def send(
        self,
        destination: str,
        messages: Iterable[Mapping[str, Any]],
        *,
        compress: bool = False,
        transaction: str = "",
    ) -> list[Json]:
        """Send persistent messages; ``transaction`` puts them into one and ends it so: commit, rollback."""
        sent: list[Json] = self._peer.call(
            "send",
            destination=destination,
            messages=list(messages),
            compress=compress,
            transaction=transaction,
        )
        return sent

    def fill(self, destination: str, count: int, **options: Any) -> None:
        """Send numbered texts quickly; ``bytes`` of each, ``batch`` in a transaction, ``ttl_ms``."""
        self._peer.call("fill", destination=destination, count=count, **options)

    def receive(self, destination: str, count: int, **options: Any) -> list[Json]:
        """Up to ``count`` messages, acknowledged; ``timeout_ms`` (10 s) is the wait for each."""
        received: list[Json] = self._peer.call("receive", destination=destination, count=count, **options)
        return received

    def log_end(self) -> str:
        """The end of its log."""
        return self._peer.log_end()

    def browse(self, queue: str) -> list[Json]:
        seen: list[Json] = self._peer.call("browse", destination=queue)
        return seen

    def subscribe(self, topic: str, client_id: str, name: str, selector: str | None = None) -> None:
        self._peer.call("subscribe", topic=topic, client_id=client_id, name=name, selector=selector)

    def durable_receive(
        self, topic: str, client_id: str, name: str, count: int, **options: Any
    ) -> list[Json]:
        """As :meth:`receive`, of a durable subscription, which is created if it is absent."""
        received: list[Json] = self._peer.call(
            "durable_receive", topic=topic, client_id=client_id, name=name, count=count, **options
        )
        return received

    def unsubscribe(self, client_id: str, name: str) -> None:
        self._peer.call("unsubscribe", client_id=client_id, name=name)

    def destroy(self, destination: str) -> None:
        """Remove a destination with its messages."""
        self._peer.call("destroy", destination=destination)

    def cleanup(self) -> None:
        """Remove what every durable subscription has acknowledged."""
        self._peer.call("cleanup")

    def xa_prepare(self, xid: str, destination: str, **options: Any) -> Json:
        """Send ``messages`` to and receive ``count`` from a destination, and leave the branch in doubt."""
        prepared: Json = self._peer.call("xa_prepare", xid=xid, destination=destination, **options)
        return prepared

    def xa_finish(self, xid: str, outcome: str) -> None:
        """Commit or roll back a branch that was left in doubt."""
        self._peer.call("xa_finish", xid=xid, outcome=outcome)

    def bench(self, producers: int, messages: int, batch: int = 1, size: int = 1024) -> Json:
        """Messages a second through one queue; ``batch`` messages to a transaction, 1 for none."""
        rates: Json = self._peer.call(
            "bench", producers=producers, messages=messages, batch=batch, bytes=size
        )
        return rates
