"""A STOMP client of a few lines, in asyncio."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Self


class Stomp:
    """A connection to a broker on this machine; what it does not expect is an AssertionError."""

    def __init__(
        self, port: int, login: str = "test", passcode: str = "secret", *, client_id: str = ""
    ) -> None:
        self._port = port
        self._headers = {"accept-version": "1.2", "host": "x", "login": login, "passcode": passcode}
        if client_id:
            self._headers["client-id"] = client_id
        self._receipts = 0

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._write("CONNECT", self._headers)
        try:
            await self._expect("CONNECTED")
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def send(self, destination: str, body: str) -> None:
        """Send it, and see it stored."""
        await self._request("SEND", {"destination": destination, "persistent": "true"}, body)

    async def subscribe(self, destination: str, ack: str = "auto", **headers: str) -> None:
        await self._request("SUBSCRIBE", {"destination": destination, "id": "1", "ack": ack, **headers})

    async def message(self) -> str:
        """The body of the next message."""
        return (await self._expect("MESSAGE")).rpartition("\n\n")[2]

    async def closed(self) -> None:
        """Wait until the broker has closed the connection, without a word."""
        try:
            assert (await self._reader.read()).strip() == b""
        except ConnectionError:
            return

    async def _request(self, command: str, headers: dict[str, str], body: str = "") -> None:
        self._receipts += 1
        self._write(command, {**headers, "receipt": str(self._receipts)}, body)
        assert f"receipt-id:{self._receipts}" in await self._expect("RECEIPT")

    def _write(self, command: str, headers: dict[str, str], body: str = "") -> None:
        lines = [command, *(f"{name}:{value}" for name, value in headers.items())]
        self._writer.write(("\n".join(lines) + f"\n\n{body}\0").encode())

    async def _expect(self, command: str) -> str:
        frame = (await self._reader.readuntil(b"\0")).decode().strip("\n\0")
        assert frame.startswith(command), frame
        return frame
