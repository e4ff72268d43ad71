"""Statements that are sent through a connection of pymysql without waiting, also over TLS.

pymysql has no calls for that, so its socket is used; the answers are read by its own classes. A statement
that has one packet, and changes rows, is answered with one packet: their number, or an error. A frequent
statement is prepared: the server then parses neither its text nor its values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from socket import SHUT_RDWR, socket
from ssl import SSLWantReadError, SSLWantWriteError
from struct import Struct
from typing import Any
from weakref import WeakKeyDictionary

from jdbcstore.database.adapters.sending import SentWrite

_QUERY, _PREPARE, _EXECUTE = 3, 22, 23
_HEAD = 4
"""Bytes before the content of a packet: three have its length, one its number."""
_LONGEST = 2**24 - 1
"""The length from which a command is sent in several packets."""
_SOME = 4096
_LATER = (BlockingIOError, SSLWantReadError, SSLWantWriteError)
_OFTEN = 4
"""Times that a connection sends a statement as text before it prepares it."""
_MOST_VALUES = 400
"""Values of a prepared statement: larger batches differ in size too often."""
_MOST_PREPARED = 100
"""Statements that a connection prepares."""
_START = Struct("<BIBI").pack
_LONGLONG, _BLOB, _STRING, _NULL = b"\x08\0", b"\xfc\0", b"\xfd\0", b"\x06\0"
_INTEGER = Struct("<q").pack


class PreparedStatements:
    """The statements of one connection: how often each was sent as text, or its number on the server."""

    def __init__(self) -> None:
        self._uses: dict[str, int] = {}
        self.numbers: dict[str, int | None] = {}
        """By text; None if the server refuses to prepare it."""

    def is_due(self, text: str, values: Sequence[Any]) -> bool:
        """Return whether a statement was sent as text often enough to prepare it."""
        if text in self.numbers or len(values) > _MOST_VALUES or len(self.numbers) >= _MOST_PREPARED:
            return False
        return self._uses.get(text, 0) >= _OFTEN

    def count(self, text: str) -> None:
        """Count a use of a statement as text."""
        self._uses[text] = self._uses.get(text, 0) + 1

    def prepare(self, connection: Any, text: str) -> None:
        """Prepare a statement on the server, and wait for that."""
        from pymysql.err import MySQLError, OperationalError
        from pymysql.protocol import MysqlPacket

        self.numbers[text] = None
        del self._uses[text]
        try:
            connection._execute_command(_PREPARE, text.replace("%s", "?").replace("%%", "%"))
            answer: Any = connection._read_packet()
        except OperationalError as error:
            if 2000 <= error.args[0] < 3000:  # the client's own numbers: the connection is lost
                raise
            return
        except MySQLError:
            return
        _, number, columns, parameters = Struct("<BIHH").unpack_from(answer._data)
        for count in (parameters, columns):
            for _ in range(count + 1 if count else 0):  # the last says that there are no more
                connection._read_packet(MysqlPacket)
        self.numbers[text] = number


_prepared: WeakKeyDictionary[Any, PreparedStatements] = WeakKeyDictionary()


def prepared_on(connection: Any) -> PreparedStatements | None:
    """Return the prepared statements of a connection of pymysql; None for another driver."""
    if "pymysql" not in type(connection).__module__:
        return None
    prepared = _prepared.get(connection)
    if prepared is None:
        prepared = _prepared[connection] = PreparedStatements()
    return prepared


def forget_prepared(connection: Any) -> None:
    """Send the statements of a connection as text again: its server has lost the prepared ones."""
    _prepared.pop(connection, None)


def prepare_if_due(connection: Any, text: str, values: Sequence[Any]) -> None:
    """Prepare a statement that :func:`packet_of` has left to a caller that may wait."""
    prepared = prepared_on(connection)
    if prepared is not None and prepared.is_due(text, values):
        prepared.prepare(connection, text)


def packet_of(cursor: Any, text: str, values: Sequence[Any]) -> bytes | None:
    """Return the packet of a statement; None if it cannot be sent here, or is to be prepared first."""
    connection = cursor.connection
    prepared = prepared_on(connection)
    if prepared is None or getattr(connection, "_sock", None) is None:
        return None
    number = prepared.numbers.get(text)
    if number is not None and (packet := _execution(number, values, connection.encoding)) is not None:
        return packet
    if prepared.is_due(text, values):
        return None
    prepared.count(text)
    # Before 1.2, pymysql has the bytes of values in its strings as they are.
    query: bytes = _filled(text, values, connection.escape).encode(connection.encoding, "surrogateescape")
    length = len(query) + 1
    return b"%b\0%c%b" % (length.to_bytes(3, "little"), _QUERY, query) if length < _LONGEST else None


def _execution(number: int, values: Sequence[Any], encoding: str) -> bytes | None:
    """Return the packet that executes a prepared statement; None if it cannot take these values."""
    nulls, types, parts = bytearray((len(values) + 7) // 8), [], []
    for place, value in enumerate(values):
        if value is None:
            types.append(_NULL)
            nulls[place >> 3] |= 1 << (place & 7)
        elif isinstance(value, int) and -(2**63) <= value < 2**63:
            types.append(_LONGLONG)
            parts.append(_INTEGER(value))
        elif isinstance(value, str):
            types.append(_STRING)
            parts.append(_with_length(value.encode(encoding, "surrogateescape")))
        elif isinstance(value, bytes):
            types.append(_BLOB)
            parts.append(_with_length(value))
        else:
            return None
    body = b"".join((_START(_EXECUTE, number, 0, 1), nulls, b"\1", *types, *parts))
    return len(body).to_bytes(3, "little") + b"\0" + body if len(body) < _LONGEST else None


def _with_length(content: bytes) -> bytes:
    size = len(content)
    if size < 251:
        return bytes((size,)) + content
    if size < 1 << 16:
        return b"\xfc" + size.to_bytes(2, "little") + content
    return b"\xfd" + size.to_bytes(3, "little") + content


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
