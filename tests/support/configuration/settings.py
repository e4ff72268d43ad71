"""Every setting of an ``activemq.xml`` and of a ``broker.xml``, and what the code does with it.

``python -m tests.support.configuration.settings`` writes docs/guide/settings.csv: it puts each setting into a
file by itself, loads that, and asks for the notes.
``--schemas`` first reads the names again from the schemas in the jars of Debian's ActiveMQ and of Artemis.
"""

from __future__ import annotations

import csv
import io
import json
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

from jdbcstore.config import Configuration, Kind, Note, load_file
from jdbcstore.config.fates import FATES, names_of
from jdbcstore.config.xml import read_plugin_users
from jdbcstore.config.xml.file_stores import TAKEN
from jdbcstore.errors import ConfigurationError
from tests.support import ROOT

DATA = ROOT / "docs" / "guide" / "settings.csv"
SCHEMAS = Path(__file__).with_name("schemas.json")
JARS = {
    "activemq": ("/usr/share/activemq/lib/optional/activemq-spring.jar", "activemq.xsd"),
    "artemis": (str(ROOT / ".build/artemis/artemis-server.jar"), "schema/artemis-configuration.xsd"),
}
"""The jars with the schemas, and the names of these."""
_XS = "{http://www.w3.org/2001/XMLSchema}"

_BROKER = "<broker>{}</broker>"
_ENTRY = _BROKER.format(
    "<destinationPolicy><policyMap><policyEntries>{}</policyEntries></policyMap></destinationPolicy>"
)
_STORE = _BROKER.format("<persistenceAdapter>{}</persistenceAdapter>")
_LOCKER = _STORE.format("<jdbcPersistenceAdapter><locker>{}</locker></jdbcPersistenceAdapter>")
_PLUGIN = _BROKER.format("<plugins>{}</plugins>")
_USAGE = _BROKER.format("<systemUsage><systemUsage>{}</systemUsage></systemUsage>")
_TLS = (
    "<sslContext>{}</sslContext><transportConnectors>"
    '<transportConnector uri="ssl://127.0.0.1:1"/></transportConnectors>'
)
_REDELIVERY = (
    "<redeliveryPlugin><redeliveryPolicyMap><redeliveryPolicyMap><redeliveryPolicyEntries>{}"
    "</redeliveryPolicyEntries></redeliveryPolicyMap></redeliveryPolicyMap></redeliveryPlugin>"
)
_VIRTUAL = _BROKER.format(
    "<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>"
    "{}</virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>"
)


def _in(context: str, *elements: str, needed: str = "") -> dict[str, tuple[str, str]]:
    return dict.fromkeys(elements, (context, needed))


def _in_entry(name: str, *elements: str, needed: str = "") -> dict[str, tuple[str, str]]:
    context = _ENTRY.format(f'<policyEntry queue="Q"><{name}>{{}}</{name}></policyEntry>')
    return _in(context, *elements, needed=needed)


def _in_broker(name: str, *elements: str) -> dict[str, tuple[str, str]]:
    return _in(_BROKER.format(f"<{name}>{{}}</{name}>"), *elements)


