"""@stomp/stompjs in headless Chromium, with our broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from jdbcstore import Store
from tests.support.broker.certificates import make_certificate
from tests.support.broker.programs import BrokerProcess
from tests.support.broker.stomp.browser import Page, browser, served_page
from tests.support.broker.stomp.serving import Served
from tests.support.ports import free_port

pytestmark = [pytest.mark.backends("memory"), pytest.mark.slow, pytest.mark.xdist_group("chromium")]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served_page(tmp_path_factory.mktemp("page")) as address:
        yield address


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, address: str) -> Iterator[Page]:  # noqa: ARG001
    with browser(tmp_path_factory.mktemp("chromium")) as page:
        yield page


@pytest.fixture
def page(opened: Page, address: str) -> Page:
    """A page that has just been loaded, with the functions of ``page.html``."""
    opened.go(address)
    return opened


@pytest.fixture
def ws(store: Store) -> Iterator[str]:
    with Served(store, uri="ws://127.0.0.1:0") as served:
        yield f"ws://127.0.0.1:{served.port}/stomp"


def test_sending_and_receiving(page: Page, ws: str) -> None:
    found = page.evaluate(f"""
        const client = await connect("{ws}");
        const queue = client.listen("/queue/Q");
        await client.send("/queue/Q", "grüße \\u{{1F980}}", {{ "k": "c\\nd\\\\e:f" }});
        const message = await queue.next();
        const {{ webSocket, connectedVersion }} = client, {{ body, headers }} = message;
        await client.deactivate();
        [webSocket.protocol, connectedVersion, body, headers["k"], await client.ends]
    """)
    assert found == ["v12.stomp", "1.2", "grüße \U0001f980", "c\nd\\e:f", [1000, "DISCONNECT"]]


def test_bytes(page: Page, ws: str) -> None:
    found = page.evaluate(f"""
        const client = await connect("{ws}");
        const queue = client.listen("/queue/Q");
        const binaryBody = Uint8Array.from({{ length: 256 }}, (_, n) => 255 - n);
        await client.send("/queue/Q", undefined, {{}}, {{ binaryBody }});
        const message = await queue.next();
        [...message.binaryBody]
    """)
    assert found == [*range(255, -1, -1)]


@pytest.mark.parametrize(
    "options",
    [{"splitLargeFrames": True, "maxWebSocketChunkSize": 1000}, {"forceBinaryWSFrames": True}],
    ids=["split", "binary"],
)
def test_frames_in_other_messages(page: Page, ws: str, options: dict[str, object]) -> None:
    found = page.evaluate(f"""
        const client = await connect("{ws}", {json.dumps(options)});
        const queue = client.listen("/queue/Q");
        await client.send("/queue/Q", "é".repeat(50000));
        (await queue.next()).body === "é".repeat(50000)
    """)
    assert found is True


def test_acknowledging(page: Page, ws: str) -> None:
    """One is acknowledged, one is rejected and dead, one is redelivered to another client."""
    found = page.evaluate(f"""
        const client = await connect("{ws}");
        for (const body of ["one", "two", "three"]) await client.send("/queue/Q", body);
        const queue = client.listen("/queue/Q", {{ ack: "client-individual" }});
        const messages = [await queue.next(), await queue.next(), await queue.next()];
        await client.receipt((receipt) => messages[0].ack({{ receipt }}));
        await client.receipt((receipt) => messages[1].nack({{ receipt }}));
        client.webSocket.close();
        await client.ends;
        const other = await connect("{ws}");
        const again = await other.listen("/queue/Q").next();
        const dead = await other.listen("/queue/ActiveMQ.DLQ").next();
        [again.body, again.headers.redelivered, dead.body]
    """)
    assert found == ["three", "true", "two"]


def test_transactions(page: Page, ws: str) -> None:
    found = page.evaluate(f"""
        const client = await connect("{ws}");
        await client.send("/queue/Q", "taken");
        const queue = client.listen("/queue/Q", {{ ack: "client-individual" }});
        const aborted = client.begin(), committed = client.begin();
        await client.send("/queue/R", "never", {{ transaction: aborted.id }});
        await client.send("/queue/R", "sent", {{ transaction: committed.id }});
        (await queue.next()).ack({{ transaction: committed.id }});
        aborted.abort();
        committed.commit();
        const other = client.listen("/queue/R");
        (await other.next()).body
    """)
    assert found == "sent"


def test_topics_with_durable_subscriptions(page: Page, ws: str) -> None:
    found = page.evaluate(f"""
        const me = {{ connectHeaders: {{ "client-id": "page" }} }};
        const subscription = {{ id: "s", "activemq.subscriptionName": "s" }};
        const first = await connect("{ws}", me);
        const headers = (receipt) => ({{ ...subscription, receipt }});
        await first.receipt((receipt) => first.subscribe("/topic/T", () => 0, headers(receipt)));
        await first.deactivate();
        const other = await connect("{ws}");
        await other.send("/topic/T", "kept");
        const again = await connect("{ws}", me);
        (await again.listen("/topic/T", subscription).next()).body
    """)
    assert found == "kept"


def test_heart_beats(page: Page, ws: str) -> None:
    """Those of the broker arrive, and those of the page keep the session."""
    found = page.evaluate(f"""
        const client = await connect("{ws}", {{ heartbeatIncoming: 200, heartbeatOutgoing: 200 }});
        await until(() => client.log.filter((line) => line.startsWith("<<< PONG")).length >= 5);
        await client.send("/queue/Q", "still there");
        [client.connectedFrame.headers["heart-beat"], client.connected]
    """)
    assert found == ["200,200", True]


def test_an_error(page: Page, ws: str) -> None:
    found = page.evaluate(f"""
        const client = await connect("{ws}");
        client.publish({{ destination: "/queue/A.*", body: "nowhere" }});
        await until(() => client.errors.length);
        await client.send("/queue/Q", "goes on");
        client.errors
    """)
    assert len(found) == 1
    assert "A.*" in found[0]


def test_pages_of_another_origin(page: Page, store: Store) -> None:
    with Served(store, uri="ws://127.0.0.1:0", allowed_origins="https://shop.example") as served:
        found = page.evaluate(f"""
            const client = await connect("ws://127.0.0.1:{served.port}");
            [client.connected, (await client.ends)[0]]
        """)
    assert found == [False, 1006]


def test_tls(page: Page, store: Store, tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    with Served(store, uri="wss://127.0.0.1:0", certificate=str(certificate)) as served:
        found = page.evaluate(f"""
            const client = await connect("wss://127.0.0.1:{served.port}");
            const queue = client.listen("/queue/Q");
            await client.send("/queue/Q", "encrypted");
            const body = (await queue.next()).body;
            await client.deactivate();
            [body, (await client.ends)[0]]
        """)
    assert found == ["encrypted", 1000]


def test_a_page_comes_back_when_the_broker_does(page: Page, tmp_path: Path) -> None:
    """The broker is killed while the page sends and receives; it starts with the same address and store."""
    port = free_port()
    options = ("--url", f"sqlite:///{tmp_path / 'mq.db'}", "--ws", f"127.0.0.1:{port}")
    page.evaluate(f"""
        globalThis.confirmed = [];
        globalThis.received = [];
        globalThis.connects = 0;
        globalThis.enough = 0;
        let sent = 0;
        function send() {{
            if (confirmed.length >= enough + 50) return;
            const body = String(++sent), headers = {{ persistent: "true", receipt: body }};
            client.watchForReceipt(body, () => {{ confirmed.push(body); send(); }});
            client.publish({{ destination: "/queue/Q", body, headers }});
        }}
        globalThis.client = new StompJs.Client({{ brokerURL: "ws://127.0.0.1:{port}", reconnectDelay: 100 }});
        client.onConnect = () => {{
            connects += 1;
            client.subscribe("/queue/Q", (message) => {{
                received.push([message.body, message.headers.redelivered === "true"]);
                message.ack();
            }}, {{ ack: "client-individual" }});
            send();
        }};
        client.activate();
    """)
    for enough in (100, 200, 300):
        page.evaluate(f"enough = {enough}")
        with BrokerProcess(tmp_path, *options) as broker:
            broker.ready()
            page.evaluate("await until(() => confirmed.length >= enough && received.length >= enough / 2)")
            if enough < 300:
                broker.kill()
            else:
                all_received = "confirmed.every((body) => received.some(([other]) => body === other))"
                page.evaluate(f"await until(() => {all_received})")
                page.evaluate("await client.deactivate()")
    assert page.evaluate("connects") >= 3
    seen: set[str] = set()
    for body, redelivered in page.evaluate("received"):
        assert redelivered or body not in seen
        seen.add(body)
