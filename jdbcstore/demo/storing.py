"""The storing process: opens the store, and serves it to the others until it is killed.

    python -m jdbcstore.demo.storing DESCRIPTOR QUEUE

``DESCRIPTOR`` is a listening socket that whoever started this process keeps open: connections made
while no storing process lives wait in it for the next one. The store's URL is in JDBCSTORE_URL.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Callable

from jdbcstore import JdbcStore, Message, MessageId, StoreConfig, StoreError
from jdbcstore.demo.protocol import Json

_WAIT_FOR_MESSAGES = 0.2


class Service:
    """What the storing process does for producers and the consumer."""

    def __init__(self, store: JdbcStore, queue: str) -> None:
        self._store = store
        self._name = queue
        self._queue = store.queue(queue)
        self._added = threading.Condition()
        self._operations: dict[str, Callable[[Json], Json]] = {
            "add": self._add,
            "take": self._take,
            "acknowledge": self._acknowledge,
        }

    def answer(self, request: Json) -> Json:
        try:
            return self._operations[request.pop("operation")](request)
        except StoreError as error:
            return {"error": str(error)}

    def _add(self, request: Json) -> Json:
        """Store a message. One that is sent again may have been stored already, and is marked."""
        message = Message(
            request["body"],
            message_id=MessageId.parse(request["message_id"]),
            redelivery_counter=1 if request["again"] else 0,
        )
        reference = self._queue.add_message(message)
        with self._added:
            self._added.notify_all()
        return {"sequence": reference.sequence}

    def _take(self, request: Json) -> Json:
        """The next messages. Each is marked in the store first: whoever gets it later sees that."""
        page = self._queue.recover(request["limit"])
        if not page:
            with self._added:
                self._added.wait(_WAIT_FOR_MESSAGES)
            page = self._queue.recover(request["limit"])
        with self._store.transaction() as transaction:
            queue = transaction.queue(self._name)
            for message in page:
                queue.update_message(message.replace(redelivery_counter=message.redelivery_counter + 1))
        return {
            "messages": [
                {
                    "sequence": message.sequence,
                    "message_id": str(message.message_id),
                    "redelivery_counter": message.redelivery_counter,
                    "timestamp_ms": message.timestamp_ms,
                    "body": message.body,
                }
                for message in page
            ]
        }

    def _acknowledge(self, request: Json) -> Json:
        self._queue.acknowledge(*request["sequences"])
        return {}


def serve(listener: socket.socket, service: Service) -> None:
    """Answer every connection on a thread of its own."""
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_converse, args=(connection, service), daemon=True).start()


def _converse(connection: socket.socket, service: Service) -> None:
    with connection, connection.makefile("rwb") as file:
        for line in file:
            file.write(json.dumps(service.answer(json.loads(line))).encode() + b"\n")
            file.flush()


def main(descriptor: int, queue: str) -> None:
    listener = socket.socket(fileno=descriptor)
    with JdbcStore(os.environ["JDBCSTORE_URL"], StoreConfig(enable_audit=True)) as store:
        threading.Thread(target=serve, args=(listener, Service(store, queue)), daemon=True).start()
        # The end of this input is the end of the demo, whether it finished or died.
        sys.stdin.buffer.read()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
