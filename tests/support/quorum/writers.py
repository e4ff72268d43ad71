"""Who has written a stream, as one sees who reads it meanwhile."""

from __future__ import annotations

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import StoreError
from jdbcstore.journal.stream.pieces import PieceHead
from jdbcstore.journal.stream.server import StreamServer


class Writers:
    """Who has written the stream: once another has, none of before may write again."""

    def __init__(self, config: JournalConfig) -> None:
        self._config = config
        self._server: StreamServer | None = None
        self._next = 1
        self.every: list[int] = []
        self.wrong: list[str] = []

    def look(self) -> None:
        """Read what was written since the last look, and is not released."""
        try:
            self._server = server = self._server or StreamServer(self._config, create=False)
            state = server.state()
            for at, message in server.messages(max(self._next, state.first), state.last):
                writer = PieceHead.unpack(message).writer
                if self.every and writer != self.every[-1] and writer in self.every:
                    self.wrong.append(f"message {at} is of a writer that another had followed")
                if writer not in self.every:
                    self.every.append(writer)
                self._next = at + 1
        except StoreError:
            return  # it is read next time

    def close(self) -> None:
        """Close the connection."""
        if self._server is not None:
            self._server.close()
