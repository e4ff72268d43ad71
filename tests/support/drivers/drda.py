"""DB2's port, which closes each connection after what it was sent first."""

from __future__ import annotations

import struct

from tests.support.drivers.listener import Listener, Peer

_RDBNAM = b"\x21\x10"


class Db2Listener(Listener):
    """Notes the database that each driver wants to reach."""

    def __init__(self) -> None:
        super().__init__(self._close)
        self.wanted: list[str] = []

    def _close(self, peer: Peer) -> None:
        data = b""
        while _RDBNAM not in data:
            data += peer.read(struct.unpack(">H", peer.read(2))[0] - 2)
        place = data.index(_RDBNAM)
        [size] = struct.unpack_from(">H", data, place - 2)
        self.wanted.append(data[place + 2 : place + size - 2].decode("cp500").strip())
