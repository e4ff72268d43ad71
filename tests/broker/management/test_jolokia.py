"""Jolokia's protocol: answers to what KEDA, Hawtio and Nagios' plugins ask, beside those of an ActiveMQ."""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen
from xml.etree import ElementTree

import pytest

import jdbcstore
from jdbcstore.broker.management.reading import Views
from jdbcstore.broker.process.host import BrokerHost
from jdbcstore.broker.security import hash_password
from jdbcstore.config import Configuration, DataSourceConfig
from jdbcstore.config.broker import Address, BrokerConfig, ConnectorConfig
from jdbcstore.config.policy import IndividualDeadLetterStrategy, PolicyEntry
from jdbcstore.config.users import ROLES, write_user
from jdbcstore.errors import ConfigurationError
from jdbcstore.testing.polling import wait_until
from tests.support import ROOT
from tests.support.broker.api import ApiClient, queue
from tests.support.broker.frames import Stomp
from tests.support.broker.jolokia import ASKS, BROKER, GONE, ORDERS, Ask, exec_
from tests.support.broker.openwire.client import Client as OpenWireClient
from tests.support.pool import memory

RECORDED = json.loads((ROOT / "tests" / "fixtures" / "jolokia.json").read_text())
EXACT = {
    *("QueueSize", "EnqueueCount", "DequeueCount", "ExpiredCount", "ConsumerCount", "InFlightCount", "Name"),
    *(
        "Paused",
        "DLQ",
        "CurrentStatus",
        "BrokerName",
        "Slave",
        "TotalMessageCount",
        "CurrentConnectionsCount",
    ),
    *("TotalConnectionsCount", "StatisticsEnabled", "ClientId", "SubscriptionName", "Active", "Selector"),
    *("DestinationName", "DestinationQueue", "DestinationTopic", "PendingQueueSize", "DispatchedQueueSize"),
    *(
        "DequeueCounter",
        "EnqueueCounter",
        "JMSDestination",
        "JMSPriority",
        "JMSRedelivered",
        "JMSType",
        "Text",
    ),
    *(
        "JMSCorrelationID",
        "JMSExpiration",
        "JMSDeliveryMode",
        "JMSReplyTo",
        "PropertiesText",
        "IntProperties",
    ),
    *("StringProperties", "objectName", "error_type", "status", "agent", "protocol", "request"),
    *("MessageCountAwaitingAcknowledge", "Subscriptions", "Queues", "Topics"),
    *("InactiveDurableTopicSubscribers", "QueueSubscribers", "DurableTopicSubscribers"),
}
"""What has the same value in both, not only the same type."""


_OF_DESTINATION = {
    "names": ("name",),
    "stats": ("size", "consumerCount", "enqueueCount", "dequeueCount"),
}
TELEGRAF = {
    "queues": _OF_DESTINATION,
    "topics": _OF_DESTINATION,
    "subscribers": {
        "names": (
            *("clientId", "subscriptionName", "connectionId"),
            *("destinationName", "selector", "active"),
        ),
        "stats": (
            *("pendingQueueSize", "dispatchedQueueSize", "dispatchedCounter"),
            *("enqueueCounter", "dequeueCounter"),
        ),
    },
}
"""What Telegraf's plug-in reads of each page of XML: strings, and whole numbers."""


def ask(api: ApiClient, what: Ask) -> Any:
    if isinstance(what, str):
        status, found = api.ask("GET", f"/api/jolokia/{quote(what, safe='/:=,*()')}")
    else:
        status, found = api.ask("POST", "/api/jolokia", what)
    assert status == 200, (status, found)
    return found


def differences(ours: Any, real: Any, where: str = "") -> Iterator[str]:
    """What is not as in the recording, but for what is absent here."""
    if isinstance(ours, dict) and isinstance(real, dict):
        for name, value in ours.items():
            inner = f"{where}/{name}"
            if name in ("stacktrace", "TransportConnectors", "TopicSubscribers", "info", "config"):
                continue
            if name not in real:
                yield f"{inner} is not in ActiveMQ"
            elif name in EXACT and value != real[name]:
                yield f"{inner} is {value!r}, not {real[name]!r}"
            else:
                yield from differences(value, real[name], inner)
    elif isinstance(ours, list) and isinstance(real, list):
        if len(ours) != len(real):
            yield f"{where} has {len(ours)} elements, not {len(real)}"
        for one, other in zip(ours, real, strict=False):
            yield from differences(one, other, where)
    elif _json_type(ours) != _json_type(real) and None not in (ours, real):
        yield f"{where} is {ours!r}, not {real!r}"


