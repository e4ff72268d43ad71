"""``python -m tests.support.calls``: how many functions of jdbcstore one operation calls, as JSON.

All threads are counted, on SQLite, once everything is warm, as the median of many operations one after the
other. What other packages call is left out, and so are the functions of the compiled core, which Python's
profiler does not see. For STOMP, how often the file changes from one call to the next is counted as well,
in each thread. ``--write`` renews the file that ``tests/unit/test_calls.py`` compares with.
"""

from __future__ import annotations

import json
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import kombu

import jdbcstore
import jdbcstore.plugins.kombu  # it registers the transport
from jdbcstore import Destination, Message
from jdbcstore.broker.openwire.commands import Type
from jdbcstore.broker.transport.connection import ClientConnection
from jdbcstore.broker.transport.output import ClientOutput
from jdbcstore.config.journal import JournalConfig
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.stores.journaled import JournaledStore
from tests.support.broker.openwire.client import Client
from tests.support.broker.openwire.serving import Served
from tests.support.pool import memory

FILE = Path(__file__).parents[1] / "fixtures" / "calls.json"
TIMES = 50
_WARM = 20
_PACKAGE = str(Path(jdbcstore.__file__).parent)
_ARRIVAL = ClientConnection.buffer_updated.__code__
_ANSWER = ClientOutput.write_now.__code__
_QUEUE = "ORDERS"
_STOMP_SEND = "STOMP SEND with a receipt"


class Calls:
    """The number of calls of functions of the package, while it counts."""

    def __init__(self) -> None:
        self._counting = False
        self._is_answered = False
        """The broker writes its answer; what it does then may come before or after the client reads it."""
        self._count = 0
        self._changes = 0
        self._last: dict[int, str] = {}
        """The file of each thread's last call."""
        self._files: dict[str, None] = {}
        self.found: dict[str, int] = {}
        self.changes: dict[str, int] = {}
        self.files: dict[str, tuple[str, ...]] = {}
        """The modules that an operation enters, in the order of their first call."""
        # For the threads that are started from now on; this thread only where it is not a client.
        threading.setprofile(self._called)

    def _called(self, frame: FrameType, event: str, _: Any) -> None:
        if self._counting and event == "call" and frame.f_code.co_filename.startswith(_PACKAGE):
            thread, file = threading.get_ident(), frame.f_code.co_filename
            self._files[file] = None
            if not self._is_answered:
                if frame.f_code is _ARRIVAL:  # what was called before belongs to the last answer
                    self._count = self._changes = 0
                    self._last.clear()
                self._count += 1
                self._changes += self._last.get(thread, file) != file
                self._last[thread] = file
                self._is_answered = frame.f_code is _ANSWER

    @contextmanager
    def here(self) -> Iterator[None]:
        """Count in this thread, too."""
        sys.setprofile(self._called)
        try:
            yield
        finally:
            sys.setprofile(None)

    def count(
        self,
        name: str,
        operation: Callable[[], object],
        *,
        before: Callable[[], object] | None = None,
    ) -> None:
        """Note the least of an operation, which is warmed up first: a busy machine only adds wake-ups.

        :param before: called before each operation, and not counted
        """
        counts, changed = [], []
        for number in range(_WARM + TIMES):
            self._counting = False
            if before is not None:
                before()
            self._last.clear()
            if number == _WARM:
                self._files.clear()
            self._count = self._changes = 0
            self._is_answered, self._counting = False, True
            operation()
            if number >= _WARM:
                counts.append(self._count)
                changed.append(self._changes)
        self._counting = False
        self.found[name] = min(counts)
        self.changes[name] = min(changed)
        self.files[name] = tuple(str(Path(file).relative_to(_PACKAGE)) for file in self._files)


def _library(calls: Calls, folder: Path) -> None:
    with jdbcstore.open(f"sqlite:///{folder}/library.db", cleanup_period=0.0) as store:
        queue, stored = store.queue(_QUEUE), list[Any]()
        with calls.here():
            calls.count("add_message", lambda: stored.append(queue.add_message(Message("two pints"))))
            calls.count("acknowledge", lambda: queue.acknowledge(stored.pop()))


def _journal(calls: Calls, folder: Path) -> None:
    files: dict[str, Any] = {
        "journal_log_files": 1,
        "journal_log_file_size": 1 << 20,
        "journal_disk_sync_strategy": "never",
    }
    backing = JdbcStore(f"sqlite:///{folder}/journaled.db", journaled=True)
    config = JournalConfig(directory=str(folder / "journal"), **files)
    with backing, JournaledStore(backing, config) as store:
        queue = store.queue(_QUEUE)
        with calls.here():
            calls.count("checkpoint of one message", store.checkpoint, before=lambda: _add(queue))


def _add(queue: Any) -> None:
    queue.add_message(Message("two pints"))


def _broker(calls: Calls, folder: Path) -> None:
    send = f"SEND\ndestination:/queue/{_QUEUE}\npersistent:true\nreceipt:r\n\ntwo pints\0".encode()
    with (
        jdbcstore.open(f"sqlite:///{folder}/broker.db", cleanup_period=0.0) as store,
        Served(store) as served,
    ):
        with socket.create_connection(("127.0.0.1", served.port)) as client:
            client.sendall(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")
            client.recv(4096)

            def stomp() -> None:
                client.sendall(send)
                client.recv(4096)

            calls.count(_STOMP_SEND, stomp)
        with Client(served.openwire_port) as jms:
            jms.request(Type.SESSION_INFO, session_id=jms.session_id)
            jms.request(Type.PRODUCER_INFO, producer_id=jms.producer_id)
            calls.count(
                "OpenWire SEND with a response", lambda: jms.send(Destination.queue(_QUEUE), "two pints")
            )


def _kombu(calls: Calls, folder: Path) -> None:
    with kombu.Connection(f"jdbcstore+sqlite:///{folder}/kombu.db") as connection:
        channel = connection.channel()
        queue = kombu.Queue(_QUEUE, channel=channel)
        queue.declare()
        producer, taken = kombu.Producer(channel), list[Any]()
        with calls.here():
            calls.count("kombu publish", lambda: producer.publish("two pints", routing_key=_QUEUE))
            calls.count("kombu claim", lambda: taken.append(queue.get()))
            calls.count("kombu ack", lambda: taken.pop().ack())


def _claims(calls: Calls, folder: Path) -> None:
    with jdbcstore.Claims(f"sqlite:///{folder}/claims.db") as claims:
        queue, taken = claims.queue(_QUEUE), list[Any]()
        with calls.here():
            calls.count("add to a queue of claims", lambda: queue.add(Message("two pints")))
            calls.count("claim", lambda: taken.extend(queue.claim(1)))
            calls.count("acknowledge a claim", lambda: queue.acknowledge(taken.pop()))


def walked() -> Calls:
    """Carry out every operation; return what it called."""
    calls = Calls()
    with tempfile.TemporaryDirectory(dir=memory()) as folder:
        for measure in (_library, _journal, _broker, _kombu, _claims):
            measure(calls, Path(folder))
    return calls


def measured() -> dict[str, int]:
    """The calls of each operation, and how often a STOMP SEND changes from one file to another."""
    calls = walked()
    return {**calls.found, f"{_STOMP_SEND}: changes of file": calls.changes[_STOMP_SEND]}


def main() -> None:
    found = json.dumps(measured(), indent=2) + "\n"
    if sys.argv[1:] == ["--write"]:
        FILE.write_text(found)
    else:
        sys.stdout.write(found)


if __name__ == "__main__":
    main()
