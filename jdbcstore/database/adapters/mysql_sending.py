"""Statements that are sent through a connection of pymysql without waiting, also over TLS.

pymysql has no calls for that, so its socket is used; the answers are read by its own classes. A statement
that has one packet, and changes rows, is answered with one packet: their number, or an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from socket import SHUT_RDWR, socket
from ssl import SSLWantReadError, SSLWantWriteError
from typing import Any

from jdbcstore.database.adapters.sending import SentWrite

_QUERY = 3
_HEAD = 4
"""Bytes before the content of a packet: three have its length, one its number."""
_LONGEST = 2**24 - 1
"""The length from which a command is sent in several packets."""
_SOME = 4096
_LATER = (BlockingIOError, SSLWantReadError, SSLWantWriteError)


def packet_of(cursor: Any, text: str, values: Sequence[Any]) -> bytes | None:
    """Return the packet of a statement; None if it cannot be sent here."""
    connection = cursor.connection
    if "pymysql" not in type(connection).__module__ or getattr(connection, "_sock", None) is None:
        return None
    # Before 1.2, pymysql has the bytes of values in its strings as they are.
    query: bytes = _filled(text, values, connection.escape).encode(connection.encoding, "surrogateescape")
    length = len(query) + 1
    return b"%b\0%c%b" % (length.to_bytes(3, "little"), _QUERY, query) if length < _LONGEST else None


def _filled(text: str, values: Sequence[Any], escape: Callable[[Any], str]) -> str:
    """Return a statement with its values, as a cursor's ``mogrify``, and faster: most values come again."""
    known: dict[str | None, str] = {None: "NULL"}
    filled: list[Any] = []
    for value in values:
        if type(value) is int:
            filled.append(value)
        elif value is None or type(value) is str:
            literal = known.get(value)
            if literal is None:
                literal = known[value] = escape(value)
            filled.append(literal)
        else:
            filled.append(escape(value))
    return text % tuple(filled)


class SentQuery(SentWrite):
    """A statement that changes rows, as a packet of :func:`packet_of`."""

    def __init__(
        self,
        connection: Any,
        packet: bytes,
        conclude: Callable[[int], None],
        refuse: Callable[[Exception], None],
    ) -> None:
        """Begin to send; ``refuse`` raises an error in place of the server's."""
        self._connection = connection
        self._socket = line = connection._sock
        self._rest = memoryview(packet)
        self._answer = b""
        self._refuse = refuse
        # Set back before anything else uses the connection, because pymysql remembers its setting.
        self._seconds: float | None = line.gettimeout()

        def begin() -> int:
            line.settimeout(0)
            return int(line.fileno())

        super().__init__(connection, begin, conclude, lambda: cut(connection), self._seconds, least=1)

    def _send(self) -> bool:
        try:
            while self._rest:
                self._rest = self._rest[self._socket.send(self._rest) :]
        except _LATER:
            return False
        except OSError as error:
            raise _lost() from error
        return True

    def _receive(self) -> int | None:
        try:
            while len(self._answer) < self._length:
                some = self._socket.recv(_SOME)
                if not some:
                    raise _lost()
                self._answer += some
        except _LATER:
            return None
        except OSError as error:
            raise _lost() from error
        return self._rows_of(self._answer[_HEAD : self._length])

    @property
    def _length(self) -> int:
        """The bytes of the answer, as far as it tells."""
        return _HEAD + int.from_bytes(self._answer[: _HEAD - 1], "little")

    def _rows_of(self, content: bytes) -> int:
        from pymysql.protocol import MysqlPacket, OKPacketWrapper

        if self._answer[_HEAD - 1] != 1:
            raise _lost()  # not the answer: a stopping server sends a notice
        packet = MysqlPacket(content, self._connection.encoding)
        packet.check_error()
        return int(OKPacketWrapper(packet).affected_rows)

    def finish(self) -> None:
        try:
            super().finish()
        except Exception as error:
            self._refuse(error)
            raise

    def _end(self) -> None:
        super()._end()
        with suppress(OSError):
            self._socket.settimeout(self._seconds)


def cut(connection: Any) -> None:
    """Shut down the socket of a connection, under a thread that waits for its answer."""
    line = getattr(connection, "_sock", None)
    if line is not None:
        with suppress(OSError):
            socket.shutdown(line, SHUT_RDWR)  # a socket of TLS would read on without TLS


def _lost() -> Exception:
    from pymysql.constants.CR import CR_SERVER_LOST
    from pymysql.err import OperationalError

    return OperationalError(CR_SERVER_LOST, "the connection was lost before the answer to a statement")
