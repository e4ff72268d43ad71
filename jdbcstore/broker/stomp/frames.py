"""STOMP frames: from bytes and to bytes, in versions 1.0, 1.1 and 1.2.

The reader is for strangers' bytes: it takes time in proportion to them, and memory within its limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from jdbcstore.errors import ProtocolError


def _broken(reason: str) -> ProtocolError:
    return ProtocolError(reason, fatal=True)


class Version(StrEnum):
    """The versions of the protocol; they compare as they follow each other."""

    V1_0 = "1.0"
    V1_1 = "1.1"
    V1_2 = "1.2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How large what a client sends may be, in bytes."""

    head: int = 256 * 1024
    """The command and all headers."""
    line: int = 10 * 1024
    """The command, or one header."""
    headers: int = 1000
    """How many."""
    body: int = 100 * 1024 * 1024


class Frame:
    """A command, its headers, its body. The headers are the reader's caller's to change."""

    __slots__ = ("body", "command", "headers")

    def __init__(self, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        self.command = command
        self.headers = headers
        self.body = body

    def __repr__(self) -> str:  # headers may hold a password
        return f"<Frame {self.command[:20]!r} with {len(self.headers)} headers and {len(self.body)} bytes>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Frame):
            return NotImplemented
        return (self.command, self.headers, self.body) == (other.command, other.headers, other.body)

    __hash__ = None  # type: ignore[assignment]


_BETWEEN = re.compile(rb"[\r\n\0]*")
"""Heart-beats, and what some clients write behind a frame: ActiveMQ skips a NUL there too."""
_FIRST_OF_BETWEEN = frozenset(b"\r\n\0")
_WITH_BODY = frozenset(("SEND", "MESSAGE", "ERROR"))
"""Only of these does a content-length count, as in ActiveMQ: some clients send others with the headers of the
message that they are about."""
_BLANK_LINE = re.compile(rb"\n\r?\n")
_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)
_UNESCAPES = {
    Version.V1_1: {"c": ":", "n": "\n", "\\": "\\"},
    Version.V1_2: {"c": ":", "n": "\n", "\\": "\\", "r": "\r"},
}


class FrameReader:
    """Makes frames of bytes as they arrive.

    ``version`` and ``limits`` may be set between two frames, and hold for all that are not read yet.
    """

    def __init__(self, limits: Limits, version: Version = Version.V1_0) -> None:
        self.limits = limits
        self.version = version
        self._data = b""
        """Whole frames, as far as is known, from ``_at`` on."""
        self._at = 0
        self._waiting = bytearray()
        """Instead of ``_data``: the beginning of what is not complete."""
        self._searched = 0
        """So far there is no end in ``_waiting``, and nobody looks again."""
        self._command: str | None = None
        """Of a frame whose head is read, and whose body is not."""
        self._headers: dict[str, str] = {}
        self._length: int | None = None

    @property
    def held(self) -> int:
        """How many bytes are kept, of frames that are not read yet."""
        return len(self._waiting) + len(self._data) - self._at

    def feed(self, data: bytes) -> None:
        """More has arrived."""
        if self._waiting:
            self._waiting += data
        elif self._at < len(self._data):
            self._data, self._at = self._data[self._at :] + data, 0
        else:
            self._data, self._at = data, 0

    def read(self) -> Frame | None:
        """The next frame; None if it has not arrived whole.

        :raises ProtocolError: it is no frame, or beyond the limits; nothing more can be read
        """
        if self._waiting:
            if not self._is_there():
                return None
            self._data, self._at, self._waiting = bytes(self._waiting), 0, bytearray()
        if self._command is None and not self._read_head():
            return None
        return self._read_body()

    def _is_there(self) -> bool:
        """Whether what is waited for, a head or a body, has come; looks at each byte once."""
        waiting, length = self._waiting, self._length
        if length is not None:
            return len(waiting) > length
        if self._command is None:
            if _BLANK_LINE.search(waiting, max(0, self._searched - 2)):
                return True
            self._check_unfinished_head(waiting, self._searched, len(waiting))
        else:
            if waiting.find(0, self._searched) >= 0:
                return True
            self._check_body(len(waiting))
        self._searched = len(waiting)
        return False

    def _read_head(self) -> bool:
        data, at = self._data, self._at
        if at < len(data) and data[at] in _FIRST_OF_BETWEEN:
            match = _BETWEEN.match(data, at)
            at = self._at = match.end() if match else at
        if at == len(data):
            self._data, self._at = b"", 0
            return False
        # Not beyond the limit: of many frames in one piece, each would be searched to its end.
        blank = _BLANK_LINE.search(data, at, at + self.limits.head + 3)
        if blank is None:
            self._check_unfinished_head(data, at, len(data) - at)
            self._wait()
            return False
        head = data[at : blank.start()]
        self._command, self._headers = self._parse(head)
        self._length = self._content_length()
        self._at = blank.end()
        return True

    def _read_body(self) -> Frame | None:
        data, start, length = self._data, self._at, self._length
        if length is None:
            end = data.find(0, start)
            self._check_body((len(data) if end < 0 else end) - start)
        else:
            end = start + length if len(data) > start + length else -1
        if end < 0:
            self._wait()
            return None
        if data[end] != 0:
            raise _broken(
                f"{length} bytes were read and there was no trailing null byte; make content-length the size"
                " of the body in bytes"
            )
        frame = Frame(self._command or "", self._headers, data[start:end])
        self._command, self._length = None, None
        self._at = end + 1
        return frame

    def _wait(self) -> None:
        self._waiting += memoryview(self._data)[self._at :]
        self._data, self._at = b"", 0
        self._searched = len(self._waiting)

    def _check_unfinished_head(self, data: bytes | bytearray, start: int, size: int) -> None:
        """Of a head without end: what can never become one is not waited for."""
        if data.find(0, start) >= 0:
            raise _broken("a frame ends within its headers; put an empty line behind them")
        if size > self.limits.head:
            raise _broken(f"the headers of a frame are more than {self.limits.head} bytes; send fewer")

    def _check_body(self, size: int) -> None:
        if size > self.limits.body:
            raise _broken(f"a body has more than {self.limits.body} bytes; send it in parts")

    def _parse(self, head: bytes) -> tuple[str, dict[str, str]]:
        limits, version = self.limits, self.version
        if 0 in head:
            raise _broken("a frame has a NUL in its headers; put an empty line behind them")
        try:
            text = head.decode()
        except UnicodeDecodeError as error:
            raise _broken("the headers of a frame are not UTF-8; encode them") from error
        command, *lines = text.split("\n")
        if "\r" in text:
            command = command.removesuffix("\r")
            if version is not Version.V1_1:  # which knows no carriage return at a line's end
                lines = [line.removesuffix("\r") for line in lines]
        if len(lines) > limits.headers:
            raise _broken(f"a frame has more than {limits.headers} headers; send fewer")
        if len(head) > limits.line and max(map(len, head.split(b"\n"))) > limits.line:
            raise _broken(f"a header has more than {limits.line} bytes; put it into the body")
        return command, _parse_headers(lines, version, escaped="\\" in text)

    def _content_length(self) -> int | None:
        text = self._headers.get("content-length")
        if text is None or self._command not in _WITH_BODY:
            return None
        text = text.strip()
        if not (text.isascii() and text.isdigit()):
            raise _broken(f"the content-length {text[:20]!r} is no number; make it the body's bytes")
        if len(text) > 18:  # so that nobody makes us convert thousands of digits
            raise _broken(f"the content-length {text[:20]} is beyond any limit; send the body in parts")
        length = int(text)
        self._check_body(length)
        return length


