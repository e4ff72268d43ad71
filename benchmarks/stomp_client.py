"""``python -m benchmarks.stomp_client PORT WORK SECONDS``: the client of :mod:`benchmarks.stomp`.

A separate process, with sockets and prebuilt frames, so that it does not slow a broker down; it prints the
share of a processor that it used. It works for this many seconds, or until the queue is empty; a backlog
is a number of messages instead.
"""

from __future__ import annotations

import json
import re
import select
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial

BODY = b"0123456789abcdef" * 64
BATCH = 100
QUEUE = b"/queue/BENCH"
_ACK = re.compile(rb"\nack:([^\n]*)\n")
_END = b"\0"
_LAST = b"the last message"
_NO_MORE = b"what ends a purge"
COMMIT = b"COMMIT\ntransaction:t\nreceipt:c\n\n\0"


@dataclass
class Result:
    """Counts and times; latencies in milliseconds, of each receipt that was waited for."""

    messages: int
    seconds: float
    client_cpu: float = 0.0
    latencies: list[float] = field(default_factory=list)


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=120)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(b"CONNECT\naccept-version:1.2\nhost:/\n\n\0")
    answer = _until(connection, 1)
    assert answer.startswith(b"CONNECTED"), answer
    return connection


def send(port: int, seconds: float, connections: int) -> Result:
    """Send from each connection a message when it has the receipt of the previous one."""
    frame = send_frame(b"receipt:r\n")
    sockets = [connect(port) for _ in range(connections)]
    poll = select.epoll()
    by_number = {connection.fileno(): connection for connection in sockets}
    sent: dict[int, float] = {}
    latencies: list[float] = []
    begun = time.perf_counter()
    end = begun + seconds
    for number, connection in by_number.items():
        poll.register(number, select.EPOLLIN)
        sent[number] = time.perf_counter()
        connection.sendall(frame)
    while sent:
        for number, _ in poll.poll(60):
            connection = by_number[number]
            data = connection.recv(65536)
            if _END not in data:
                assert data, "the broker closed the connection"
                continue
            assert b"ERROR" not in data, data
            now = time.perf_counter()
            latencies.append((now - sent[number]) * 1000)
            if now < end:
                sent[number] = now
                connection.sendall(frame)
            else:
                del sent[number]
    return Result(len(latencies), time.perf_counter() - begun, latencies=latencies)


def transactions(port: int, seconds: float, count: int | None = None, *, confirmed: bool = False) -> Result:
    """Send on one connection, with a receipt for each COMMIT, in that time or this many messages.

    ``confirmed`` also asks for one of the last SEND, which from RabbitMQ means that the messages are stored.
    """
    connection = connect(port)
    sends = send_frame(b"transaction:t\n") * (BATCH - 1)
    last = send_frame(b"transaction:t\nreceipt:s\n" if confirmed else b"transaction:t\n")
    whole = b"".join([b"BEGIN\ntransaction:t\n\n\0", sends, last, COMMIT])
    latencies: list[float] = []
    begun = now = time.perf_counter()
    while len(latencies) * BATCH < count if count is not None else now < begun + seconds:
        before = now
        connection.sendall(whole)
        answer = _until(connection, 2 if confirmed else 1)
        assert answer.startswith(b"RECEIPT"), answer
        now = time.perf_counter()
        latencies.append((now - before) * 1000)
    return Result(len(latencies) * BATCH, now - begun, latencies=latencies)


def drain_auto(port: int, seconds: float) -> Result:
    """Consume messages that are acknowledged by being sent."""
    frames, begun = _consume(port, "auto")
    count = 0
    for frame in frames:
        count += 1
        if _LAST in frame or (not count % BATCH and time.perf_counter() > begun + seconds):
            break
    count += frames.end()
    return Result(count, time.perf_counter() - begun)


def drain_client(port: int, seconds: float) -> Result:
    """Consume with an ACK for each message."""
    frames, begun = _consume(port, "client")
    count = 0
    acks: list[bytes] = []
    for frame in frames:
        count += 1
        acks.append(_acknowledge(frame))
        over = _LAST in frame or (not count % BATCH and time.perf_counter() > begun + seconds)
        if over or not frames.read:
            frames.write(b"".join(acks))
            acks.clear()
        if over:
            break
    frames.end()
    return Result(count, time.perf_counter() - begun)


