"""The received bytes of a connection that are not read yet."""

from __future__ import annotations


class FrameBuffer:
    """The input of a reader of frames: bytes that may hold complete frames, or the beginning of one.

    The pieces of a large frame are appended, and all are copied once.
    """

    def __init__(self) -> None:
        self._data = b""
        """Unread bytes, from ``_at`` on, that may contain complete frames."""
        self._at = 0
        self._partial = bytearray()
        """The beginning of an incomplete frame; ``_data`` is empty then."""

    @property
    def held(self) -> int:
        """The number of bytes buffered for frames not yet read."""
        return len(self._partial) + len(self._data) - self._at

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        if self._partial:
            self._partial += data
        elif self._at < len(self._data):
            self._data, self._at = self._data[self._at :] + data, 0
        else:
            self._data, self._at = data, 0

    def _set_aside(self) -> None:
        """Set aside the rest, the beginning of an incomplete frame."""
        self._partial += memoryview(self._data)[self._at :]
        self._data, self._at = b"", 0

    def _resume_partial(self) -> None:
        """Continue reading the incomplete frame."""
        self._data, self._at, self._partial = bytes(self._partial), 0, bytearray()
