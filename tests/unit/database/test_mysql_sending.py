"""Statements through a socket of pymysql, and answers as a server may send them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any, NamedTuple

import pymysql
import pytest

from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.adapters.mysql import MariadbAdapter
from jdbcstore.database.adapters.mysql_sending import SentQuery, packet_of

DELETE, KEYS = "DELETE FROM T WHERE A = %s", [7]
SENT = b"\x1a\0\0\0\x03DELETE FROM T WHERE A = 7"
ONE_ROW = b"\x07\0\0\1\0\1\0\2\0\0\0"
NO_ROWS = b"\x07\0\0\1\0\0\0\2\0\0\0"
DUPLICATE = b"\x0c\0\0\1\xff\x26\x04#23000twin"
STOPS = b"\x0c\0\0\0\xff\x1d\x04#08S01stop"


class Server(NamedTuple):
    """A connection of the driver, and the other end of its line."""

    connection: Any
    line: socket.socket
    concluded: list[int]
    refused: list[Exception]

    def send(self, values: list[Any] | None = None) -> SentQuery:
        packet = packet_of(self.connection.cursor(), DELETE, values or KEYS)
        assert packet is not None
        return SentQuery(self.connection, packet, self.concluded.append, self.refused.append)


@pytest.fixture
def server() -> Iterator[Server]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(60.0)
        connection: Any = pymysql.Connection(defer_connect=True)
        assert connection._sock is None, "this pymysql keeps its socket elsewhere: see mysql_sending"
        connection._sock, connection.server_status = ours, 2
        yield Server(connection, theirs, [], [])
        connection._sock = None


def test_an_answer_that_comes_in_pieces(server: Server) -> None:
    sent = server.send()
    assert server.line.recv(100) == SENT
    for piece in ONE_ROW:
        assert not sent.is_answered()
        server.line.sendall(bytes([piece]))
    assert sent.is_answered()
    assert sent.is_done
    sent.finish()
    assert (server.concluded, server.refused) == ([], [])
    assert server.connection._sock.gettimeout() == 60.0


def test_a_statement_that_finds_nothing(server: Server) -> None:
    sent = server.send()
    server.line.sendall(NO_ROWS)
    assert sent.is_answered()
    assert not sent.is_done
    sent.finish()
    assert server.concluded == [0]


def test_an_error(server: Server) -> None:
    sent = server.send()
    server.line.sendall(DUPLICATE)
    with pytest.raises(pymysql.err.IntegrityError) as caught:
        sent.finish()
    assert not sent.is_done
    assert server.refused == [caught.value]
    assert MariadbAdapter().classify(caught.value) is Failure.DUPLICATE


@pytest.mark.parametrize(
    "last",
    [b"", ONE_ROW[:6], STOPS, ONE_ROW[:3] + STOPS[3:4] + ONE_ROW[4:]],
    ids=["nothing", "a part", "it stops", "not of this statement"],
)
def test_a_line_that_ends(server: Server, last: bytes) -> None:
    sent = server.send()
    server.line.sendall(last)
    server.line.shutdown(socket.SHUT_WR)
    with pytest.raises(pymysql.err.OperationalError) as caught:
        sent.finish()
    assert MariadbAdapter().classify(caught.value) is Failure.DISCONNECTED


def test_a_line_that_has_ended_before(server: Server) -> None:
    server.line.close()
    sent = server.send()
    assert sent.has_failed
    with pytest.raises(pymysql.err.OperationalError):
        sent.finish()


def test_no_answer_in_time(server: Server) -> None:
    server.connection._sock.settimeout(0.01)
    with pytest.raises(pymysql.err.OperationalError) as caught:
        server.send().finish()
    assert MariadbAdapter().classify(caught.value) is Failure.DISCONNECTED


def test_more_than_the_line_takes_at_once(server: Server) -> None:
    server.connection._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    values = [b"\xff" * 500_000]
    packet, got = packet_of(server.connection.cursor(), DELETE, values), b""
    sent = server.send(values)
    assert not sent.flush()
    while not sent.flush():
        got += server.line.recv(100_000)
    assert packet is not None
    while len(got) < len(packet):
        got += server.line.recv(100_000)
    assert got == packet
    server.line.sendall(ONE_ROW)
    sent.finish()


@pytest.mark.parametrize("status", [2, 2 | 512], ids=["escapes", "no backslash"])
def test_values_are_as_the_driver_writes_them(server: Server, status: int) -> None:
    server.connection.server_status = status
    values = [
        0,
        -1,
        2**63,
        None,
        None,
        "a",
        "a",
        "it's \\ \n\0\x1a\"%s",
        "ü\U0001f600",
        b"",
        b"\xff'\\",
        True,
        1.5,
    ]
    text = f"INSERT INTO T VALUES ({', '.join(['%s'] * len(values))}) /* 100%% */"
    packet = packet_of(server.connection.cursor(), text, values)
    assert packet is not None
    assert packet[5:] == server.connection.cursor().mogrify(text, values).encode("utf-8", "surrogateescape")


def test_what_takes_several_packets_is_not_sent(server: Server) -> None:
    assert packet_of(server.connection.cursor(), DELETE, [b"x" * 2**24]) is None
