"""A line to a database server that can swallow everything, and then let it pass again."""

from __future__ import annotations

import threading

from tests.support.faults.proxy import ProxyLine, _Pair


class HoleLine(ProxyLine):
    """While it is :meth:`swallowing`, connections stay open, and nothing arrives."""

    def __init__(self, url: str, host: str = "127.0.0.1") -> None:
        self._flows = threading.Event()
        self._flows.set()
        super().__init__(url, host)

    def swallow(self) -> None:
        self._flows.clear()

    def flow(self) -> None:
        self._flows.set()

    def close(self) -> None:
        self.flow()
        super().close()

    def _carry_statements(self, pair: _Pair) -> None:
        for data in pair.received(pair.client):
            self._flows.wait()
            pair.send(pair.server, data)

    def _carry_answers(self, pair: _Pair) -> None:
        for data in pair.received(pair.server):
            self._flows.wait()
            pair.send(pair.client, data)