_RECOVERY = ("fixedCount", "fixedSized", "timed", "lastImage", "no", "retainedMessage")
_PLUGINS = (
    *("connectionDotFile", "destinationDotFile", "destinationPathSeparator", "destinations"),
    *("discardingDLQBroker", "forcePersistencyModeBroker", "loggingBroker", "multicastTraceBroker"),
    *("partitionBroker", "redelivery", "runtimeConfiguration", "statisticsBroker", "timeStampingBroker"),
    *("traceBrokerPath", "udpTraceBroker", "virtualSelectorCacheBroker", "simpleAuthentication"),
    *("jaasAuthentication", "jaasCertificateAuthentication", "jaasDualAuthentication"),
)
CONTEXTS: Mapping[str, tuple[str, str]] = {
    "broker": ("{}", ""),
    **_in(_STORE, "jdbcPersistenceAdapter", "journaledJDBC", "journalPersistenceAdapterFactory"),
    **_in(_STORE, "journalPersistenceAdapter", "kahaDB", "memoryPersistenceAdapter"),
    **_in(_LOCKER, "database-locker", "lease-database-locker", "shared-file-locker"),
    **_in(_LOCKER, "transact-database-locker"),
    **_in_broker("ioExceptionHandler", "defaultIOExceptionHandler", "leaseLockerIOExceptionHandler"),
    **_in_broker("ioExceptionHandler", "jDBCIOExceptionHandler"),
    "policyEntry": (_ENTRY, 'queue="Q"'),
    **_in_entry("deadLetterStrategy", "sharedDeadLetterStrategy", "individualDeadLetterStrategy"),
    **_in_entry("deadLetterStrategy", "discarding"),
    **_in_entry("subscriptionRecoveryPolicy", *(f"{one}SubscriptionRecoveryPolicy" for one in _RECOVERY)),
    **_in_entry("subscriptionRecoveryPolicy", "queryBasedSubscriptionRecoveryPolicy",
                needed='query="package.module:Class"'),
    **_in_entry("slowConsumerStrategy", "abortSlowConsumerStrategy", "abortSlowAckConsumerStrategy"),
    **_in_entry("messageEvictionStrategy", "oldestMessageEvictionStrategy"),
    **_in_entry("messageEvictionStrategy", "oldestMessageWithLowestPriorityEvictionStrategy"),
    **_in_entry("messageEvictionStrategy", "uniquePropertyMessageEvictionStrategy"),
    **_in_entry(
        "pendingMessageLimitStrategy", "constantPendingMessageLimitStrategy", needed='limit="9"'
    ),
    **_in_entry("pendingMessageLimitStrategy", "prefetchRatePendingMessageLimitStrategy"),
    **_in_entry("dispatchPolicy", "roundRobinDispatchPolicy", "strictOrderDispatchPolicy"),
    **_in_entry("dispatchPolicy", "simpleDispatchPolicy", "priorityDispatchPolicy"),
    **_in_entry("dispatchPolicy", "priorityNetworkDispatchPolicy", "clientIdFilterDispatchPolicy"),
    **_in_entry("pendingQueuePolicy", "storeCursor", "fileQueueCursor", "vmQueueCursor"),
    **_in_entry("pendingDurableSubscriberPolicy", "storeDurableSubscriberCursor", "vmDurableCursor"),
    **_in_entry("pendingDurableSubscriberPolicy", "fileDurableSubscriberCursor"),
    **_in_entry("pendingSubscriberPolicy", "fileCursor", "vmCursor"),
    **_in(_PLUGIN, *(f"{one}Plugin" for one in _PLUGINS)),
    **_in(_PLUGIN.format(_REDELIVERY), "redeliveryPolicy", needed='queue="Q"'),
    **_in(_BROKER.format("<transportConnectors>{}</transportConnectors>"), "transportConnector",
          needed='uri="tcp://127.0.0.1:1"'),
    **_in(_BROKER.format(_TLS), "sslContext", needed='keyStore="x.ks"'),
    **_in_broker("systemUsage", "systemUsage"),
    **_in(_USAGE.format("<memoryUsage>{}</memoryUsage>"), "memoryUsage"),
    **_in(_USAGE.format("<storeUsage>{}</storeUsage>"), "storeUsage"),
    **_in(_USAGE.format("<tempUsage>{}</tempUsage>"), "tempUsage"),
    **_in(_VIRTUAL, "virtualTopic"),
    **_in(_VIRTUAL, "compositeQueue", "compositeTopic", needed='name="Q"'),
    **_in(_VIRTUAL.format('<compositeQueue name="Q"><forwardTo>{}</forwardTo></compositeQueue>'),
          "filteredDestination", needed='queue="R"'),
    **_in_broker("destinationInterceptors", "mirroredQueue"),
    **_in_broker("networkConnectors", "networkConnector"),
    **_in_broker("jmsBridgeConnectors", "jmsQueueConnector", "jmsTopicConnector"),
    **_in_broker("proxyConnectors", "proxyConnector"),
}  # fmt: skip
"""Where each element of an activemq.xml is, with an attribute that it needs."""
_SINCE_5_18 = {
    "broker": ("maxUncommittedCount", "maxInflatedDataSize", "virtualThreadTaskRunner"),
    "policyEntry": (
        "advisoryForDispatched",
        "advancedMessageStatisticsEnabled",
        "advancedNetworkStatisticsEnabled",
        "allowTempDestinationStealing",
        "messageInterceptorStrategy",
    ),
}
"""Attributes that the schema of 5.17.2 does not have."""
_VALUES = ("true", "5", "5 mb", "always", "sparse_file", "none", "cached", "false", "x")
_CONTENTS = ("false", "true", "5", "10M", "1000", "<x/>", "BLOCK", "DAYS", "OFF", "KILL", "MESSAGES_PER_HOUR")
_ELSEWHERE = frozenset(
    (
        *("destinationPolicy", "systemUsage", "sslContext", "plugins", "persistenceAdapter"),
        *("destinationInterceptors", "ioExceptionHandler", "transportConnectors"),
        *("acceptors", "address-settings", "addresses", "queues", "diverts", "broker-plugins"),
        *("security-settings", "security-enabled", "store", "wildcard-addresses", "ha-policy"),
    )
)
"""Elements with tables of their own, or that the guide explains."""
_OLD_STORES = ("levelDB", "replicatedLevelDB", "amqPersistenceAdapter", "mKahaDB")
"""Elements of stores that the schema does not have; the guide has the names of their folders and files."""
_ALONE = ("transportConnector", "sslContext", "filteredDestination")
"""Elements whose file has notes of others."""
_OF_THE_WHOLE = (Kind.REFUSED, Kind.IGNORED, Kind.UNSUPPORTED)
_CORE = "<configuration><core>{}</core></configuration>"
_OF_ARTEMIS = {
    "core": (_CORE, "configurationType"),
    "address-setting": (
        _CORE.format(
            '<address-settings><address-setting match="Q"><dead-letter-address>D</dead-letter-address>'
            "<max-size-bytes>9</max-size-bytes><slow-consumer-threshold>1</slow-consumer-threshold>"
            "<auto-create-dead-letter-resources>true</auto-create-dead-letter-resources>{}"
            "</address-setting></address-settings>"
        ),
        "addressSettingType",
    ),
}
_QUEUE = _CORE.format(
    '<addresses><address name="Q"><anycast><queue name="Q" {}/></anycast></address></addresses>'
)
_ACCEPTOR = _CORE.format("<acceptors><acceptor>tcp://h:1?protocols=STOMP;{}=1</acceptor></acceptors>")


