"""A fast reader for ordinary STOMP frames."""

from __future__ import annotations

from typing import Any

from jdbcstore.broker.stomp.frames import WITH_BODY, Frame, FrameLimits
from jdbcstore.util.core import plain as cython
from jdbcstore.util.core import use_compiled
from jdbcstore.util.core.plain import new, places

_FRAME_CLASS: Any = cython.declare(object, Frame)
_FRAME: Any = cython.declare(object, places(Frame, ("command", "headers", "body")))


def usual_frame(data: bytes, offset: int, limits: FrameLimits) -> tuple[Frame, int] | None:
    """Return a frame of STOMP 1.1 or 1.2, which may begin with line feeds, and the offset of its end.

    None if it is incomplete, invalid, or needs special treatment, because of escapes, carriage returns or
    repeated headers; see :class:`jdbcstore.broker.stomp.reader.StompFrameReader`.
    """
    at: cython.Py_ssize_t = offset
    size: cython.Py_ssize_t = len(data)
    end: cython.Py_ssize_t
    most: cython.Py_ssize_t = min(limits.head, limits.line)
    while at < size and data[at] == 10:
        at += 1
    end = data.find(b"\n\n", at, at + most + 2)
    if end < 0:
        return None
    try:
        text = data[at:end].decode()
    except UnicodeDecodeError:
        return None
    if "\\" in text or "\r" in text or "\0" in text:
        return None
    lines = text.split("\n")
    command = lines.pop(0)
    try:
        headers = dict([line.split(":", 1) for line in lines])
    except ValueError:
        return None
    if len(headers) != len(lines) or len(headers) > limits.headers or "" in headers:
        return None
    at = end + 2
    length = headers.get("content-length") if command in WITH_BODY else None
    if length is None:
        end = data.find(b"\0", at)
    elif length.isascii() and length.isdigit() and len(length) <= 18:
        end = at + int(length)
    else:
        return None
    if end < at or end >= size or end - at > limits.body or data[end] != 0:
        return None
    return new(_FRAME_CLASS, _FRAME, (command, headers, data[at:end])), end + 1


use_compiled(globals())
