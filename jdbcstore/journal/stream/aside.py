"""Files beside a journal in a stream: objects on the same servers."""

from __future__ import annotations

from typing import Any

from nats.js.api import ObjectStoreConfig
from nats.js.errors import NotFoundError

from jdbcstore.journal.stream.server import StreamServer


class StreamAside:
    """Files in an object store, as :class:`jdbcstore.journal.abc.Aside` says.

    It is created with the first file, with as many replicas as the journal.
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
            return [one.name for one in await store.list(ignore_deletes=True)]

        return self._found(ask) or []

    def read(self, name: str) -> bytes | None:
        async def ask(js: Any) -> bytes:
            store = await js.object_store(self._bucket)
            return (await store.get(name)).data or b""

        content: bytes | None = self._found(ask)
        return content

    def write(self, name: str, content: bytes) -> None:
        async def ask(js: Any) -> None:
            try:
                store = await js.object_store(self._bucket)
            except NotFoundError:
                wanted = ObjectStoreConfig(
                    bucket=self._bucket,
                    description="messages that the database of a journal of jdbcstore has refused",
                    replicas=self._server.replicas,
                )
                store = await js.create_object_store(self._bucket, wanted)
            await store.put(name, content)

        self._server.connection.ask(ask)

    def remove(self, name: str) -> None:
        async def ask(js: Any) -> None:
            await (await js.object_store(self._bucket)).delete(name)

        self._found(ask)

    def _found(self, ask: Any) -> Any:
        """Return the answer; None if there is no such object, or none at all."""
        try:
            return self._server.connection.ask(ask)
        except NotFoundError:
            return None
