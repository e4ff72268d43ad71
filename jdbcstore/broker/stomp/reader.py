"""The parser of STOMP frames, in versions 1.0, 1.1 and 1.2.

It reads untrusted bytes, so its time is linear in their number, and its limits bound its memory.
"""

from __future__ import annotations

import re

from jdbcstore.broker.stomp._reader_cy import usual_frame
from jdbcstore.broker.stomp.frames import WITH_BODY, BodyPart, Frame, FrameLimits, LargeFrame, Version
from jdbcstore.broker.transport.buffer import FrameBuffer
from jdbcstore.errors import ProtocolError

_PADDING = re.compile(rb"[\r\n\0]*")
"""Bytes between two frames: heart-beats, and the extra NUL that some clients write after a frame. ActiveMQ
skips both."""
_FIRST_OF_PADDING = frozenset(b"\r\n\0")
_BLANK_LINE = re.compile(rb"\n\r?\n")
_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)
_UNESCAPES = {
    Version.V1_1: {"c": ":", "n": "\n", "\\": "\\"},
    Version.V1_2: {"c": ":", "n": "\n", "\\": "\\", "r": "\r"},
}


_NO_NULL = (
    "{} were read and there was no trailing null byte; set content-length to the size of the body in bytes"
)


def _malformed(reason: str) -> ProtocolError:
    return ProtocolError(reason, fatal=True)


