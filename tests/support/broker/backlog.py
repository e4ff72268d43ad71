"""A consumer that stops while messages come. Both ends are quick: they are not what is measured."""

from __future__ import annotations

import re
import socket
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

CHUNK = 100
"""Messages to a receipt."""
_AHEAD = 3
"""Chunks on their way."""
_PATIENCE = 120.0
_ACK = re.compile(rb"\nack:([^\n]*)\n")
_NUMBER = re.compile(rb"\n\n(\d+)")


def resident(pid: int) -> int:
    """Bytes of memory that a process has now."""
    return _status(pid, "VmRSS")


def most_resident(pid: int) -> int:
    """Bytes of memory that it ever had."""
    return _status(pid, "VmHWM")


def _status(pid: int, name: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(name)) * 1024


class Line:
    """A STOMP connection that writes whole pieces and reads whole frames."""

    def __init__(self, port: int, timeout: float = _PATIENCE) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""
        self.read: deque[bytes] = deque()
        """Frames that have come and were not asked for."""
        self.write = self._socket.sendall
        self.write(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")
        assert next(self).startswith(b"CONNECTED")

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        while not self.read:
            data = self._socket.recv(1 << 18)
            assert data, "the broker closed the connection"
            *frames, self._rest = (self._rest + data).split(b"\0")
            self.read.extend(frames)
        frame = self.read.popleft().lstrip(b"\n")
        assert not frame.startswith(b"ERROR"), frame
        return frame

    def close(self) -> None:
        self._socket.close()


def produce(
    port: int,
    queue: str,
    first: int,
    count: int,
    *,
    size: int = 1024,
    persistent: bool = True,
    timeout: float = _PATIENCE,
) -> float:
    """Send messages that are numbered from ``first``; the seconds that it took.

    :raises TimeoutError: no receipt comes for so long
    """
    line = Line(port, timeout)
    head = f"SEND\ndestination:/queue/{queue}\npersistent:{str(persistent).lower()}\n".encode()
    padding = b"x" * (size - 10)
    under_way = 0
    begin = time.perf_counter()
    try:
        for start in range(first, first + count, CHUNK):
            numbers = range(start, min(start + CHUNK, first + count))
            frames = [b"%b\n%010d%b\0" % (head, number, padding) for number in numbers[:-1]]
            frames.append(b"%breceipt:r\n\n%010d%b\0" % (head, numbers[-1], padding))
            line.write(b"".join(frames))
            under_way += 1
            if under_way == _AHEAD:
                next(line)
                under_way -= 1
        for _ in range(under_way):
            next(line)
        return time.perf_counter() - begin
    finally:
        line.close()


class Drain:
    """Consumes a queue, seeing that the numbers come one after another."""

    def __init__(self, port: int, queue: str) -> None:
        self._line = Line(port)
        self._line.write(f"SUBSCRIBE\nid:1\ndestination:/queue/{queue}\nack:client\n\n\0".encode())
        self._waiting = 0
        self.expected = 0
        """The number of the next one."""

    def until(self, end: int) -> float:
        """Take messages up to that number, and see them acknowledged; the seconds that it took."""
        begin = time.perf_counter()
        while self.expected < end:
            frame = next(self._line)
            found = _NUMBER.search(frame)
            assert found, frame[:200]
            assert int(found[1]) == self.expected, f"{int(found[1])} came in place of {self.expected}"
            self.expected += 1
            self._waiting += 1
            last = self.expected == end
            if last or self._waiting == CHUNK:
                ack = _ACK.search(frame)
                assert ack, frame[:200]
                self._line.write(b"ACK\nid:%b\n%b\n\0" % (ack[1], b"receipt:last\n" if last else b""))
                self._waiting = 0
        # What has come beyond the end stays.
        ahead: list[bytes] = []
        while not (frame := next(self._line)).startswith(b"RECEIPT"):
            ahead.append(frame)
        self._line.read.extendleft(reversed(ahead))
        return time.perf_counter() - begin

    def close(self) -> None:
        self._line.close()
