"""A client of the management over HTTP, for tests that have no event loop, and for those that have one."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from jdbcstore.config.broker import Address


class ApiClient:
    """Asks one broker, each time on a connection of its own."""

    def __init__(self, address: Address, login: tuple[str, str] | None = None) -> None:
        self.address = address
        self.headers: dict[str, str] = {}
        if login is not None:
            import base64

            self.headers["Authorization"] = "Basic " + base64.b64encode(":".join(login).encode()).decode()

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str | None] | None = None,
        timeout: float = 180.0,
    ) -> tuple[int, Any]:
        """The status, and the JSON of the answer; a header that is None is not sent."""
        connection = http.client.HTTPConnection(*self.address, timeout=timeout)
        every = {**self.headers, "Content-Type": "application/json", **(headers or {})}
        given = {name: value for name, value in every.items() if value is not None}
        try:
            data = body if isinstance(body, bytes) else None if body is None else json.dumps(body)
            connection.request(method, path, data, given)
            answer = connection.getresponse()
            text = answer.read().decode()
            return answer.status, json.loads(text) if text.startswith(("{", "[", "null")) else text
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """The answer, which must be a success."""
        status, found = self.ask("GET", path)
        assert status == 200, (status, found)
        return found

    def post(self, path: str, **fields: Any) -> Any:
        """The answer, which must be a success."""
        status, found = self.ask("POST", path, fields)
        assert status == 200, (status, found)
        return found


def queue(name: str, what: str = "") -> str:
    """The path of a queue, or of something about it."""
    return f"/api/queues/{quote(name, safe='')}" + (f"/{what}" if what else "")