def _parse_headers(lines: list[str], version: Version, *, escaped: bool) -> dict[str, str]:
    """As in ActiveMQ, a header without a colon has an empty value."""
    try:
        # Of a header given twice, the first holds.
        headers = dict([line.split(":", 1) for line in lines])
        if len(headers) != len(lines):
            headers = dict([line.split(":", 1) for line in reversed(lines)])
    except ValueError:
        headers = {name: value for name, _, value in (line.partition(":") for line in reversed(lines))}
    if version is Version.V1_0:
        headers = {name.strip(): value.strip() for name, value in headers.items()}
    elif escaped:
        headers = {_unescape(name, version): _unescape(value, version) for name, value in headers.items()}
    if "" in headers:
        raise _broken("a header has no name; write name:value")
    return headers


def _unescape(text: str, version: Version) -> str:
    """As in ActiveMQ, what is no escape in this version stays as it is."""
    if "\\" not in text:
        return text
    known = _UNESCAPES[version]
    if "\\\\" not in text:  # then no escape can begin within another
        for escape, meant in known.items():
            text = text.replace(f"\\{escape}", meant)
        return text
    return _ESCAPE.sub(lambda match: known.get(match[1], match[0]), text)


def escape(text: str, version: Version) -> str:
    """A header's name or value as it is written. What a version cannot say is written as a blank."""
    if version is Version.V1_0:
        return text.replace("\n", " ").replace("\r", " ")
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace(":", "\\c")
    return text.replace("\r", "\\r" if version is Version.V1_2 else " ")


def encode(command: str, headers: Iterable[tuple[str, str]], version: Version, body: bytes = b"") -> bytes:
    """A frame as bytes. Headers of CONNECTED are not escaped: who reads them knows no version yet."""
    if command == "CONNECTED":
        version = Version.V1_0
    lines = "".join([f"{escape(name, version)}:{escape(value, version)}\n" for name, value in headers])
    return b"".join((encode_head(f"{command}\n{lines}\n"), body, b"\0"))


def encode_head(text: str) -> bytes:
    """The head of a frame in UTF-8; a NUL, or half a surrogate pair, becomes a ``?``."""
    if "\0" in text:
        text = text.replace("\0", "?")
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace")
