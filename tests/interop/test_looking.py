"""``jdbcstore console`` and a trace's context, while the real ActiveMQ serves the database."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.trace import get_current_span

from jdbcstore import Message
from jdbcstore.stores.tracing import context_of
from tests.interop.conftest import OpenStore, StartBroker
from tests.support.cli.console import PAGES, console_on
from tests.support.databases import Database
from tests.support.interop.messages import text

pytestmark = pytest.mark.backends("postgresql")

ACKS = "SELECT CONTAINER, SUB_NAME, LAST_ACKED_ID FROM ACTIVEMQ_ACKS ORDER BY CONTAINER, SUB_NAME"
TABLES = "SELECT TABLE_NAME FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA = 'public' ORDER BY TABLE_NAME"


def test_the_console_looks_into_a_database_that_activemq_serves(
    activemq: StartBroker, database: Database, tmp_path: Path
) -> None:
    changed = "SELECT ID, XMIN::TEXT FROM ACTIVEMQ_MSGS ORDER BY ID"
    with activemq() as broker:
        broker.send("queue://ORDERS", [text(f"pint {n}", properties={"n": n}) for n in range(60)])
        broker.send("queue://DOUBT", [text("settled")])
        broker.xa_prepare("send", "queue://DOUBT", messages=[text("in doubt")])
        broker.subscribe("topic://PRICES", "board", "all")
        broker.send("topic://PRICES", [text("7")])
        before = [database.rows(sql) for sql in (changed, ACKS, TABLES)]
        with console_on(tmp_path, database.url) as console:
            pages = {path: console.get(path) for path in PAGES}
            assert {page.status for page in pages.values()} == {200}
            assert not any("/do/" in link for page in pages.values() for link in page.links)
            assert "ORDERS 60" in pages["/queues"].text
            assert "DOUBT" in pages["/transactions"].text
            assert "board : all" in pages["/consumers"].text
            first = console.get("/queue", name="ORDERS")
            assert "pint 0" in first.text
            [following] = {link for link in first.links if "after=" in link}
            assert "pint 59" in console.ask("GET", following).text
            found = console.get("/queue", name="ORDERS", selector="n = 33")
            [message] = {link for link in found.links if "/message?" in link}
            assert "pint 33" in console.ask("GET", message).text
            assert [database.rows(sql) for sql in (changed, ACKS, TABLES)] == before
            # The real broker goes on: the console has locked nothing.
            broker.send("queue://ORDERS", [text("meanwhile", properties={"n": 1000})])
            assert "meanwhile" in console.get("/queue", name="ORDERS", selector="n = 1000").text
            assert len(broker.receive("queue://ORDERS", 61)) == 61


def test_the_context_of_a_trace_outlasts_an_activemq(
    activemq: StartBroker, open_jdbcstore: OpenStore
) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    carried = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01", "tracestate": "vendor=one"}
    with open_jdbcstore() as store:
        store.queue("Q").add_message(Message("ours", properties=carried))
    with activemq() as broker:
        [received] = broker.receive("queue://Q", 1)
        assert received["properties"] == text("", properties=carried)["properties"]
        broker.send("queue://Q", [{"kind": "text", **{k: received[k] for k in ("body", "properties")}}])
    with open_jdbcstore() as store:
        [found] = store.queue("Q").recover()
    assert found.properties == carried
    span = get_current_span(context_of(found)).get_span_context()
    assert (f"{span.trace_id:032x}", span.trace_state.get("vendor")) == (trace, "one")