class StompFrameReader(FrameBuffer):
    """An incremental parser, which is fed bytes as they arrive, and returns complete frames.

    ``version`` and ``limits`` apply to all frames not yet read.
    """

    def __init__(self, limits: FrameLimits, version: Version = Version.V1_0) -> None:
        super().__init__()
        self.limits = limits
        self.version = version
        self._searched = 0
        """The length of ``_partial`` that does not contain the end, and is not searched again."""
        self._is_usual = True
        """Whether the last head had neither escapes nor carriage returns, as the next one probably."""
        self._command: str | None = None
        """The command of a frame whose head has been parsed, but not its body."""
        self._headers: dict[str, str] = {}
        self._length: int | None = None
        self._left: int | None = None
        """The outstanding bytes of a body that is read part by part."""

    def agree(self, version: Version, limits: FrameLimits) -> None:
        """Change the version and the limits, between two frames."""
        self.version, self.limits = version, limits

    @property
    def held(self) -> int:
        """The number of bytes buffered for frames not yet read; at least 1 within a frame that has begun."""
        return super().held or int(self._command is not None or self._left is not None)

    def read(self) -> Frame | None:
        """Return the next frame; None if it is not complete yet.

        A large frame is a :class:`LargeFrame` and then the parts of its body, the last of which is empty.

        :raises ProtocolError: it is malformed, or exceeds a limit; nothing more can be read
        """
        if self._partial:
            if not self._is_complete():
                return None
            self._resume_partial()
        elif self._at == len(self._data):
            self._data, self._at = b"", 0
            return None
        if self._left is not None:
            return self._read_part(self._left)
        if self._command is None:
            if self._is_usual and self.version is not Version.V1_0:  # in which names and values are stripped
                usual = usual_frame(self._data, self._at, self.limits)
                if usual is not None:
                    frame: Frame
                    frame, self._at = usual
                    return frame
            if not self._read_head():
                return None
        return self._read_body()

    def _is_complete(self) -> bool:
        """Return whether the awaited head or body has arrived, examining each byte once."""
        partial, length = self._partial, self._length
        if length is not None:
            return len(partial) > length
        if self._command is None:
            if _BLANK_LINE.search(partial, max(0, self._searched - 2)):
                return True
            self._check_partial_head(partial, self._searched, len(partial))
        else:
            if partial.find(0, self._searched) >= 0:
                return True
            self._check_body(len(partial))
        self._searched = len(partial)
        return False

    def _read_head(self) -> bool:
        data, at = self._data, self._at
        if at < len(data) and data[at] in _FIRST_OF_PADDING:
            match = _PADDING.match(data, at)
            at = self._at = match.end() if match else at
        if at == len(data):
            self._data, self._at = b"", 0
            return False
        # Not beyond the limit, because with many frames in one read, each would be searched to its end.
        blank = _BLANK_LINE.search(data, at, at + self.limits.head + 3)
        if blank is None:
            self._check_partial_head(data, at, len(data) - at)
            self._keep_partial()
            return False
        head = data[at : blank.start()]
        self._command, self._headers = self._parse(head)
        self._length = self._content_length()
        self._at = blank.end()
        return True

    def _read_part(self, left: int) -> BodyPart:
        data, start = self._data, self._at
        if left:
            part = data[start : start + left]
            self._at, self._left = start + len(part), left - len(part)
            return BodyPart("", {}, part)
        if data[start]:
            raise _malformed(_NO_NULL.format("all bytes of the content-length"))
        self._at, self._left = start + 1, None
        return BodyPart("", {})

    def _read_body(self) -> Frame | None:
        data, start, length = self._data, self._at, self._length
        if length is not None and 0 < self.limits.large <= length and self._command == "SEND":
            self._left, self._command, self._length = length, None, None
            return LargeFrame("SEND", self._headers, length=length)
        if length is None:
            end = data.find(0, start)
            self._check_body((len(data) if end < 0 else end) - start)
        else:
            end = start + length if len(data) > start + length else -1
        if end < 0:
            self._keep_partial()
            return None
        if data[end] != 0:
            raise _malformed(_NO_NULL.format(f"{length} bytes"))
        frame = Frame(self._command or "", self._headers, data[start:end])
        self._command, self._length = None, None
        self._at = end + 1
        return frame

    def _keep_partial(self) -> None:
        self._set_aside()
        self._searched = len(self._partial)

    def _check_partial_head(self, data: bytes | bytearray, start: int, size: int) -> None:
        """Reject the beginning of a head early if more bytes cannot make it valid."""
        if data.find(0, start) >= 0:
            raise _malformed("a frame ends within its headers; end the headers with an empty line")
        if size > self.limits.head:
            raise _malformed(f"the headers of a frame exceed {self.limits.head} bytes; send fewer headers")

    def _check_body(self, size: int) -> None:
        if size > self.limits.body:
            raise _malformed(f"the body of a frame exceeds {self.limits.body} bytes; split the message")

    def _parse(self, head: bytes) -> tuple[str, dict[str, str]]:
        limits, version = self.limits, self.version
        if 0 in head:
            raise _malformed("a frame has a NUL in its headers; end the headers with an empty line")
        try:
            text = head.decode()
        except UnicodeDecodeError as error:
            raise _malformed("the headers of a frame are not UTF-8; encode them as UTF-8") from error
        command, *lines = text.split("\n")
        escaped, returns = "\\" in text, "\r" in text
        self._is_usual = not (escaped or returns)
        if returns:
            command = command.removesuffix("\r")
            if version is not Version.V1_1:  # in which lines end with a line feed only
                lines = [line.removesuffix("\r") for line in lines]
        if len(lines) > limits.headers:
            raise _malformed(f"a frame has more than {limits.headers} headers; send fewer headers")
        if len(head) > limits.line and max(map(len, head.split(b"\n"))) > limits.line:
            raise _malformed(f"a header exceeds {limits.line} bytes; send long values in the body")
        return command, _parse_headers(lines, version, escaped=escaped)

    def _content_length(self) -> int | None:
        text = self._headers.get("content-length")
        if text is None or self._command not in WITH_BODY:
            return None
        text = text.strip()
        if not (text.isascii() and text.isdigit()):
            raise _malformed(
                f"the content-length {text[:20]!r} is not a number; set it to the size of the body in bytes"
            )
        if len(text) > 18:  # int() of thousands of digits is slow
            raise _malformed(f"the content-length {text[:20]} exceeds every limit; split the message")
        length = int(text)
        self._check_body(length)
        return length


def _parse_headers(lines: list[str], version: Version, *, escaped: bool) -> dict[str, str]:
    """Parse headers. As in ActiveMQ, a header without a colon has an empty value."""
    try:
        # The first of repeated headers is used.
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
        raise _malformed("a header does not have a name; write name:value")
    return headers


def _unescape(text: str, version: Version) -> str:
    """Replace escapes. As in ActiveMQ, a sequence that is not an escape in this version stays unchanged."""
    if "\\" not in text:
        return text
    known = _UNESCAPES[version]
    if "\\\\" not in text:  # so no escape can begin within another
        for escape, meant in known.items():
            text = text.replace(f"\\{escape}", meant)
        return text
    return _ESCAPE.sub(lambda match: known.get(match[1], match[0]), text)
