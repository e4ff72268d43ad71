"""Conversations that make no sense: each frame may be right, and their order is anybody's guess."""

from __future__ import annotations

import logging
import random

import pytest

from jdbcstore import Store
from jdbcstore.broker.stomp.frames import Version
from tests.support.broker.stomp.serving import Client, Served

pytestmark = pytest.mark.backends("memory")

COMMANDS = (
    *("SEND", "SEND", "SUBSCRIBE", "UNSUBSCRIBE", "ACK", "ACK", "NACK", "BEGIN", "COMMIT", "ABORT"),
    *("CONNECT", "SUB"),
)
VALUES = {
    "destination": (
        *("/queue/A", "/queue/A", "/queue/B", "/topic/A", "/temp-queue/x", "/queue/A,/topic/A", "/queue/>"),
        *("/topic/*", "", ",", "plain", "/queue/", "/remote-temp-queue/ID:x:1"),
    ),
    "id": ("1", "2", "", "ID:1-1-1"),
    "transaction": ("t1", "t2", "t3"),
    "receipt": ("r", ""),
    "ack": ("auto", "client", "client-individual"),
    "message-id": ("1",),
    "subscription": ("1", "2"),
    "persistent": ("true", "false"),
    "selector": ("a = 1", "a = "),
    "browser": ("true",),
    "activemq.subscriptionName": ("name",),
    "activemq.prefetchSize": ("1", "0", "-1", "many"),
    "activemq.noLocal": ("true",),
    "activemq.exclusive": ("true",),
    "expires": ("1", "-1", "99999999999999"),
    "priority": ("9", "x"),
    "reply-to": ("/temp-topic/y", "plain", ""),
    "amq-msg-type": ("text", "bytes", "map"),
    "content-length": ("0", "4"),
}


def frame(draw: random.Random, acks: list[str], version: Version) -> tuple[str, dict[str, str], bytes]:
    names = draw.sample(sorted(VALUES), draw.randrange(1, 6))
    headers = {name: draw.choice(VALUES[name]) for name in names}
    command = draw.choice(COMMANDS)
    if command in ("ACK", "NACK") and acks and draw.random() < 0.8:
        headers["id" if version is Version.V1_2 else "message-id"] = draw.choice(acks)
    if draw.random() < 0.7:
        headers.setdefault("destination", "/queue/A")
        headers.setdefault("id", "1")
    if draw.random() < 0.7:
        headers.pop("transaction", None)
    has_body = command == "SEND" and headers.get("content-length") == "4"
    return command, headers, b"\0abc" if has_body else b""


@pytest.mark.parametrize("version", [*Version])
def test_no_conversation_confuses_the_broker(
    store: Store, version: Version, caplog: pytest.LogCaptureFixture
) -> None:
    draw = random.Random(7)
    with Served(store) as served:
        for conversation in range(30):
            with Client(served.port, version, client_id=f"c{conversation}") as client:
                acks: list[str] = []
                for _ in range(6):
                    said = [frame(draw, acks, version) for _ in range(12)]
                    for command, headers, body in said:
                        client.write(command, headers, body)
                    client.write("SEND", {"destination": "/queue/END", "receipt": "end"})
                    while (answer := client.read()).headers.get("receipt-id") != "end":
                        if answer.command == "MESSAGE":
                            acks.append(answer.headers.get("ack", answer.headers["message-id"]))
                        assert "the broker failed" not in answer.headers.get("message", ""), said
        with Client(served.port) as last:
            last.send("/queue/LAST", "still here")
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
