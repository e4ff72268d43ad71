"""Bad messages before the console and the API: each is shown or named, and so are all others."""

from __future__ import annotations

from pathlib import Path

from jdbcstore import Destination, JdbcStore, Message, MessageId
from jdbcstore.message.openwire.pieces import body_in_pieces
from jdbcstore.stores.claims import Claims
from jdbcstore.testing import RawTables
from tests.support import bad_messages
from tests.support.broker.api import queue
from tests.support.broker.console import console_of

DLQ = "ActiveMQ.DLQ"


def test_what_lists_and_shows_messages(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/mq.db"
    with Claims(url) as claims:
        for case in bad_messages.CASES:
            bad_messages.add(claims, RawTables(url), DLQ, case)
        good = Message("good", message_id=MessageId.parse("ID:good:1:1:1"))
        claims.queue(DLQ).add(good.replace(original_destination=Destination.queue("ORDERS")))
    with JdbcStore(url, read_only=True) as store:
        found = [*store.queue(DLQ).recover()]
        ids = [str(one.message_id) for one in found]
        [in_pieces] = [one for one in found if body_in_pieces(one) is not None]
    with console_of(url) as (console, _):
        shown = console.api.get(queue(DLQ, "messages?limit=100"))
        assert shown[-1]["body"] == "good"
        page = console.api.get(queue(DLQ, "pages?limit=100"))
        assert page["messages"][-1]["body"] == "good"
        assert "ID:good" in console.get("/queue", name=DLQ).text
        assert "ORDERS" in console.get("/dead-letters").text
        for id_ in ids:
            assert console.ask("GET", queue(DLQ, f"messages/{id_}")).status in (200, 404)
            assert console.ask("GET", f"/console/message?name={DLQ}&id={id_}").status in (200, 404)
        assert "good" in console.get("/export", name=DLQ).text
        console.api.post(queue(DLQ, "remove"), ids=[str(in_pieces.message_id)])
        answer = console.api.post(queue(DLQ, "retry"))
        assert answer["count"] >= 1
        assert console.api.get(queue("ORDERS", "messages?limit=100"))[-1]["body"] == "good"
        assert console.api.post(queue(DLQ, "remove"), limit=100)["count"] >= 1
