"""Objects beside a stream, on the same servers."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from nats.js.api import ObjectStoreConfig
from nats.js.errors import NotFoundError

from jdbcstore.journal.stream.connection import ANSWER
from jdbcstore.journal.stream.server import StreamServer


class StreamObjects:
    """An object store, with as many replicas as the stream beside it.

    Objects are as the client writes them, a stream with the pieces and the facts of each; but the client
    waits without end for pieces that are not there, so it does not read them.
    """

    def __init__(self, server: StreamServer, folder: str, description: str, ttl: float | None = None) -> None:
        self.bucket = f"{server.name}-{folder}"
        self._stream = f"OBJ_{self.bucket}"
        replicas = server.replicas
        self._wanted = ObjectStoreConfig(self.bucket, description=description, ttl=ttl, replicas=replicas)

    async def store(self, js: Any) -> Any:
        """Return the client's object store; create it if it does not exist."""
        try:
            return await js.object_store(self.bucket)
        except NotFoundError:
            return await js.create_object_store(self.bucket, self._wanted)

    async def facts(self, js: Any, name: str) -> Any:
        store = await js.object_store(self.bucket)
        return await asyncio.wait_for(store.get_info(name), ANSWER)

    async def piece(self, js: Any, number: str, at: int) -> Any:
        """Return the first message, from one on, with a piece of the object of a number."""
        return await js.get_msg(self._stream, at, subject=f"$O.{self.bucket}.C.{number}", next=True)

    async def remove(self, js: Any, name: str) -> None:
        facts = await self.facts(js, name)
        encoded = base64.urlsafe_b64encode(name.encode()).decode()
        for subject in (f"C.{facts.nuid}", f"M.{encoded}"):
            await js.purge_stream(self._stream, subject=f"$O.{self.bucket}.{subject}")