def schemas() -> dict[str, dict[str, list[str]]]:
    """Read the names of all elements and attributes from the schemas."""
    found: dict[str, dict[str, list[str]]] = {"activemq": {}, "artemis": {}}
    for element in _schema("activemq").findall(f"{_XS}element"):
        inner = {one.get("name") for one in element.iter(f"{_XS}element")}
        attributes = [str(one.get("name")) for one in element.iter(f"{_XS}attribute")]
        scalars = [name for name in attributes if name not in inner and name not in ("id", "None")]
        found["activemq"][str(element.get("name"))] = sorted(scalars)
    broker = _schema("activemq").find(f"{_XS}element[@name='broker']")
    assert broker is not None
    elements = {str(one.get("name")) for one in broker.iter(f"{_XS}element") if one.get("name")}
    found["activemq"]["broker"] = sorted({*found["activemq"]["broker"], *elements} - {"broker"})
    for name, more in _SINCE_5_18.items():
        found["activemq"][name] = sorted({*found["activemq"][name], *more})
    types = {one.get("name"): one for one in _schema("artemis").findall(f"{_XS}complexType")}
    for name, (_, kind) in _OF_ARTEMIS.items():
        children = types[kind].findall(f"{_XS}all/*") + types[kind].findall(f"{_XS}sequence/*")
        names = {str(one.get("name") or one.get("ref")) for one in children} - {"None"}
        found["artemis"][name] = sorted(names)
    queue = {str(one.get("name")) for one in types["queueType"].iter(f"{_XS}attribute")}
    found["artemis"]["queue"] = sorted(queue - {"name", "None"})
    return found


def _schema(which: str) -> ElementTree.Element:
    jar, name = JARS[which]
    with zipfile.ZipFile(jar) as opened:
        return ElementTree.fromstring(opened.read(name))  # noqa: S314 - a file of a package


