"""Ports of this machine: one to listen on, and one where nobody answers."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager

_random = random.SystemRandom()  # tests seed the shared generator, and would all find the same ports


def free_port() -> int:
    """A port nobody listens on, below those that the kernel gives to outgoing connections.

    One of the latter could be taken by any client on the machine before a server has started, or while
    it is down.
    """
    while True:
        port = _random.randrange(20_000, 32_768)
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
