"""Files beside a journal in a stream: objects on the same servers."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from nats.js.errors import BadObjectMetaError, NotFoundError

from jdbcstore.errors import StoreError
from jdbcstore.journal.stream.connection import PATIENCE
from jdbcstore.journal.stream.objects import StreamObjects
from jdbcstore.journal.stream.server import StreamServer

log = logging.getLogger(__name__)


class StreamAside:
    """Files in an object store, as :class:`jdbcstore.journal.abc.Aside` says.

    It is created when the journal is opened. The client removes the pieces of an object whose writing has
    failed, though its facts may be there: such an object is none, since its writer got an error.
    """

    def __init__(self, server: StreamServer, folder: str) -> None:
        self._server = server
        described = "messages that the database of a journal of jdbcstore has refused"
        self._objects = StreamObjects(server, folder, described)

    @property
    def place(self) -> str:
        return f"the object store {self._objects.bucket} beside {self._server.connection.place}"

    def names(self) -> list[str]:
        async def ask(js: Any) -> list[str]:
            store = await js.object_store(self._objects.bucket)
            return [entry.name for entry in await asyncio.wait_for(store.list(ignore_deletes=True), PATIENCE)]

        return self._found(ask) or []

    def read(self, name: str) -> bytes | None:
        async def ask(js: Any) -> bytes | None:
            try:
                facts = await self._objects.facts(js, name)
            except BadObjectMetaError:
                return b""  # it is damaged, as its reader finds
            pieces: list[bytes] = []
            at = 1
            for _ in range(facts.chunks or 0):
                try:
                    message = await self._objects.piece(js, facts.nuid, at)
                except NotFoundError:
                    break
                pieces.append(message.data or b"")
                at = message.seq + 1
            if not pieces:
                log.warning("%s/%s has no content: its writing or its removal was cut off", self.place, name)
                return None
            return b"".join(pieces)

        content: bytes | None = self._found(ask)
        return content

    def make(self) -> None:
        """Create the object store if it does not exist: when it is needed, a server may be missing for it."""
        try:
            self._server.connection.ask(self._objects.store)
        except StoreError as error:
            log.warning("%s is not created yet: %s", self.place, error)

    def write(self, name: str, content: bytes) -> None:
        async def ask(js: Any) -> None:
            await (await self._objects.store(js)).put(name, content)

        self._server.connection.ask(ask)

    def remove(self, name: str) -> None:
        self._found(lambda js: self._objects.remove(js, name))

    def _found(self, ask: Any) -> Any:
        """Return the answer; None if there is no such object, or none at all."""
        try:
            return self._server.connection.ask(ask)
        except NotFoundError:
            return None