def fates() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each element, and what becomes of its attributes, or of it."""
    names = json.loads(SCHEMAS.read_text())
    with tempfile.TemporaryDirectory() as folder:
        for element, (context, needed) in CONTEXTS.items():
            path = Path(folder) / "activemq.xml"
            bare = context.replace("{}", f"<{element} {needed}/>")
            itself = _fate(path, element, bare, bare)
            rows = [] if element == "broker" else [("", itself)]
            # An element that is not supported as a whole has no supported attributes.
            is_supported = itself.startswith("supported")
            for name in names["activemq"].get(element, []) if is_supported else ():
                if needed.startswith(f"{name}="):
                    rows.append((name, "supported"))
                    continue
                rows.append((name, _fate_of_attribute(path, context, element, needed, name)))
            yield element, rows
        path = Path(folder) / "broker.xml"
        for element, (context, _) in _OF_ARTEMIS.items():
            bare = context.replace("{}", "")
            yield (
                f"{element} of broker.xml",
                [(name, _fate_of_element(path, context, bare, name)) for name in names["artemis"][element]],
            )
        yield (
            "queue of broker.xml",
            [
                (
                    name,
                    _first(
                        path,
                        name,
                        [_QUEUE.replace("{}", f'{name}="{value}"') for value in _VALUES],
                        _QUEUE.replace("{}", ""),
                    ),
                )
                for name in names["artemis"]["queue"]
            ],
        )
        yield (
            "acceptor of broker.xml",
            [
                (name, _first(path, name, [_ACCEPTOR.replace("{}", name)], _ACCEPTOR.replace(";{}=1", "")))
                for name in sorted(names_of("acceptor"))
            ],
        )


def _fate_of_attribute(path: Path, context: str, element: str, needed: str, name: str) -> str:
    bare = context.replace("{}", f"<{element} {needed}/>")
    texts = [context.replace("{}", f'<{element} {needed} {name}="{value}"/>') for value in _VALUES]
    texts.append(context.replace("{}", f"<{element} {needed}><{name}><x/></{name}></{element}>"))
    return _first(path, name, texts, bare)


def _fate_of_element(path: Path, context: str, bare: str, name: str) -> str:
    texts = [context.replace("{}", f"<{name}>{content}</{name}>") for content in _CONTENTS]
    return _first(path, name, texts, bare)


def _first(path: Path, name: str, texts: list[str], bare: str) -> str:
    """Return the fate of the first text that says something."""
    if name in _ELSEWHERE:
        return "supported"
    return next((fate for text in texts if (fate := _fate(path, name, text, bare))), "")


def _fate(path: Path, name: str, text: str, bare: str) -> str:
    """Return what becomes of a setting; "" if nothing is said of it."""
    try:
        loaded = _loaded(path, text)
    except ConfigurationError as error:
        return _fate_of_error(error)
    notes = [note for note in loaded.notes if note.place.rpartition(", ")[2] == name]
    if not notes and text == bare and name not in _ALONE:
        notes = [note for note in loaded.notes if note.kind in _OF_THE_WHOLE]
    if notes and notes[0].kind is Kind.DANGEROUS and loaded.broker.users_file is not None:
        return f"refused: {notes[0].text}"
    if notes:
        return _told(notes[0])
    sources = [option for option, place in loaded.sources.items() if place.rpartition(", ")[2] == name]
    if sources:
        return f"supported: {_plain(sources[0])}"
    if loaded.broker.users_file is not None:
        return _fate_of_users(path, name)
    return "supported" if text == bare or loaded != _loaded(path, bare) else ""


def _fate_of_error(error: ConfigurationError) -> str:
    if "give either queue or topic" in str(error) or "write two" in str(error):
        return "supported"  # the other one is there, too
    is_wrong_value = any(word in str(error) for word in (" must be ", "is not a destination"))
    return "" if is_wrong_value else f"refused: {error.args[0]}"


def _fate_of_users(path: Path, name: str) -> str:
    try:
        read_plugin_users(path, {})
    except ConfigurationError as error:
        if "login.config" not in str(error):
            return f"refused: {error.args[0]}" if name in str(error) else ""
    return "supported"


def _loaded(path: Path, text: str) -> Configuration:
    path.write_text(text)
    return load_file(path, {})


_FATES = {
    Kind.IGNORED: "no effect",
    Kind.UNSUPPORTED: "not supported",
    Kind.DANGEROUS: "not supported",
    Kind.REFUSED: "refused",
    Kind.UNKNOWN: "unknown",
    Kind.MISSING: "missing",
}


def _told(note: Note) -> str:
    return f"{_FATES[note.kind]}: {note.text}"


def _plain(option: str) -> str:
    """Return the path of an option without the numbers of sections."""
    return ".".join(part.partition("[")[0] for part in option.split(".")).replace("broker.", "")


def rows() -> list[tuple[str, str, str, str, str]]:
    """Return each setting: its file, its element, its name, its fate, and the option or the reason."""
    found = []
    for element, settings in fates():
        name, _, file = element.partition(" of ")
        for setting, told in settings:
            fate, _, why = told.partition(": ")
            found.append((file or "activemq.xml", name, setting, fate, why))
    for element in _OLD_STORES:
        taken = {name: ("supported", option) for name, option in TAKEN.get(element, {}).items()}
        others = {name: (_FATES[fate.kind], fate.reason) for name in names_of(element)
                  for fate in (FATES[element, name],)}  # fmt: skip
        found += [("activemq.xml", element, name, *its) for name, its in sorted({**taken, **others}.items())]
    return found


def data(found: list[tuple[str, str, str, str, str]]) -> str:
    """Return the whole list as CSV."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(("file", "element", "setting", "fate", "supported as, or reason"))
    writer.writerows(found)
    return buffer.getvalue()


if __name__ == "__main__":
    if "--schemas" in sys.argv:
        SCHEMAS.write_text(json.dumps(schemas(), indent=1, sort_keys=True) + "\n")
    today = rows()
    DATA.write_text(data(today))