def _json_type(value: Any) -> type:
    return float if type(value) is int else type(value)


def absent(ours: dict[str, Any], real: dict[str, Any]) -> set[str]:
    return real.keys() - ours.keys()


def page(api: ApiClient, name: str) -> ElementTree.Element:
    """A page of XML."""
    return ElementTree.fromstring(api.ask("GET", f"/admin/xml/{name}.jsp")[1])  # noqa: S314 - of our broker


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory: where a disk stalls, a broker answers that its database does."""
    with tempfile.TemporaryDirectory(dir=memory() or tmp_path) as folder:
        yield Path(folder)


def configuration(folder: Path, **broker: Any) -> Configuration:
    options = {"connectors": (ConnectorConfig(uri="stomp://127.0.0.1:0"),), **broker}
    policies = options.pop("policies", ())
    return Configuration(
        data_source=DataSourceConfig(url=f"sqlite:///{folder}/mq.db"),
        broker=BrokerConfig(health="127.0.0.1:0", **options),
        policies=policies,
    )


def test_tools_get_what_an_activemq_answers(tmp_path: Path) -> None:
    config = configuration(tmp_path)
    with jdbcstore.open(config) as store:
        store.topic("PRICES").subscribe("billing", "gone")

    def compare(api: ApiClient) -> None:
        for number in range(3):
            fields: dict[str, Any] = {"correlation_id": "c1", "jms_type": "order", "body": f"order {number}"}
            api.post(queue("ORDERS", "messages"), **fields, properties={"colour": "red", "table": number})
        api.post("/api/topics/PRICES/messages", body="a price")

        def dequeued() -> bool:
            return bool(api.get("/api/topics/PRICES")["dequeued"])

        while not dequeued():
            pass
        found = {name: ask(api, what) for name, what in ASKS.items()}
        assert [
            f"{name}: {one}" for name, answer in found.items() for one in differences(answer, RECORDED[name])
        ] == []
        listed = ask(api, "list/org.apache.activemq")["value"]
        missing: dict[str, set[str]] = {}
        for kind, name in {
            "Broker": "brokerName=localhost,type=Broker",
            "Queue": "brokerName=localhost,destinationName=ORDERS,destinationType=Queue,type=Broker",
            "Topic": "brokerName=localhost,destinationName=PRICES,destinationType=Topic,type=Broker",
        }.items():
            for part in ("attr", "op"):
                real, ours = set(RECORDED["list"][name][part]), set(listed[name][part])
                assert ours <= real
                missing[f"{kind} {part}"] = real - ours
        text = (ROOT / "docs" / "monitoring" / "jolokia-missing.txt").read_text()
        rows = re.findall(r"^(\w+) (attr|op)\w*: ((?:.+\n)(?: .+\n)*)", text, re.MULTILINE)
        documented = {f"{kind} {part}": set(re.findall(r"\w+", names)) for kind, part, names in rows}
        assert documented == missing

    async def main() -> None:
        async with asyncio.timeout(300), BrokerHost(config) as host:
            [(_, stomp)] = host.addresses
            address = host.health_address
            assert address is not None
            async with Stomp(stomp.port, client_id="billing") as client:
                await client.subscribe("/topic/PRICES", **{"activemq.subscriptionName": "audit"})
                await asyncio.to_thread(compare, ApiClient(address))

    asyncio.run(main())


def test_a_durable_subscription_outlives_its_topic(tmp_path: Path) -> None:
    """As in ActiveMQ: it gets what is sent later, and can be destroyed by itself."""
    config = configuration(tmp_path)
    with jdbcstore.open(config) as store:
        store.topic("PRICES").subscribe("billing", "gone")

    def read(api: ApiClient, attribute: str) -> Any:
        return ask(api, f"read/{BROKER}/{attribute}")["value"]

    def check(address: Address) -> None:
        api = ApiClient(address)
        api.post("/api/topics/PRICES/messages", body="removed")
        assert ask(api, exec_(BROKER, "removeTopic", "PRICES"))["status"] == 200
        assert "PRICES" not in str(read(api, "Topics"))
        assert len(read(api, "InactiveDurableTopicSubscribers")) == 1
        api.post("/api/topics/PRICES/messages", body="later")

    def check_again(address: Address) -> None:
        api = ApiClient(address)
        assert ask(api, exec_(BROKER, "removeTopic", "PRICES"))["status"] == 200
        destroy = exec_(BROKER, "destroyDurableSubscriber", "billing", "gone")
        assert ask(api, destroy)["status"] == 200
        assert read(api, "InactiveDurableTopicSubscribers") == []

    async def main() -> None:
        for what in (check, check_again):
            async with asyncio.timeout(300), BrokerHost(config) as host:
                assert host.health_address is not None
                await asyncio.to_thread(what, host.health_address)
            with jdbcstore.open(config) as store:
                if what is check:
                    kept = store.topic("PRICES").subscription("billing", "gone")
                    assert [message.body for message in kept.recover()] == ["later"]
                else:
                    assert store.destinations() == []

    asyncio.run(main())


def _scaled_and_gathered(api: ApiClient) -> None:
    """What KEDA's scaler and Telegraf's plug-in ask with a login, and read."""
    path = f"/api/jolokia/{quote(str(ASKS['KEDA']), safe='/:=,')}"
    status, found = api.ask("GET", path, headers={"Content-Type": "application/json"})
    assert (status, found["status"], found["value"]) == (200, 200, 1)
    read: dict[str, list[dict[str, Any]]] = {}
    for name, attributes in TELEGRAF.items():
        root = page(api, name)
        assert root.tag == name
        read[name] = []
        for one in root:
            [stats] = one
            assert (one.tag, stats.tag) == (name.removesuffix("s"), "stats")
            texts = {each: one.attrib[each] for each in attributes["names"]}
            read[name].append(texts | {each: int(stats.attrib[each]) for each in attributes["stats"]})
    [orders] = [one for one in read["queues"] if one["name"] == "ORDERS"]
    assert [orders[each] for each in TELEGRAF["queues"]["stats"]] == [1, 0, 1, 0]
    [gone] = read["subscribers"]
    assert (gone["clientId"], gone["subscriptionName"], gone["active"]) == ("billing", "gone", "no")


def test_roles_and_what_a_form_of_another_site_can_send(tmp_path: Path) -> None:
    users = tmp_path / "users.toml"
    for role in ROLES:
        write_user(users, role, hash_password("secret"), role=role)
    browse, purge = exec_(ORDERS, "browse()"), exec_(ORDERS, "purge()")

    def check(address: Address) -> None:
        apis = {role: ApiClient(address, (role, "secret")) for role in ROLES}
        manage = apis["manage"]
        manage.post(queue("ORDERS", "messages"), body="seen by few")
        _scaled_and_gathered(apis["view"])
        assert ApiClient(address).ask("GET", "/api/jolokia")[0] == 401
        assert ApiClient(address).ask("GET", "/admin/xml/queues.jsp")[0] == 401
        found = {role: [ask(api, what)["status"] for what in (browse, purge)] for role, api in apis.items()}
        assert found == {"view": [403, 403], "browse": [200, 403], "manage": [200, 200]}
        everything = [ask(apis["view"], what) for what in ASKS.values()]
        everything += [
            ask(apis["view"], {"type": "list"}),
            ask(apis["view"], {"type": "search", "mbean": "*:*"}),
        ]
        assert "seen by few" not in json.dumps(everything)
        manage.post(queue("ORDERS", "messages"), body="stays")
        kinds: list[dict[str, str | None]] = [
            {"Content-Type": "text/plain"},
            {"Content-Type": "application/x-www-form-urlencoded"},
            {"Content-Type": "application/octet-stream"},
            {"Content-Type": "image/png"},
            {"Content-Type": ""},
            {"Content-Type": None},  # a Blob, an ArrayBuffer, sendBeacon
        ]
        for kind in kinds:
            _, refused = manage.ask("POST", "/api/jolokia", purge, kind)
            assert (refused["status"], "X-Requested-By" in refused["error"]) == (403, True), kind
        own = f"{address.host}:{address.port}"
        for headers in (
            {"Sec-Fetch-Site": "same-site"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Origin": "http://wiki.corp.example"},
            {"Origin": f"http://{address.host}:{address.port + 1}"},
            {"Origin": "null"},
            {"Origin": "http://"},
        ):
            assert manage.ask("POST", "/api/jolokia", purge, {"X-Requested-By": "me", **headers})[0] == 403
            assert manage.ask("POST", queue("ORDERS", "purge"), {}, headers)[0] == 403, headers
        assert manage.ask("POST", "/api/jolokia", browse, {"Origin": f"http://{own}"})[1]["status"] == 200
        # Hawtio's proxy passes on the origin of its own pages.
        hawtio = {"Origin": "https://Hawtio.example", "Sec-Fetch-Site": "same-origin"}
        assert manage.ask("POST", "/api/jolokia", browse, hawtio)[1]["status"] == 200
        assert manage.ask("POST", "/api/jolokia", browse, {"Origin": "http://hawtio.example"})[0] == 403
        by_get = f"/api/jolokia/exec/{ORDERS}/purge()"
        assert manage.ask("GET", by_get)[1]["status"] == 403
        assert manage.ask("GET", by_get, headers={"Sec-Fetch-Site": "cross-site"})[0] == 403
        assert manage.get(queue("ORDERS"))["size"] == 1
        assert manage.ask("GET", by_get, headers={"X-Requested-By": "me"})[1]["status"] == 200
        assert manage.get(queue("ORDERS"))["size"] == 0

    async def main() -> None:
        options = {
            "users_file": str(users),
            "management_origins": "https://hawtio.example, http://10.0.0.7:8080",
        }
        config = configuration(tmp_path, **options)
        with jdbcstore.open(config) as store:
            store.topic("PRICES").subscribe("billing", "gone")
        async with asyncio.timeout(300), BrokerHost(config) as host:
            assert host.health_address is not None
            await asyncio.to_thread(check, host.health_address)

    asyncio.run(main())


@pytest.mark.parametrize("wrong", ["*", "null", "hawtio.example", "https://hawtio.example/hawtio"])
def test_an_origin_that_is_none(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match="management_origins has"):
        BrokerConfig(management_origins=f"https://a.example,{wrong}")


def test_options_in_the_url(tmp_path: Path) -> None:
    """As jolokia.js 2 and Hawtio ask, which take nothing but the type that they have asked for."""

    def check(address: Address) -> None:
        api = ApiClient(address)
        api.post(queue("ORDERS", "messages"), body="x")
        url = f"http://{address.host}:{address.port}/api/jolokia"
        for path, body, kind in (
            ("/version?mimeType=application/json", None, "application/json"),
            ("?mimeType=application/json", b'{"type": "version"}', "application/json"),
            ("?mimeType=text/html", b'{"type": "version"}', "text/plain"),
            ("/version", None, "text/plain"),
        ):
            request = Request(url + path, body, {"Content-Type": "application/json"})  # noqa: S310
            with urlopen(request) as answer:  # noqa: S310
                assert answer.headers.get_content_type() == kind
        where = "/api/jolokia?canonicalNaming=false&ignoreErrors=true"
        [listed] = api.ask("POST", where, {"type": "list", "path": "org.apache.activemq"})[1:]
        assert (
            "type=Broker,brokerName=localhost,destinationType=Queue,destinationName=ORDERS" in listed["value"]
        )
        found = api.ask("POST", where, {"type": "search", "mbean": ORDERS})[1]["value"]
        assert found == [ORDERS]
        read = {"type": "read", "mbean": ORDERS, "attribute": ["QueueSize", "Missing"]}
        value = api.ask("POST", where, read)[1]["value"]
        assert (value["QueueSize"], value["Missing"][:5]) == (1, "ERROR")
        assert api.ask("POST", "/api/jolokia", read)[1]["status"] == 404

    serve(tmp_path, check)


def serve(tmp_path: Path, check: Callable[[Address], None], **broker: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(300), BrokerHost(configuration(tmp_path, **broker)) as host:
            assert host.health_address is not None
            await asyncio.to_thread(check, host.health_address)

    asyncio.run(main())


def test_what_is_read_does_not_grow_with_the_square_of_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[str] = Counter()

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **more: Any) -> Any:
            calls[name] += 1
            return real(*given, **more)

        return call

    for name in ("broker", "connections", "destinations", "subscriptions"):
        monkeypatch.setattr(Views, name, counted(name, getattr(Views, name)))

    def check(address: Address) -> None:
        api = ApiClient(address)
        for number in range(60):
            api.post(queue(f"Q{number}", "messages"), body="x")
        for request in (
            {"type": "list"},
            {"type": "read", "mbean": f"{BROKER},destinationType=Queue,destinationName=*"},
            {"type": "read", "mbean": "*:*"},
            {"type": "search", "mbean": "*:*"},
        ):
            calls.clear()
            assert ask(api, request)["status"] == 200
            assert max(calls.values()) <= 4, (request, calls)
        some, missing = [f"{BROKER},destinationType=Queue,destinationName={one}" for one in ("Q7", "NONE")]
        small = {"type": "list", "config": {"maxDepth": 1}}
        for each in (
            *({"type": "read", "mbean": BROKER, "attribute": "Uptime"}, {"type": "version"}, small),
            *({"type": "read", "mbean": one, "attribute": "QueueSize"} for one in (some, missing)),
            {"type": "read", "mbean": "*:*", "attribute": "None"},
            *(exec_(some, "cursorSize"), exec_(f"{BROKER},service=Health", "healthStatus")),
        ):
            calls.clear()
            assert len(ask(api, [each] * 50)) == 50
            assert max(calls.values(), default=0) <= 4, (each, calls)
        size = {"type": "read", "mbean": some, "attribute": "QueueSize"}
        sent = exec_(some, "sendTextMessage(java.lang.String)", "x")
        found = ask(api, [size, size, sent, size, exec_(some, "purge"), size])
        assert [one["value"] for one in found[:2] + found[3::2]] == [1, 1, 2, 0]
        monkeypatch.setattr("jdbcstore.broker.management.jolokia.MOST_BYTES", 100_000)
        answers = api.ask("POST", "/api/jolokia", [{"type": "list"}] * 20)[1]
        states = [one["status"] for one in answers]
        assert (states[0], states[-1], len(states)) == (200, 400, 20)

    serve(tmp_path, check)


def test_few_requests_have_the_whole_broker_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = most = 0
    real = Views.destinations

    async def watched(self: Views, *given: Any, **more: Any) -> Any:
        nonlocal now, most
        now, most = now + 1, max(most, now + 1)
        for _ in range(500):
            await asyncio.sleep(0)
        now -= 1
        return await real(self, *given, **more)

    monkeypatch.setattr(Views, "destinations", watched)

    def check(address: Address) -> None:
        api = ApiClient(address)
        lists: list[Ask] = [[{"type": "list"}], {"type": "list"}, "list"]
        with ThreadPoolExecutor(12) as pool:
            answers = [*pool.map(lambda number: ask(api, lists[number % 3]), range(24))]
        assert len(answers) == 24
        assert 1 < most <= 4

    serve(tmp_path, check)


def test_facts_about_connectors_dead_letters_and_memory(tmp_path: Path) -> None:
    """A JMS connection is its connector's; each dead letter queue is one; a policy has its own limit."""

    def check(address: Address) -> None:
        api = ApiClient(address)
        by_scheme = {one.partition("://")[0]: one for one in api.get("/api/broker")["addresses"]}
        port = int(by_scheme["tcp"].rpartition(":")[2])
        with OpenWireClient(port, client_id="jms"):
            [name] = ask(api, {"type": "search", "mbean": "*:connectionName=*,*"})["value"]
            assert ("jms" in name, "connectorName=tcp" in name) == (True, True)
        for name in ("DLQ.SMALL", "SMALL"):
            api.post(queue(name, "messages"), body="x")
        found = {
            name: ask(
                api, {"type": "read", "mbean": f"{BROKER},destinationType=Queue,destinationName={name}"}
            )
            for name in ("DLQ.SMALL", "SMALL")
        }
        assert found["DLQ.SMALL"]["value"]["DLQ"] is True
        assert found["SMALL"]["value"]["DLQ"] is False
        assert found["SMALL"]["value"]["MemoryLimit"] == 1_000_000
        wait_until(lambda: api.get("/api/broker")["connections"] == 0)
        broker = ask(api, {"type": "read", "mbean": BROKER})["value"]
        assert (broker["TotalConnectionsCount"], broker["CurrentConnectionsCount"]) == (1, 0)

    serve(
        tmp_path,
        check,
        connectors=(ConnectorConfig(uri="stomp://127.0.0.1:0"), ConnectorConfig(uri="tcp://127.0.0.1:0")),
        policies=(
            PolicyEntry(
                queue="SMALL",
                memory_limit=1_000_000,
                dead_letter_strategy=IndividualDeadLetterStrategy(queue_prefix="DLQ."),
            ),
        ),
    )


