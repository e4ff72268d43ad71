"""Ports of this machine: one to listen on, and one where nobody answers."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager

_FIRST, _END = 20_000, 32_768  # below those that the kernel gives to outgoing connections
_WORKERS = 8
_random = random.SystemRandom()  # tests seed the shared generator, and would all find the same ports
_given: set[int] = set()


def _candidates() -> range:
    """The ports of this worker of pytest: another one may be about to listen on any other."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if not worker.isdecimal():
        return range(_FIRST, _END)
    size = (_END - _FIRST) // _WORKERS
    first = _FIRST + int(worker) % _WORKERS * size
    return range(first, first + size)


def free_port() -> int:
    """A port nobody listens on, below those that the kernel gives to outgoing connections.

    One of the latter could be taken by any client on the machine before a server has started, or while
    it is down. The same port is not given twice, as nobody may listen on it yet, until all were given.
    """
    candidates = _candidates()
    while True:
        left = [port for port in candidates if port not in _given]
        if not left:
            _given.clear()
            continue
        port = _random.choice(left)
        _given.add(port)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


@contextmanager
def closed_port() -> Iterator[int]:
    """A port that refuses connections, and that no other process can open meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound, and does not listen
        yield int(held.getsockname()[1])
