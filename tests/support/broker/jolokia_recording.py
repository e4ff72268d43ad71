"""Records the answers of a real ActiveMQ behind the real Jolokia, of Debian's packages activemq and
libjolokia-core-java, to what :mod:`tests.support.broker.jolokia` asks:

    python -m tests.support.broker.jolokia_recording
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jpype

from tests.support import ROOT
from tests.support.broker.jolokia import ASKS, Ask

RECORDED = ROOT / "tests" / "fixtures" / "jolokia.json"
_JAVA = Path("/usr/share/java")
_JARS = [
    *map(str, Path("/usr/share/activemq/lib").glob("*.jar")),
    *(str(_JAVA / f"{name}.jar") for name in ("jolokia-core", "json-simple", "slf4j-simple", "jaxb-api")),
]
_LEFT_OUT = ("stacktrace", "DataDirectory")
"""They say where it was recorded."""


class _Agent:
    """Jolokia on the MBeans of this machine's Java."""

    def __init__(self) -> None:
        key = jpype.JClass("org.jolokia.config.ConfigKey")
        named = jpype.JArray(jpype.JObject)([key.AGENT_ID, jpype.JString("recorded")])
        configuration = jpype.JClass("org.jolokia.config.Configuration")(named)
        log = jpype.JProxy("org.jolokia.util.LogHandler", dict.fromkeys(("debug", "info", "error"), print))
        backend = jpype.JClass("org.jolokia.backend.BackendManager")(configuration, log)
        self._handler = jpype.JClass("org.jolokia.http.HttpRequestHandler")(configuration, backend, log)

    def ask(self, what: Ask) -> Any:
        parameters = jpype.JClass("java.util.HashMap")()
        try:
            if isinstance(what, str):
                answer = self._handler.handleGetRequest(f"/api/jolokia/{what}", what, parameters)
            else:
                data = jpype.JString(json.dumps(what)).getBytes("UTF-8")
                stream = jpype.JClass("java.io.ByteArrayInputStream")(data)
                answer = self._handler.handlePostRequest("/api/jolokia", stream, "UTF-8", parameters)
        except jpype.JException as error:
            answer = self._handler.handleThrowable(error)
        return json.loads(str(answer.toJSONString()))


def _without_traces(found: Any) -> Any:
    if isinstance(found, list):
        return [_without_traces(one) for one in found]
    if isinstance(found, dict):
        return {name: _without_traces(value) for name, value in found.items() if name not in _LEFT_OUT}
    return found


def main() -> None:
    jpype.startJVM("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", classpath=_JARS)
    broker = jpype.JClass("org.apache.activemq.broker.BrokerService")()
    broker.setBrokerName("localhost")
    broker.setPersistent(False)
    broker.setAdvisorySupport(False)
    broker.getManagementContext().setCreateConnector(False)
    broker.start()
    factory = jpype.JClass("org.apache.activemq.ActiveMQConnectionFactory")("vm://localhost?create=false")
    connection = factory.createConnection()
    connection.setClientID("billing")
    connection.start()
    session = connection.createSession(False, 1)
    producer = session.createProducer(session.createQueue("ORDERS"))
    for number in range(3):
        message = session.createTextMessage(f"order {number}")
        message.setIntProperty("table", number)
        message.setStringProperty("colour", "red")
        message.setJMSCorrelationID("c1")
        message.setJMSType("order")
        producer.send(message)
    topic = session.createTopic("PRICES")
    audit = session.createDurableSubscriber(topic, "audit")
    session.createDurableSubscriber(topic, "gone").close()
    session.createProducer(topic).send(session.createTextMessage("a price"))
    audit.receive(10_000)
    agent = _Agent()
    answers = {name: _without_traces(agent.ask(what)) for name, what in ASKS.items()}
    listed = agent.ask("list/org.apache.activemq")["value"]
    answers["list"] = {
        name: {"attr": sorted(one["attr"]), "op": sorted(one["op"])}
        for name, one in listed.items()
        if "endpoint" not in name and "destinationName=NEW" not in name
    }
    RECORDED.write_text(json.dumps(answers, indent=1, sort_keys=True) + "\n")
    connection.close()
    broker.stop()


if __name__ == "__main__":
    main()
