"""What other programs send to ours as JSON: requests of Jolokia's, tasks of kombu's."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any
from unittest import mock

from aiohttp import StreamReader, web
from aiohttp.test_utils import make_mocked_request
from kombu.transport import virtual

from jdbcstore import Destination, Message
from jdbcstore.broker.engine import Engine
from jdbcstore.broker.management.guard import Guard
from jdbcstore.broker.management.jolokia import Jolokia
from jdbcstore.broker.policies import Policies
from jdbcstore.broker.security import AllowAll
from jdbcstore.message.ids import MessageId, ProducerId
from jdbcstore.plugins import kombu
from jdbcstore.stores.memory import MemoryStore
from jdbcstore.util.clock import SystemClock
from tests.support.broker.jolokia import ASKS
from tests.support.broker.managed import managed

# Jolokia

_ROUND = 500
"""Requests to one broker: names that they make up would otherwise add up."""


class _Log(logging.Handler):
    """Fails where something is logged that only defects are: the answer does not say what it was."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            raise AssertionError(record.getMessage()) from record.exc_info[1]


class Refused(Exception):
    """Each answer says that its request is refused."""


class _Managed:
    """A broker in memory, with an answer for each request."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._requests = 0
        self._engine: Engine | None = None
        self._application: web.Application | None = None

    def ask(self, data: bytes) -> list[Any]:
        """Return the answers to the body of a POST."""
        log, handler = logging.getLogger("jdbcstore.broker.management"), _Log(logging.ERROR)
        log.addHandler(handler)
        log.propagate = False
        try:
            return self._loop.run_until_complete(self._ask(data))
        finally:
            log.propagate = True
            log.removeHandler(handler)

    async def _ask(self, data: bytes) -> list[Any]:
        if self._application is None or self._requests >= _ROUND:
            await self._begin()
        assert self._application is not None
        self._requests += 1
        payload = StreamReader(mock.Mock(_reading_paused=False), 1 << 16, loop=self._loop)
        payload.feed_data(data)
        payload.feed_eof()
        transport = mock.Mock()
        transport.get_extra_info.side_effect = lambda name, default=None: {
            "peername": ("127.0.0.1", 5),
            "sockname": ("127.0.0.1", 8161),
        }.get(name, default)
        headers = {"Host": "localhost", "Content-Type": "application/json"}
        request = make_mocked_request(
            "POST", "/", headers, payload=payload, transport=transport, app=self._application
        )
        response = await self._application._handle(request)
        assert isinstance(response, web.Response)
        assert isinstance(response.body, bytes)
        assert response.status == 200
        answers = json.loads(response.body)
        return answers if isinstance(answers, list) else [answers]

    async def _begin(self) -> None:
        if self._engine is not None:
            await self._engine.stop()
        self._engine = Engine(MemoryStore(), Policies(()))
        await self._engine.start()
        self._application = Jolokia(
            managed(self._engine), Guard(AllowAll(), "localhost"), "localhost"
        ).application()
        self._requests = 0
        for queue in ("ORDERS", "NEW"):
            await self._ask(json.dumps({"type": "exec", **_ADD, "arguments": [queue]}).encode())


_ADD = {"mbean": "org.apache.activemq:type=Broker,brokerName=localhost", "operation": "addQueue"}


@cache
def _broker() -> _Managed:
    return _Managed()


def read_jolokia(data: bytes) -> None:
    """Answer the body of a POST; no request may fail as a defect does, and each has an answer."""
    try:
        asked = json.loads(data) if data else {}
    except (ValueError, RecursionError):
        asked = None
    answers = _broker().ask(data)
    if isinstance(asked, list) and len(asked) <= 1000:
        assert len(answers) == len(asked)
    assert all(isinstance(answer.get("status"), int) for answer in answers)
    if not any(answer["status"] == 200 for answer in answers):
        raise Refused


def requests() -> Iterator[bytes]:
    """Yield what Hawtio and others ask, as the body of a POST."""
    yield from (json.dumps(ask).encode() for ask in ASKS.values() if not isinstance(ask, str))
    yield json.dumps([ask for ask in ASKS.values() if isinstance(ask, dict)][:5]).encode()
    broker = _ADD["mbean"]
    yield json.dumps({"type": "read", "mbean": broker, "attribute": ["QueueSize"], "path": "a/b"}).encode()
    yield json.dumps({"type": "list", "path": "org.apache.activemq", "config": {"maxDepth": 2}}).encode()
    yield json.dumps(
        {"type": "search", "mbean": "*:type=Broker,*", "config": {"canonicalNaming": False}}
    ).encode()


# kombu

_QUEUE = Destination.queue("celery")
_CHANNEL: Any = SimpleNamespace(
    decode_body=lambda body, encoding=None: virtual.Channel.decode_body(
        SimpleNamespace(codecs=virtual.Channel.codecs), body, encoding
    )
)


def read_envelope(data: bytes) -> None:
    """Read a task as a worker does: whatever is not refused is a message of kombu's."""
    message = Message(
        data.decode("utf-8", "replace"),
        jms_type=kombu._TYPE,
        destination=_QUEUE,
        message_id=MessageId(ProducerId("ID:a", 1, 1), 1),
    )
    payload = kombu._payload(_QUEUE.name, message)
    assert isinstance(kombu._seconds_early(payload, SystemClock(), 30.0), float)
    payload["properties"]["delivery_tag"] = "1"
    made = virtual.Message(payload, channel=_CHANNEL)
    assert made.delivery_tag == "1"
    assert isinstance(made.headers, dict)
    assert isinstance(made.delivery_info, dict)


def envelopes() -> Iterator[bytes]:
    """Yield tasks of Celery's, in both encodings, with an ETA and without."""
    body = {"utf-8": '[[1], {}, {"callbacks": null}]', "base64": "W1tdXQ=="}
    for encoding, text in body.items():
        for eta in (None, "2026-11-24T19:00:00+00:00", "2026-11-24T19:00:00"):
            yield json.dumps(
                {
                    "body": text,
                    "content-encoding": "utf-8",
                    "content-type": "application/json",
                    "headers": {"task": "add", "id": "1", "eta": eta, "retries": 0},
                    "properties": {
                        "correlation_id": "1",
                        "reply_to": "r",
                        "delivery_mode": 2,
                        "delivery_info": {"exchange": "", "routing_key": "celery"},
                        "priority": 0,
                        "body_encoding": encoding,
                        "delivery_tag": "t",
                    },
                }
            ).encode()
