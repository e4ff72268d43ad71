"""A fast path for repeated heads of SEND, which are compared instead of read header by header.

Repeated heads differ only in ``receipt`` and ``content-length``. The general path, from the reader of frames
to the engine, handles all other frames.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from jdbcstore.broker.stomp.frames import FrameLimits
from jdbcstore.message.message import BodyType, Message

_FREE = {
    "receipt": r"receipt:([ -9;-\[\]-~]{1,200})",  # ASCII without a colon and a backslash
    "content-length": r"content-length:([0-9]{1,9})",
}
"""The headers that may differ, and their lines."""
_MOST_FREE = 512
"""An upper bound of the bytes of these lines."""
_DECIDED = frozenset(("transaction", "destination-type", "timestamp", "JMSTimestamp"))
"""Headers for the session, and those that set a field which differs for each message."""
_ODD = re.compile(r"[\\\r\n\0]")


class SendHead:
    """The head of a client's last SENDs, which were alike, as the next ones probably are."""

    def __init__(self) -> None:
        self.destination = ""
        """The name of their destination."""
        self.message: Message | None = None
        """A message with this head."""
        self._last: dict[str, str] = {}
        """The headers of the last SEND on the general path."""
        self._match: Callable[[bytes, int], re.Match[bytes] | None] | None = None
        self._receipt = self._length = 0
        """The groups of these headers; 0 if the head has none."""

    def learn(self, headers: Mapping[str, str], limits: FrameLimits) -> bool:
        """Record the head of a SEND; return whether it is like the last one, and can be read on this path.

        If so, the caller passes its message to :meth:`keep`.
        """
        last, self._last = self._last, {**headers, **dict.fromkeys(headers.keys() & _FREE.keys(), "")}
        if self._last != last:
            self._match = self.message = None
        elif self._match is None and _is_plain(headers, limits):
            self._compile(headers)
        return self._match is not None

    def keep(self, message: Message) -> None:
        """Keep a message with this head: the next ones are copies of it."""
        self.message = message

    def _compile(self, headers: Mapping[str, str]) -> None:
        free = [name for name in headers if name in _FREE]
        self._receipt, self._length = ((free.index(name) + 1 if name in free else 0) for name in _FREE)
        lines = (_FREE.get(name) or re.escape(f"{name}:{value}") for name, value in headers.items())
        self._match = re.compile("\n".join(["[\r\n\0]*SEND", *lines, "\n"]).encode()).match
        self.destination = headers["destination"]

    def read(self, data: bytes, at: int, most: int) -> tuple[Any, str | None, int] | None:
        """Return the body and the receipt of the next frame, and the offset of its end.

        None if it has another head than :attr:`message`, is incomplete or is invalid.

        :param most: the most bytes of a body
        """
        message, match = self.message, self._match and self._match(data, at)
        if message is None or match is None:
            return None
        start = match.end()
        end = start + int(match[self._length]) if self._length else data.find(b"\0", start)
        if not start <= end < len(data) or data[end] or end - start > most:
            return None
        body: Any = data[start:end]
        if message.body_type is BodyType.TEXT:
            try:
                body = body.decode()
            except UnicodeDecodeError:
                return None
        return body, match[self._receipt].decode() if self._receipt else None, end + 1


def _is_plain(headers: Mapping[str, str], limits: FrameLimits) -> bool:
    """Return whether no header needs special treatment, so that the lines of a head are exactly its
    headers."""
    if "destination" not in headers or {"amq-msg-type", "content-length"} <= headers.keys():
        return False  # the length is a property then
    size = 0
    for name, value in headers.items():
        if name in _DECIDED or ":" in name or _ODD.search(name) or _ODD.search(value):
            return False
        size += len(f"{name}:{value}".encode()) + 1
    return size + _MOST_FREE <= limits.head and limits.line >= _MOST_FREE