PATHS = (
    *("x", "read", "read/" + "a" * 5000, f"exec/{ORDERS}", "read/:/", "read/a:b/c", "list/a/b/c", "read/*:*"),
    *(
        "search/*:*,x",
        "search/*:type=*" + "a*" * 300,
        "version/../x",
        "list?maxDepth=x",
        "read/%00:a=b",
        "read/a:b=c,d=e/f/g/h/i",
        "!!/!/",
    ),
)
BODIES: tuple[Any, ...] = (
    *("x", 1, None, [[]], [None], {"type": []}, {"type": "read", "mbean": []}, {"type": "read"}),
    {"type": "read", "mbean": BROKER, "attribute": 1},
    {"type": "read", "mbean": BROKER, "path": 7},
    {"type": "read", "mbean": BROKER, "path": {"x": []}},
    {"type": "exec", "mbean": BROKER},
    {"type": "list", "path": {}, "config": []},
    {"type": "list", "path": 7},
    {"type": "exec", "mbean": BROKER, "operation": "addQueue", "arguments": {}},
    *(exec_(BROKER, "addQueue", name) for name in ([1], ">", "", "a,b")),
    exec_(ORDERS, "removeMatchingMessages(java.lang.String)", "n >"),
    exec_(ORDERS, "sendTextMessage(java.util.Map,java.lang.String)", 1, 2),
)