def drain_transacted(port: int, seconds: float, last: bytes = _LAST) -> Result:
    """Consume with a hundred ACKs per transaction, waiting for a receipt for each COMMIT."""
    frames, begun = _consume(port, "client")
    latencies: list[float] = []
    acks: list[bytes] = []
    count = 0
    for frame in frames:
        count += 1
        acks.append(_acknowledge(frame, b"transaction:t\n"))
        if len(acks) == BATCH or last in frame:
            before = time.perf_counter()
            frames.write(b"".join([b"BEGIN\ntransaction:t\n\n\0", *acks, COMMIT]))
            acks.clear()
            frames.receipt()
            latencies.append((time.perf_counter() - before) * 1000)
            if last in frame or time.perf_counter() > begun + seconds:
                break
    frames.end()
    return Result(count, time.perf_counter() - begun, latencies=latencies)


def fill(port: int, seconds: float) -> Result:
    """Send as many messages as transactions can in that time, and one that is recognised as the last."""
    result = transactions(port, seconds)
    _finish(port, _LAST)
    return result


def backlog(port: int, messages: float) -> Result:
    """Send this many messages."""
    return transactions(port, 0.0, round(messages))


def purge(port: int, _: float) -> Result:
    """Consume the remaining messages."""
    _finish(port, _NO_MORE)
    return drain_transacted(port, 600.0, _NO_MORE)


def _finish(port: int, last: bytes) -> None:
    connection = connect(port)
    connection.sendall(b"SEND\ndestination:%s\npersistent:true\nreceipt:r\n\n%s\0" % (QUEUE, last))
    assert _until(connection, 1).startswith(b"RECEIPT")


class _Frames:
    """The messages that arrive on a connection; those not requested yet are in ``read``."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""
        self.read: deque[bytes] = deque()
        self.write = connection.sendall

    def __iter__(self) -> _Frames:
        return self

    def __next__(self) -> bytes:
        while not self.read:
            data = self._connection.recv(1 << 18)
            assert data, "the broker closed the connection"
            *frames, self._rest = (self._rest + data).split(_END)
            self.read.extend(frames)
        return self.read.popleft()

    def receipt(self) -> None:
        """Wait for one; messages that arrive before it are kept."""
        kept = []
        while b"RECEIPT" not in (frame := next(self))[:10]:
            assert b"ERROR" not in frame[:10], frame
            kept.append(frame)
        self.read.extendleft(reversed(kept))

    def end(self) -> int:
        """Wait until all acknowledgements are processed; returns the number of surplus messages."""
        self.write(b"UNSUBSCRIBE\nid:1\nreceipt:end\n\n\0")
        self.receipt()
        return len(self.read)


def _consume(port: int, ack: str) -> tuple[_Frames, float]:
    connection = connect(port)
    begun = time.perf_counter()
    headers = b"id:1\ndestination:%s\nack:%s\n" % (QUEUE, ack.encode())
    if ack != "auto":
        # Artemis sends 10 KB without ACKs, unless it is told otherwise; the others 1,000 messages or all.
        # To a client that never sends an ACK it sends so much and no more, and closes it a minute later.
        headers += b"consumer-window-size:1048576\n"
    connection.sendall(b"SUBSCRIBE\n" + headers + b"\n\0")
    return _Frames(connection), begun


def _until(connection: socket.socket, count: int) -> bytes:
    """Read this many frames, and return the rest of the data."""
    while count:
        data = connection.recv(1 << 18)
        assert data, "the broker closed the connection"
        count -= data.count(_END)
    return data


def send_frame(more: bytes) -> bytes:
    headers = b"destination:%s\npersistent:true\ncontent-length:%d\n" % (QUEUE, len(BODY))
    return b"SEND\n" + headers + more + b"\n" + BODY + _END


def _acknowledge(frame: bytes, more: bytes = b"") -> bytes:
    found = _ACK.search(frame)
    assert found, frame
    return b"ACK\nid:" + found[1] + b"\n" + more + b"\n\0"


WORK: dict[str, Callable[[int, float], Result]] = {
    **{f"send-{connections}": partial(send, connections=connections) for connections in (1, 4, 16)},
    "transactions": transactions,
    "confirmed": partial(transactions, confirmed=True),
    "drain-auto": drain_auto,
    "drain-client": drain_client,
    "drain-transacted": drain_transacted,
    "fill": fill,
    "backlog": backlog,
    "purge": purge,
}


def main() -> None:
    port, work, seconds = sys.argv[1:]
    result = WORK[work](int(port), float(seconds))
    result.client_cpu = time.process_time() / result.seconds
    print(json.dumps(asdict(result)))  # noqa: T201


if __name__ == "__main__":
    main()
