"""Spans of OpenTelemetry: their names and attributes, and one trace from a client to another process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import jdbcstore
from jdbcstore import Configuration, Destination, Message, Store
from jdbcstore.broker.engine import Engine
from jdbcstore.broker.process.host import BrokerHost
from jdbcstore.broker.tracing import Tracing
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.broker import BrokerConfig, ConnectorConfig
from jdbcstore.errors import StoreClosed
from jdbcstore.stores.tracing import context_of, traced
from tests.support import ROOT
from tests.support.broker.consuming import Recorder, consume, message
from tests.support.broker.programs import Client

pytestmark = pytest.mark.backends("sqlite")

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
HEADERS = {"traceparent": PARENT, "tracestate": "vendor=one"}
_EXPORTER = InMemorySpanExporter()


@pytest.fixture(scope="module")
def provider() -> TracerProvider:
    """The provider of this process, which can be set only once."""
    found = trace.get_tracer_provider()
    if not isinstance(found, TracerProvider):
        found = TracerProvider()
        trace.set_tracer_provider(found)
    found.add_span_processor(SimpleSpanProcessor(_EXPORTER))
    return found


@pytest.fixture
def spans(provider: TracerProvider) -> Iterator[InMemorySpanExporter]:  # noqa: ARG001
    _EXPORTER.clear()
    yield _EXPORTER
    _EXPORTER.clear()


def named(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [one for one in exporter.get_finished_spans() if one.name == name]


def the(exporter: InMemorySpanExporter, name: str) -> tuple[ReadableSpan, dict[str, Any]]:
    """The only span of this name, and its attributes."""
    [found] = named(exporter, name)
    return found, dict(found.attributes or {})


def trace_of(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.trace_id:032x}"


READ_IN_ANOTHER_PROCESS = """
import sys
import jdbcstore
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from jdbcstore.stores.tracing import context_of, traced

exporter = InMemorySpanExporter()
trace.set_tracer_provider(provider := TracerProvider())
provider.add_span_processor(SimpleSpanProcessor(exporter))
with traced(jdbcstore.open(sys.argv[1])) as store:
    queue = store.queue("ORDERS")
    [found] = queue.recover()
    with trace.get_tracer("app").start_as_current_span("process", context_of(found)):
        queue.acknowledge(found)
for span in exporter.get_finished_spans():
    link = f"{span.links[0].context.trace_id:032x}" if span.links else ""
    print(span.name, f"{span.context.trace_id:032x}", link, found.properties["tracestate"])
