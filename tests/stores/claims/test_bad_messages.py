"""Bad messages before those who claim: whatever becomes of one, the next message comes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from jdbcstore import AsyncClaims, Inbox, Message
from jdbcstore.errors import StoreError
from jdbcstore.message.openwire import wire_format
from jdbcstore.stores.claims import Claim, Claims
from jdbcstore.stores.claims.numbers import read_shared
from tests.support import bad_messages
from tests.support.claims.callers import opened
from tests.support.databases import Database

pytestmark = [
    pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql"),
    pytest.mark.parametrize("case", bad_messages.CASES),
]


@pytest.fixture(autouse=True)
def _low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_format, "MAX_INFLATED", bad_messages.BOMB // 2)


def read(claim: Claim) -> None:
    """Look at everything, as a consumer may: damage is a StoreError."""
    with suppress(StoreError):
        repr((claim.message.body, dict(claim.message.properties), claim.message.group_id))


_ON_SERVERS = pytest.mark.whole("postgresql", "mariadb", "mysql")
IGNORED = pytest.param("ignored", marks=_ON_SERVERS)
SHARED = pytest.param("shared", marks=_ON_SERVERS)


@pytest.mark.parametrize("keys", [IGNORED, SHARED, "in order"])
def test_claimed(claims: Claims, database: Database, case: str, keys: str) -> None:
    queue = claims.queue("Q")
    if keys != "ignored":
        queue.flow.share(in_order=keys == "in order")
    id_ = bad_messages.add(claims, database, "Q", case)
    queue.add(Message("good"))
    assert read_shared(claims.database.session, keys=True).queues

    found = list[Claim]()
    while some := queue.claim():
        found += some
        for claim in some:
            read(claim)
            queue.acknowledge(claim)

    assert found[-1].message.body == "good"
    letters = database.rows("SELECT ID FROM ACTIVEMQ_MSGS")
    assert letters == ([] if found[0].sequence == id_ else [(id_,)])
    assert claims.queue("ActiveMQ.DLQ").claim() == []  # it is dead there, too
    read_shared(claims.database.session, keys=True)


@pytest.mark.parametrize("keys", [IGNORED, "in order"])
def test_read_by_the_queue(claims: Claims, database: Database, case: str, keys: str) -> None:
    queue = claims.queue("Q")
    if keys != "ignored":
        queue.flow.share(in_order=True)
    bad_messages.add(claims, database, "Q", case)
    queue.add(Message("good"))

    def text(message: Message) -> str:
        assert dict(message.properties) is not None
        return str(message.body).encode().decode()

    texts = list[str | None]()
    while some := queue.claim():
        for claim in some:
            if (found := queue.read(claim, text)) is not None:
                texts.append(found)
                queue.acknowledge(claim)

    assert texts[-1] == "good"
    assert len(texts) + len(database.rows("SELECT ID FROM ACTIVEMQ_MSGS")) == 2
    if keys != "ignored":
        own = "SELECT ID FROM ACTIVEMQ_MSGS WHERE CONTAINER = 'queue://Q'"  # what only a journal has
        assert database.rows(f"SELECT ID FROM JDBCSTORE_KEYED WHERE ID NOT IN ({own})") == []


@pytest.mark.backends("sqlite")
def test_claimed_in_a_loop(claims: Claims, database: Database, case: str) -> None:
    bad_messages.add(claims, database, "Q", case)
    claims.queue("Q").add(Message("good"))

    async def work() -> list[Any]:
        async with AsyncClaims(database.url) as mine:
            queue, found = mine.queue("Q"), []
            while some := await queue.claim():
                for claim in some:
                    found.append(await queue.read(claim, lambda message: message.body or ""))
                    if found[-1] is not None:
                        await queue.acknowledge(claim)
            return found

    assert asyncio.run(work())[-1] == "good"


def test_noted_in_an_inbox(claims: Claims, database: Database, case: str) -> None:
    bad_messages.add(claims, database, "Q", case)
    queue = claims.queue("Q")
    queue.add(Message("good"))
    for claim in queue.claim(9):
        with Inbox(database.url, bad_messages.HALF) as inbox, opened(database.url, "driver") as caller:
            given = (str(claim.message.message_id), bad_messages.HALF, f"the group {claim.message.group_id}")
            for name in given:
                assert inbox.accept(caller.connection, name)
                assert not inbox.accept(caller.connection, name)
            caller.rollback()
