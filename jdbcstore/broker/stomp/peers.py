"""Who is at the other end of a connection, and whether it still is."""

from __future__ import annotations

import socket
from asyncio import BaseTransport


def name_of(transport: BaseTransport) -> str:
    """Its address, for logs."""
    address = transport.get_extra_info("peername")
    return "{}:{}".format(*address[:2]) if isinstance(address, tuple) else str(address or "?")


def keep_alive(transport: BaseTransport) -> None:
    """So that a client whose machine is gone is noticed, also without heart-beats."""
    opened = transport.get_extra_info("socket")
    if opened is not None and opened.family in (socket.AF_INET, socket.AF_INET6):
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
