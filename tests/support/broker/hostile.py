"""Hostile requests to the management over HTTP, made from a seed."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

from jdbcstore.broker.management.http import MAX_BODY
from jdbcstore.config.broker import Address
from tests.support.broker.jolokia import ASKS, BROKER, ORDERS

_METHODS = (
    "GET",
    "POST",
    "PUT",
    "DELETE",
    "HEAD",
    "OPTIONS",
    "PATCH",
    "TRACE",
    "CONNECT",
    "get",
    "\0",
    "X" * 99,
)
_PARTS = (
    *("api", "queues", "topics", "messages", "purge", "remove", "move", "copy", "retry", "change", "pause"),
    *("resume", "reset-counters", "connections", "subscriptions", "transactions", "commit", "roll-back"),
    *(
        "lock",
        "history",
        "journal",
        "store",
        "broker",
        "destinations",
        "checkpoint",
        "jolokia",
        "read",
        "exec",
    ),
    *(
        "list",
        "search",
        "version",
        "admin",
        "xml",
        "queues.jsp",
        "metrics",
        "live",
        "ready",
        "console",
        ORDERS,
    ),
    *(
        "..",
        ".",
        "",
        "%2e%2e",
        "%2F",
        "%00",
        "%ff",
        "%C3%28",
        "%",
        "%zz",
        "A" * 3000,
        "ä",
        "'",
        '"',
        "<script>",
    ),
    *(
        ";",
        "?",
        "#",
        "*",
        ">",
        "\\",
        "{{7*7}}",
        "${x}",
        "queue%3A%2F%2FX",
        BROKER,
        "purge()",
        "!!",
        "!/",
        "*:*",
    ),
)
_TYPES = (
    *("application/json", "text/json", "text/plain", "multipart/form-data; boundary=x", "x", "", "/", "\xff"),
    *(
        "application/x-www-form-urlencoded",
        "application/json; charset=utf-7",
        "application/json; charset=nope",
    ),
)
_NAMES = (
    *("ids", "selector", "limit", "to", "body", "properties", "priority", "ttl_ms", "expired", "persistent"),
    *("type", "mbean", "operation", "arguments", "attribute", "path", "config", "reply_to", "x", "__class__"),
)
_SCALARS: tuple[Any, ...] = (
    *(None, True, 0, -1, 1 << 64, -(1 << 70), 1e308, float("nan"), "", "x", "\0", "\ud800", "n > ", "n = 'a"),
    *(
        "A" * 2000,
        "TRUE OR " * 300,
        "((((" * 200,
        "queue://",
        "topic://x",
        "a,b",
        ">",
        "exec",
        "read",
        BROKER,
    ),
)

_WORDS = (
    *(
        b"GET ",
        b"POST ",
        b"/api/broker",
        b" HTTP/1.1",
        b"\r\n",
        b"Host: localhost",
        b"\0",
        b"{}",
        b": ",
        b"\n",
    ),
    *(b"Content-Length: -1", b"Transfer-Encoding: chunked", b"A" * 20_000, b"HTTP/9.9", b"0\r\n\r\n"),
    b"Content-Length: 5\r\nContent-Length: 7",
)


def _value(rng: Random, depth: int = 0) -> Any:
    kind = rng.random()
    if depth > 3 or kind < 0.6:
        return rng.choice(_SCALARS)
    if kind < 0.75:
        return [_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(_NAMES): _value(rng, depth + 1) for _ in range(rng.randrange(5))}


def _body(rng: Random) -> bytes:
    kind = rng.random()
    if kind < 0.5:
        return json.dumps(_value(rng)).encode()
    if kind < 0.75:
        asked = rng.choice([one for one in ASKS.values() if isinstance(one, dict)])
        return json.dumps({**asked, rng.choice(_NAMES): _value(rng)}).encode()
    if kind < 0.9:
        return rng.randbytes(rng.randrange(200))
    return rng.choice((b"[" * 5000, b"{" * 5000, b'{"a":' * 3000, b"", b"\xff\xfe", b"1" * 5000, b'"' * 100))


def request(rng: Random) -> tuple[bytes, bool]:
    """One request, which may be none; and whether an answer can be expected before its end."""
    if rng.random() < 0.15:
        words = [*_WORDS, rng.randbytes(20)]
        return b"".join(rng.choices(words, k=rng.randrange(1, 14))) + b"\r\n\r\n", False
    path = "/" + "/".join(rng.choices(_PARTS, k=rng.randrange(1, 7)))
    if rng.random() < 0.3:
        path += (
            f"?{rng.choice(_NAMES)}={rng.choice(_PARTS)}&limit={rng.choice(('-1', 'x', '1e9', '0x10', '٣'))}"
        )
    data = b"" if rng.random() < 0.3 else _body(rng)
    lines = [f"{rng.choice(_METHODS)} {path} HTTP/1.1", "Connection: close"]
    if rng.random() < 0.95:
        lines.append(f"Host: {rng.choice(('localhost', '127.0.0.1:1', 'evil.example.com', '[', 'x' * 999))}")
    lines.append(f"Content-Type: {rng.choice(_TYPES)}")
    length = len(data) if rng.random() < 0.8 else rng.choice((-1, 0, 7, 1 << 40, MAX_BODY + 1))
    if rng.random() < 0.9:
        lines.append(f"Content-Length: {length}")
    if rng.random() < 0.2:
        lines.append(f"X-{'H' * rng.randrange(50)}: {'v' * rng.choice((10, 5_000, 9_000, 100_000))}")
    if rng.random() < 0.05:
        lines += [f"X-{number}: x" for number in range(rng.choice((100, 2000)))]
    if rng.random() < 0.2:
        lines.append(
            f"Authorization: {rng.choice(('Basic', 'Basic !', 'Basic ' + 'QQ==' * 999, 'Bearer x'))}"
        )
    if rng.random() < 0.2:
        lines.append("X-Requested-By: me")
    head = "\r\n".join(lines).encode("utf-8", "surrogatepass")
    return head + b"\r\n\r\n" + data, length == len(data)


def requests(seed: int, count: int) -> Iterator[tuple[bytes, bool]]:
    """So many requests."""
    rng = random.Random(seed)
    for _ in range(count):
        yield request(rng)


def attack(address: Address, seed: int, count: int, *, patience: float = 60.0) -> int:
    """Send requests, each on a connection of its own, and read what comes; the number of answers.

    One of a hundred is left unfinished, and its connection open until the end.
    """
    answers, left = 0, []
    for number, (data, is_whole) in enumerate(requests(seed, count)):
        raw = socket.create_connection(address, timeout=patience)
        if number % 100 == 99:
            raw.sendall(data[: len(data) // 2])
            left.append(raw)
            continue
        with raw, suppress(ConnectionError):
            raw.sendall(data)
            if not is_whole:
                raw.shutdown(socket.SHUT_WR)
            first = raw.recv(65536)
            answers += first.startswith(b"HTTP/1.")
            while first and raw.recv(65536):
                pass
        while len(left) > 200:
            left.pop(0).close()
    for one in left:
        one.close()
    return answers
