"""Large messages from an OpenWire client, whose content goes into the store piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from struct import Struct

from jdbcstore.broker.large import BodyUpload, LargeTransfers, ToText, WithoutLength
from jdbcstore.broker.openwire.frames import ContentPart, LargeHead
from jdbcstore.broker.transport.replies import Replies
from jdbcstore.errors import CorruptMessage, ProtocolError
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import BodyType, Message
from jdbcstore.message.openwire import decode
from jdbcstore.message.openwire._passing_cy import with_broker_in_time
from jdbcstore.message.openwire.decoder import destination_of
from jdbcstore.message.openwire.pieces import LargeBody, with_body_in_pieces
from jdbcstore.message.openwire.wire_format import BODY_TYPES, Malformed

_i32 = Struct(">i")


class MessageReceiver:
    """The large message of one client. The client is not read while the store is behind.

    :param check: raises if the client may not send to a destination; nothing is then stored
    :param then: called with each message, which is stored except for its row
    :param refuse: called with a rejected message, without its body, and the reason
    """

    def __init__(
        self,
        large: LargeTransfers,
        replies: Replies,
        *,
        check: Callable[[Destination | None], None],
        then: Callable[[Message, LargeBody], None],
        refuse: Callable[[Message, Exception], None],
    ) -> None:
        self._large = large
        self._replies = replies
        self._check = check
        self._then = then
        self._refuse = refuse
        self._refusal: Exception | None = None
        """The reason why the message is rejected; its content is ignored."""
        self._head = b""
        self._upload: BodyUpload | None = None
        self._text: ToText | None = None
        """Counts the bytes of a string in UTF-8; None if the body is not a valid string."""

    def receive(self, frame: bytes, now_ms: int, codec: int) -> None:
        """Receive the head of a message, a part of its content, or its tail.

        :raises ProtocolError: the message is damaged; the rest of the input is ignored
        """
        if isinstance(frame, LargeHead):
            self._begin(frame, codec)
            return
        if self._refusal is not None:
            if not isinstance(frame, ContentPart):
                refusal, self._refusal = self._refusal, None
                self._refuse(self._message(frame, now_ms, codec), refusal)
            return
        upload = self._upload
        assert upload is not None  # noqa: S101 - a head was in front
        if isinstance(frame, ContentPart):
            self._count(frame)
            if (before := upload.append(frame)) is not None:
                self._replies.wait_for(before, lambda _: None, fatal=True)
            return
        message = self._message(frame, now_ms, codec)
        text_size = -1 if message.compressed else self._text_size()
        receipt = message.command_id if message.response_required else None
        self._upload = None
        then = partial(self._received, message)
        self._replies.wait_for(upload.finish(text_size), then, receipt, fatal=True)

    def _begin(self, head: bytes, codec: int) -> None:
        self._head = head
        try:
            self._check(destination_of(head, codec))
        except Exception as error:
            self._refusal = error
            return
        self._upload = self._large.receive()
        self._text = ToText() if BODY_TYPES[head[4]] is BodyType.TEXT else None
        self._length = WithoutLength()

    def end(self) -> None:
        """Stop writing, because the client has ended."""
        if self._upload is not None:
            self._upload.writing.cancel()
            self._upload = None

    def _count(self, part: bytes) -> None:
        if self._text is not None:
            try:
                self._text.feed(self._length.feed(part))
            except Malformed:
                self._text = None

    def _text_size(self) -> int:
        """Return the bytes of the string in UTF-8; -1 if the body is not a valid string."""
        if self._text is None:
            return -1
        try:
            self._length.end()
            self._text.end()
        except Malformed:  # its length is wrong, or its last character is truncated
            return -1
        return self._text.size

    def _message(self, tail: bytes, now_ms: int, codec: int) -> Message:
        """Return the message without its content."""
        rest = b"".join((self._head[4:], b"\0", tail))
        try:
            frame = with_broker_in_time(_i32.pack(len(rest)) + rest, now_ms, codec)
            return decode(frame, version=codec)
        except CorruptMessage as error:
            self.end()
            raise ProtocolError(f"a message is damaged: {error}", fatal=True) from error

    def _received(self, message: Message, body: LargeBody) -> None:
        self._then(with_body_in_pieces(message, message.body_type, body), body)
