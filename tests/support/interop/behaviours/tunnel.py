"""A port for clients of TCP whose bytes are passed on over WebSocket, in messages that are cut anywhere."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

PATIENCE = 180.0


class _Tunnel:
    def __init__(self, port: int) -> None:
        self._uri = f"ws://127.0.0.1:{port}"
        self._chance = random.Random(port)

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        name = Subprotocol("v12.stomp")
        try:
            async with connect(self._uri, subprotocols=[name], max_size=None, proxy=None) as websocket:
                back = asyncio.create_task(self._back(websocket, writer))
                with contextlib.suppress(ConnectionClosed, ConnectionError):
                    while data := await reader.read(65536):
                        for message in self._cut(data):
                            await websocket.send(message)
                await websocket.close()
                await back
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _back(self, websocket: ClientConnection, writer: StreamWriter) -> None:
        with contextlib.suppress(ConnectionClosed, ConnectionError):
            async for message in websocket:
                writer.write(message.encode() if isinstance(message, str) else message)
                await writer.drain()
        writer.close()

    def _cut(self, data: bytes) -> Iterator[bytes]:
        while data:
            size = self._chance.choice((1, 10, 1000, len(data)))
            yield data[:size]
            data = data[size:]


@contextlib.contextmanager
def tunnel(port: int) -> Iterator[int]:
    """A port that leads to the WebSocket at ``port``."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="tunnel", daemon=True)
    thread.start()

    async def start() -> asyncio.Server:
        return await asyncio.start_server(_Tunnel(port).serve, "127.0.0.1", 0)

    async def stop() -> None:
        server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    server = asyncio.run_coroutine_threadsafe(start(), loop).result(PATIENCE)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result(PATIENCE)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()
