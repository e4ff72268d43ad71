"""What ``jdbcstore broker`` takes of ActiveMQ's: connectors, and the limits of ``systemUsage``."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qsl

from jdbcstore.config.broker import STOMP, STOMP_TLS
from jdbcstore.config.given import Given, Kind, Section
from jdbcstore.config.xml.beans import Bean, Document, Value

_SCHEMES = {STOMP: STOMP, "stomp+nio": STOMP, STOMP_TLS: STOMP_TLS, "stomp+nio+ssl": STOMP_TLS}
_OPTIONS = {
    "maximumConnections": "maximumConnections",
    "maxFrameSize": "maxFrameSize",
    "maxDataLength": "maxFrameSize",
    "connectAttemptTimeout": "connectAttemptTimeout",
    "needClientAuth": "needClientAuth",
}
"""Of a connector's URI, behind ``transport.`` and ``wireFormat.`` or without."""
_REASONS = {
    "discoveryUri": "jdbcstore has no networks of brokers",
    "updateClusterClients": "STOMP tells clients nothing of other brokers",
    "rebalanceClusterClients": "STOMP tells clients nothing of other brokers",
    "updateClusterClientsOnRemove": "STOMP tells clients nothing of other brokers",
    "enableStatusMonitor": "a slow connection is held back, and nothing is told of it",
    "disableAsyncDispatch": "it tunes ActiveMQ's own threads",
    "auditNetworkProducers": "jdbcstore has no networks of brokers",
}
_LIMITS = {"memoryUsage": "memoryLimit", "tempUsage": "tempLimit"}
_NO_LIMITS = {
    "storeUsage": "the database says when it is full",
    "jobSchedulerUsage": "jdbcstore delivers nothing by a schedule",
    "sendFailIfNoSpace": "set it in a policyEntry",
    "sendFailIfNoSpaceAfterTimeout": "set it in a policyEntry",
}
_NO_KEYSTORE = (
    "Java's key stores are not read: export the certificate and its key as PEM files, and name them"
    " certificate and private_key of the connector"
)


def read_connectors(document: Document, value: Value) -> Iterator[Section]:
    """A section for each connector of STOMP."""
    for bean in document.beans(value):
        uri = bean.values.get("uri")
        if uri is None:
            raise document.wrong(bean.line, "a transportConnector needs a uri", "transportConnector")
        given = document.scalar("uri", uri)
        section = _read_uri(document, given, uri.line)
        if section is None:
            continue
        for name, inner in bean.values.items():
            if name == "name":
                section["name"] = document.scalar(name, inner)
            elif name != "uri":
                document.tell(bean, name, inner, _REASONS)
        yield section


def _read_uri(document: Document, given: Given, line: int) -> Section | None:
    """The address, and the options behind its ``?``; None for another protocol."""
    if given.problem is not None:
        return {"uri": given}
    address, _, query = str(given.value).partition("?")
    scheme, _, rest = address.partition("://")
    ours = _SCHEMES.get(scheme)
    if ours is None:
        told = f"clients of {scheme} cannot connect: jdbcstore speaks STOMP, at {STOMP}:// and {STOMP_TLS}://"
        document.note(Kind.IGNORED, line, "uri", told)
        return None
    section: Section = {"uri": Given(f"{ours}://{rest.rstrip('/')}", given.place, text=True)}
    for key, text in parse_qsl(query, keep_blank_values=True):
        name = key.rpartition(".")[2]
        if name in _OPTIONS:
            section[_OPTIONS[name]] = Given(text, given.place, text=True, theirs=True)
        else:
            document.note(Kind.IGNORED, line, key, "the connector of jdbcstore has no such option")
    if ours == STOMP_TLS:
        # Complete only with files that no activemq.xml names; told where the connector is made.
        document.note(Kind.MISSING, line, "uri", f"{address} is left out: {_NO_KEYSTORE}")
        return None
    return section


def read_usage(document: Document, value: Value) -> Section:
    """The options of the broker that ``systemUsage`` sets."""
    section: Section = {}
    for usage in document.beans(value):
        for name, inner in usage.values.items():
            if name in _LIMITS:
                for bean in document.beans(inner):
                    _take_limit(document, bean, section, _LIMITS[name])
            else:
                document.tell(usage, name, inner, _NO_LIMITS, ("memory_usage", "temp_usage"))
    return section


def _take_limit(document: Document, bean: Bean, section: Section, option: str) -> None:
    for name, value in bean.values.items():
        if name == "limit":
            section[option] = document.scalar(name, value)
        elif name.startswith("percent"):
            text = f"a share of Java's memory, or of a disk, is no bound here: give {bean.kind} a limit"
            document.note(Kind.IGNORED, value.line, name, text)
        else:
            document.tell(bean, name, value, {"name": "it is only shown by ActiveMQ's JMX"}, ("limit",))


def tell_tls(document: Document, value: Value) -> None:
    document.note(Kind.IGNORED, value.line, "sslContext", _NO_KEYSTORE)