def test_wrong_requests_and_names_with_anything(tmp_path: Path) -> None:
    def check(address: Address) -> None:
        api = ApiClient(address)
        for path in PATHS:
            status, found = api.ask("GET", f"/api/jolokia/{path}")
            assert (status, type(found)) == (200, dict), path
        for body in BODIES:
            status, found = api.ask("POST", "/api/jolokia", json.dumps(body).encode())
            assert status == 200, body
        assert api.ask("POST", "/api/jolokia", b"{")[1]["status"] == 400
        for what in ("write/a:b=c/d/1", {"type": "Notification"}):
            unsupported = ask(api, what)
            assert (unsupported["status"], "is not supported: " in unsupported["error"]) == (501, True)
        assert ask(api, [{"type": "version"}] * 1001)["status"] == 400
        odd = 'a/b:c="d"*é <&>'
        api.post(queue(odd, "messages"), body="x")
        [name] = ask(api, {"type": "search", "mbean": "*:destinationName=a/*,*"})["value"]
        assert ask(api, {"type": "read", "mbean": name, "attribute": "Name"})["value"] == odd
        [one] = [each for each in page(api, "queues") if each.get("name") == odd]
        numbers = {"size": "1", "consumerCount": "0", "enqueueCount": "1", "dequeueCount": "0"}
        assert one[0].attrib == numbers
        [gone] = page(api, "subscribers")
        names = [gone.get(name) for name in ("clientId", "subscriptionName", "destinationName", "active")]
        assert (names, gone[0].get("pendingQueueSize")) == (["billing", "gone", "PRICES", "no"], "0")
        assert page(api, "topics")[0].get("name") == "PRICES"
        assert ask(api, exec_(GONE, "destroy()"))["status"] == 200

    config = configuration(tmp_path)
    with jdbcstore.open(config) as store:
        store.topic("PRICES").subscribe("billing", "gone")

    async def main() -> None:
        async with asyncio.timeout(300), BrokerHost(config) as host:
            assert host.health_address is not None
            await asyncio.to_thread(check, host.health_address)

    asyncio.run(main())
