"""Large bodies from a STOMP client, which go into the store piece by piece."""

from __future__ import annotations

from collections.abc import Callable

from jdbcstore.broker.large import LARGEST, BodyUpload, FromText, LargeTransfers
from jdbcstore.broker.transport.replies import Replies
from jdbcstore.errors import InvalidMessage, ProtocolError
from jdbcstore.message.openwire.pieces import LargeBody


class BodyReceiver:
    """The large body of one client. The client is not read while the store is behind."""

    def __init__(self, large: LargeTransfers, replies: Replies) -> None:
        self._large = large
        self._replies = replies
        self._upload: BodyUpload | None = None
        """None while parts are ignored."""
        self._text: FromText | None = None
        self._text_size = -1
        self._then: Callable[[LargeBody], None]
        self._receipt: str | None = None

    def begin(self, receipt: str | None, then: Callable[[LargeBody], None], *, is_text: bool) -> None:
        """Start receiving a body, and call ``then`` with it."""
        self._upload = self._large.receive(has_length=is_text)
        self._text, self._text_size = (FromText(), 0) if is_text else (None, -1)
        self._receipt, self._then = receipt, then

    def ignore(self) -> None:
        """Ignore the outstanding parts of a body."""
        if self._upload is not None:
            self._upload.writing.cancel()
            self._upload = None

    def receive(self, data: bytes) -> None:
        """Receive the next part; it is empty at the end."""
        if self._upload is None:
            return
        upload, is_last = self._upload, not data
        if self._text is not None:
            self._text_size += len(data)
            data = self._in_message(self._text, data, is_last)
            if upload.size + len(data) > LARGEST:
                raise ProtocolError(f"a string has at most {LARGEST} bytes; send it as bytes", fatal=True)
        if is_last:
            self._upload = None
            self._replies.wait_for(upload.finish(self._text_size), self._then, self._receipt, fatal=True)
        elif (before := upload.append(data)) is not None:
            self._replies.wait_for(before, lambda _: None, self._receipt, fatal=True)

    def _in_message(self, text: FromText, data: bytes, is_last: bool) -> bytes:
        try:
            return text.feed(data, final=is_last)
        except InvalidMessage as error:
            self._upload = None
            raise ProtocolError(str(error), fatal=True) from error