"""


def test_one_trace_from_a_client_through_the_broker_and_the_database_to_another_process(
    spans: InMemorySpanExporter, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/mq.db"

    async def main() -> None:
        connector = ConnectorConfig(uri="stomp://127.0.0.1:0")
        broker = BrokerConfig(connectors=(connector,), tracing=True)
        async with BrokerHost(Configuration(data_source=DataSourceConfig(url=url), broker=broker)) as host:
            [(_, address)] = host.addresses
            client = Client(address.port)
            await asyncio.to_thread(client.connect)
            try:
                await asyncio.to_thread(client.send, "/queue/GONE", "1", **HEADERS)
                await asyncio.to_thread(client.send, "/queue/ORDERS", "2", **HEADERS)
                await asyncio.to_thread(client.consume, "/queue/GONE")
                await asyncio.to_thread(client.wait_for, 1)
                [(_, received)] = client.received
                assert {name: received[name] for name in HEADERS} == HEADERS
            finally:
                await asyncio.to_thread(client.close)

    asyncio.run(main())
    names = ("send GONE", "store GONE", "deliver GONE", "acknowledge GONE", "send ORDERS", "store ORDERS")
    for name in names:
        span, attributes = the(spans, name)
        operation, _, where = name.partition(" ")
        assert trace_of(span) == TRACE
        assert attributes["messaging.system"] == "jdbcstore"
        assert attributes["messaging.destination.name"] == where
        assert attributes["messaging.operation.name"] == operation
    kinds = {"send": "send", "deliver": "receive", "acknowledge": "settle"}
    for operation, kind in kinds.items():
        _, attributes = the(spans, f"{operation} GONE")
        assert attributes["messaging.operation.type"] == kind
        assert attributes["messaging.client.id"]
    send, store = the(spans, "send GONE")[0], the(spans, "store GONE")[0]
    assert store.parent is not None
    assert send.context is not None
    assert store.parent.span_id == send.context.span_id
    command = [sys.executable, "-c", READ_IN_ANOTHER_PROCESS, url]
    out = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, timeout=600).stdout
    assert [line.split() for line in out.splitlines()] == [
        ["receive", "ORDERS", out.split()[2], TRACE, "vendor=one"],
        ["acknowledge", "ORDERS", TRACE, TRACE, "vendor=one"],
        ["process", TRACE, "vendor=one"],
    ]


def test_a_message_without_a_context_gets_one_and_failures_are_seen(
    spans: InMemorySpanExporter, store: Store
) -> None:
    async def main() -> None:
        engine = Engine(store, tracing=Tracing())
        await engine.start()
        await asyncio.wait_for(engine.send(message("1"), "c1"), 60)
        transaction = engine.begin("c1")
        await transaction.send(message("2"))
        await asyncio.wait_for(transaction.commit(), 60)
        consumer = await consume(engine, "Q", recorder=Recorder(), client_id="me")
        first, second = await consumer.got(2)
        consumed = engine.begin("c1")
        consumed.acknowledge(consumer.subscription, [first])
        await asyncio.wait_for(consumed.commit(), 60)
        await asyncio.wait_for(consumer.subscription.reject([second]), 60)
        store.close()
        with pytest.raises(StoreClosed):
            await asyncio.wait_for(engine.send(message("3"), "c1"), 60)
        await engine.stop()

    asyncio.run(main())
    ones = [trace_of(span) for span in named(spans, "send Q")]
    assert len({*ones}) == 3
    assert [trace_of(span) for span in named(spans, "deliver Q")] == ones[:2]
    assert [trace_of(span) for span in named(spans, "acknowledge Q")] == ones[:1]
    assert [trace_of(span) for span in named(spans, "reject Q")] == ones[1:2]
    assert {(one.attributes or {})["messaging.client.id"] for one in named(spans, "deliver Q")} == {"me"}
    failed = [(one.attributes or {}).get("error.type") for one in named(spans, "store Q")]
    assert failed == [None, "StoreClosed"]


def test_the_store_alone(spans: InMemorySpanExporter, store: Store) -> None:
    with traced(store) as seen:
        assert type(seen.last_sequence()) is int
        queue, topic = seen.queue("Q"), seen.topic("T")
        with trace.get_tracer("app").start_as_current_span("order") as order:
            queue.add_message(Message("one"))
            queue.add_messages_async([Message("two"), Message("three", properties=HEADERS)]).result()
            with seen.transaction() as transaction:
                transaction.queue("Q").add_message(Message("four"))
        inside = f"{order.get_span_context().trace_id:032x}"
        found = [*queue.recover()]
        traces = [
            f"{trace.get_current_span(context_of(one)).get_span_context().trace_id:032x}" for one in found
        ]
        assert traces == [inside, inside, TRACE, inside]
        assert found[2].properties == HEADERS
        queue.acknowledge(*found)
        durable = topic.subscribe("c", "s")
        topic.add_message(Message("news"))
        durable.acknowledge_async(*durable.recover()).result()
        with pytest.raises(jdbcstore.errors.MessageNotFound):
            queue.get_message(1)
        assert len(queue.recover()) == 0
    sends = named(spans, "send Q")
    assert [(one.attributes or {}).get("messaging.batch.message_count") for one in sends] == [None, 2, None]
    assert len(named(spans, "create Q")) == 2
    receive, attributes = the(spans, "receive Q")
    assert (attributes["messaging.batch.message_count"], len(receive.links)) == (4, 4)
    _, attributes = the(spans, "acknowledge T")
    assert attributes["messaging.destination.subscription.name"] == "s"
    assert attributes["messaging.operation.type"] == "settle"
    assert seen.queue("Q").destination == Destination.queue("Q")


def test_a_write_that_is_refused_at_once_ends_its_span(spans: InMemorySpanExporter, store: Store) -> None:
    queue, topic = traced(store).queue("Q"), traced(store).topic("T")
    durable = topic.subscribe(client_id="c", subscription_name="s")
    queue.add_message(message=Message("one"))
    store.close()
    for add in (queue.add_message, queue.add_message_async, topic.add_message_async):
        with pytest.raises(StoreClosed):
            add(Message("two"))
    with pytest.raises(StoreClosed):
        durable.acknowledge_async(1).result()

    def errors(name: str) -> list[object]:
        return [(one.attributes or {}).get("error.type") for one in named(spans, name)]

    assert errors("send Q") == [None, "StoreClosed", "StoreClosed"]
    assert errors("send T") == errors("acknowledge T") == ["StoreClosed"]


def test_off_it_is_not_imported(tmp_path: Path) -> None:
    code = (
        "import sys, jdbcstore, jdbcstore.broker.engine, jdbcstore.broker.process.host;"
        "jdbcstore.open(sys.argv[1]).close();"
        "sys.exit(any(name.partition('.')[0] == 'opentelemetry' for name in sys.modules))"
    )
    command = [sys.executable, "-c", code, f"sqlite:///{tmp_path}/mq.db"]
    assert subprocess.run(command, cwd=ROOT, check=False, timeout=600).returncode == 0
