"""Files beside a journal in a stream: objects on the same servers."""

from __future__ import annotations

import asyncio
import base64
import logging
from typing import Any

from nats.js.api import ObjectStoreConfig
from nats.js.errors import BadObjectMetaError, NotFoundError

from jdbcstore.errors import StoreError
from jdbcstore.journal.stream.connection import PATIENCE
from jdbcstore.journal.stream.server import StreamServer

log = logging.getLogger(__name__)


class StreamAside:
    """Files in an object store, as :class:`jdbcstore.journal.abc.Aside` says.

    It is created when the journal is opened, with as many replicas as that. Objects are as the client writes
    them, a stream with the pieces and the facts of each; but the client waits without end for pieces that are
    not there, so it does not read them. It removes the pieces of an object whose writing has failed, though
    its facts may be there: such an object is none, since its writer got an error.
    """

    def __init__(self, server: StreamServer, folder: str) -> None:
        self._server = server
        self._bucket = f"{server.name}-{folder}"

    @property
    def place(self) -> str:
        return f"the object store {self._bucket} beside {self._server.connection.place}"

    def names(self) -> list[str]:
        async def ask(js: Any) -> list[str]:
            store = await js.object_store(self._bucket)
            return [entry.name for entry in await asyncio.wait_for(store.list(ignore_deletes=True), PATIENCE)]

        return self._found(ask) or []

    def read(self, name: str) -> bytes | None:
        async def ask(js: Any) -> bytes | None:
            store = await js.object_store(self._bucket)
            try:
                facts = await store.get_info(name)
            except BadObjectMetaError:
                return b""  # it is damaged, as its reader finds
            pieces: list[bytes] = []
            at = 1
            for _ in range(facts.chunks or 0):
                try:
                    message = await js.get_msg(self._stream, at, subject=self._pieces(facts.nuid), next=True)
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
            self._server.connection.ask(self._made)
        except StoreError as error:
            log.warning("%s is not created yet: %s", self.place, error)

    async def _made(self, js: Any) -> Any:
        try:
            return await js.object_store(self._bucket)
        except NotFoundError:
            wanted = ObjectStoreConfig(
                bucket=self._bucket,
                description="messages that the database of a journal of jdbcstore has refused",
                replicas=self._server.replicas,
            )
            return await js.create_object_store(self._bucket, wanted)

    def write(self, name: str, content: bytes) -> None:
        async def ask(js: Any) -> None:
            await (await self._made(js)).put(name, content)

        self._server.connection.ask(ask)

    def remove(self, name: str) -> None:
        async def ask(js: Any) -> None:
            store = await js.object_store(self._bucket)
            facts = await store.get_info(name)
            await js.purge_stream(self._stream, subject=self._pieces(facts.nuid))
            encoded = base64.urlsafe_b64encode(name.encode()).decode()
            await js.purge_stream(self._stream, subject=f"$O.{self._bucket}.M.{encoded}")

        self._found(ask)

    @property
    def _stream(self) -> str:
        """The stream of the object store."""
        return f"OBJ_{self._bucket}"

    def _pieces(self, number: str) -> str:
        """Return the subject of the pieces of an object."""
        return f"$O.{self._bucket}.C.{number}"

    def _found(self, ask: Any) -> Any:
        """Return the answer; None if there is no such object, or none at all."""
        try:
            return self._server.connection.ask(ask)
        except NotFoundError:
            return None
