"""A line to a database server: a TCP proxy that cuts connections, or is long."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from queue import SimpleQueue
from typing import ClassVar

from sqlalchemy import make_url

from tests.support.faults.line import Break, Line


class ProxyLine(Line):
    """What one read from a socket gives counts as one statement, or one answer.

    ``delay`` is the seconds that everything is on its way, in each direction; a round trip has two.
    """

    breaks: ClassVar[tuple[Break, ...]] = tuple(Break)

    def __init__(self, url: str, host: str = "127.0.0.1", *, delay: float = 0.0) -> None:
        super().__init__()
        self._delay = delay
        target = make_url(url)
        self._server = (target.host, int(target.port or str(target.query["port"])))
        self._listener = socket.create_server((host, 0))
        port = self._listener.getsockname()[1]
        # pyodbc's drivers take the port as a keyword of their own.
        new = target.set(host=host)
        new = new.set(port=port) if target.port else new.update_query_dict({"port": str(port)})
        self._url = new.render_as_string(hide_password=False)
        self._pairs: set[_Pair] = set()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return self._url

    def lead_to(self, port: int) -> None:
        """Lead new connections to another server of the same host, and cut those that there are."""
        self._server = (self._server[0], port)
        self.cut_all()

    def lead_new_to(self, port: int) -> None:
        """Lead new connections to another server of the same host, and leave those that there are."""
        self._server = (self._server[0], port)

    def close(self) -> None:
        # Closing it would not wake the thread that accepts.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        self.cut_all()

    def cut_all(self) -> None:
        """End every connection; new ones pass, unless the line is down."""
        for pair in self._take_all():
            pair.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.down:
                client.close()
                continue
            try:
                pair = _Pair(client, socket.create_connection(self._server))
            except OSError:  # the server is down
                client.close()
                continue
            with self._lock:
                self._pairs.add(pair)
            for carry in (self._carry_statements, self._carry_answers):
                threading.Thread(target=carry, args=(pair,), daemon=True).start()

    def _carry_statements(self, pair: _Pair) -> None:
        for data in self._arriving(pair.received(pair.client)):
            broken = self._breaks_at(Break.STATEMENT, Break.BETWEEN)
            if broken:
                # An answer that is faster than the cut would pass.
                pair.mute = True
            if broken is not Break.STATEMENT:
                pair.send(pair.server, data)
            if broken:
                self._cut(pair)

    def _carry_answers(self, pair: _Pair) -> None:
        for data in self._arriving(pair.received(pair.server)):
            if self._breaks_at(Break.ANSWER):
                self._cut(pair)
            elif not pair.mute:
                pair.send(pair.client, data)

    def _arriving(self, sent: Iterator[bytes]) -> Iterator[bytes]:
        return _delayed(sent, self._delay) if self._delay else sent

    def _cut(self, pair: _Pair) -> None:
        """Cut this connection, and all others if the line is to stay down."""
        others = self._take_all() if self.down else []
        # The client may act on the first cut: a connection that it makes when the line is mended stays.
        for each in (*others, pair):
            each.cut()

    def _take_all(self) -> list[_Pair]:
        with self._lock:
            taken, self._pairs = [*self._pairs], set()
        return taken


def _delayed(sent: Iterator[bytes], delay: float) -> Iterator[bytes]:
    """Each piece so long after it came; any number are on their way at once."""
    under_way: SimpleQueue[tuple[float, bytes] | None] = SimpleQueue()

    def take() -> None:
        for data in sent:
            under_way.put((time.monotonic() + delay, data))
        under_way.put(None)

    threading.Thread(target=take, daemon=True).start()
    while (piece := under_way.get()) is not None:
        time.sleep(max(0.0, piece[0] - time.monotonic()))
        yield piece[1]


class _Pair:
    """The two halves of a connection. When one ends, so does the other."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.mute = False
        """Whether nothing that the server says passes."""
        for half in (client, server):
            half.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def received(self, source: socket.socket) -> Iterator[bytes]:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                yield data
        self.cut()

    def send(self, target: socket.socket, data: bytes) -> None:
        with contextlib.suppress(OSError):
            target.sendall(data)

    def cut(self) -> None:
        for half in (self.client, self.server):
            with contextlib.suppress(OSError):
                half.shutdown(socket.SHUT_RDWR)
            half.close()
