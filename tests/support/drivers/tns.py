"""Oracle's listener, which knows no service: it refuses every connection with one error."""

from __future__ import annotations

import re
import struct

from tests.support.drivers.listener import Listener, Peer

_REFUSE = 4


class OracleListener(Listener):
    """Notes what each driver wants to reach, and refuses it with this number, or without a word."""

    def __init__(self, error: int = 12514) -> None:
        super().__init__(self._refuse)
        self._error = error
        self.wanted: list[str] = []
        """``SID=MQ`` or ``SERVICE_NAME=mq``."""

    def _refuse(self, peer: Peer) -> None:
        packet = _packet(peer)
        size, start = struct.unpack_from(">HH", packet, 24)
        # What is too long for the first packet comes in a second one.
        text = packet[start : start + size] or _packet(peer)[10:]
        [wanted] = re.findall(r"\(((?:SID|SERVICE_NAME)=[^)]*)\)", text.decode())
        self.wanted.append(wanted)
        if self._error:
            said = f"(DESCRIPTION=(ERR={self._error})(ERROR_STACK=(ERROR=(CODE={self._error}))))".encode()
            body = struct.pack(">BBH", 4, 0, len(said)) + said
            peer.send(struct.pack(">HHBBH", 8 + len(body), 0, _REFUSE, 0, 0) + body)


def _packet(peer: Peer) -> bytes:
    head = peer.read(8)
    return head + peer.read(struct.unpack_from(">H", head)[0] - 8)
