"""The bytes that have arrived on a connection and are not read yet."""

from __future__ import annotations


class FrameBuffer:
    """The input of a reader of frames: bytes that may hold complete frames, or the beginning of one.

    In a large frame that arrives in many pieces, each piece is appended, and all are copied once.
    """

    def __init__(self) -> None:
        self._data = b""
        """Bytes not read, from ``_at`` on, that may hold complete frames."""
        self._at = 0
        self._partial = bytearray()
        """The beginning of a frame that is not complete; ``_data`` is empty then."""

    @property
    def held(self) -> int:
        """The number of bytes buffered for frames not yet read."""
        return len(self._partial) + len(self._data) - self._at

    def feed(self, data: bytes) -> None:
        """Add bytes that have arrived."""
        if self._partial:
            self._partial += data
        elif self._at < len(self._data):
            self._data, self._at = self._data[self._at :] + data, 0
        else:
            self._data, self._at = data, 0

    def _set_aside(self) -> None:
        """Set aside what is left, the beginning of an incomplete frame."""
        self._partial += memoryview(self._data)[self._at :]
        self._data, self._at = b"", 0

    def _take_partial(self) -> None:
        """Read on in the frame that was incomplete."""
        self._data, self._at, self._partial = bytes(self._partial), 0, bytearray()
