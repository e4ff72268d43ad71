"""Artemis's acceptors as connectors: their protocols, their limits, and their TLS."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from urllib.parse import unquote

from jdbcstore.config.broker import AUTO, AUTO_TLS, OPENWIRE, OPENWIRE_TLS, STOMP, STOMP_TLS
from jdbcstore.config.fates import FATES
from jdbcstore.config.given import Given, Kind, Section
from jdbcstore.config.xml.beans import Document, Element

_OURS = {
    (True, True): (AUTO, AUTO_TLS),
    (True, False): (OPENWIRE, OPENWIRE_TLS),
    (False, True): (STOMP, STOMP_TLS),
}
"""Schemes without and with TLS, by whether OpenWire and STOMP are served."""
_ALL = ("CORE", "AMQP", "STOMP", "HORNETQ", "MQTT", "OPENWIRE")
_HOSTS = ("tcp", "netty")
_DIRECT = {
    "connectionsAllowed": "maximumConnections",
    "maxInactivityDuration": "maxInactivityDuration",
    "needClientAuth": "needClientAuth",
    "maxFrameSize": "maxFrameSize",
    "handshake-timeout": "connectAttemptTimeout",
    **dict.fromkeys(
        (
            *("minLargeMessageSize", "stompMinLargeMessageSize", "openwireMinLargeMessageSize"),
            "stomp-min-large-message-size",
        ),
        "minLargeMessageSize",
    ),
    "useKeepAlive": "useInactivityMonitor",
}
"""Parameters that are options of a connector with another name, or the same."""
_TLS = (
    *("sslEnabled", "keyStorePath", "keyStorePassword", "keyStoreType", "keyStoreProvider", "keyStoreAlias"),
    *("trustStorePath", "trustStorePassword", "trustStoreType", "trustStoreProvider", "wantClientAuth"),
)
_TAKEN = frozenset((*_DIRECT, *_TLS, "protocols", "protocol", "host", "port", "autoStart"))

Reveal = Callable[[Element, str], str]
"""Returns a password that may be masked."""


def read_acceptors(document: Document, core: Element, reveal: Reveal) -> Iterator[Section]:
    """Yield a section for each acceptor that clients of STOMP or OpenWire can connect to."""
    for outer in core.children:
        for element in outer.children if outer.name == "acceptors" else ():
            if element.name == "acceptor":
                section = _read_acceptor(document, element, reveal)
                if section is not None:
                    yield section


def _read_acceptor(document: Document, element: Element, reveal: Reveal) -> Section | None:
    name = element.attributes.get("name", "")
    address, parameters = _parsed(document, element)
    scheme, _, host = address.partition("://")
    if scheme not in _HOSTS:
        document.ignore(element, f"clients in the same Java process cannot connect: {scheme}", name)
        return None
    if parameters.get("autoStart", "").lower() == "false":
        document.ignore(element, "its autoStart is false, and there is nothing that starts it later", name)
        return None
    given = parameters.get("protocols") or parameters.get("protocol") or ",".join(_ALL)
    protocols = {part.strip().upper() for part in given.split(",")}
    others = sorted(protocols - {"OPENWIRE", "STOMP"})
    schemes = _OURS.get(("OPENWIRE" in protocols, "STOMP" in protocols))
    if schemes is None:
        text = f"clients of {', '.join(others)} cannot connect: jdbcstore speaks STOMP and OPENWIRE"
        document.note(Kind.UNSUPPORTED, element, text, name)
        return None
    if others:
        document.ignore(element, f"clients of {', '.join(others)} cannot connect", name)
    is_tls = parameters.get("sslEnabled", "").lower() == "true"
    place = document.place(element)
    section: Section = {"uri": Given(f"{schemes[is_tls]}://{host.rstrip('/')}", place, text=True)}
    if name:
        section["name"] = Given(name, place)
    for key, text in parameters.items():
        if key in _DIRECT and text != "-1":
            section[_DIRECT[key]] = Given(text, place, text=True, activemq_units=True)
        elif key not in _TAKEN:
            _report(document, element, key, text)
    if is_tls:
        section |= _read_tls(document, element, parameters, reveal)
    return section


def _report(document: Document, element: Element, key: str, text: str) -> None:
    fate = FATES.get(("acceptor", key))
    if fate is not None:
        document.tell(element, fate, text, key)
    elif not text.startswith("${"):
        text = f"unknown parameter {key!r} of an acceptor, which may decide who is let in"
        document.refuse(element, f"{text}; correct it or remove it", key)


def _parsed(document: Document, element: Element) -> tuple[str, dict[str, str]]:
    """Return the address of an acceptor, and its parameters, as elements or in the URI."""
    text = document.text(element, element.text)
    parameters = {
        child.attributes.get("key", ""): document.text(child, child.attributes.get("value", ""))
        for child in element.children
        if child.name == "param"
    }
    address, _, query = text.partition("?")
    for part in filter(None, map(str.strip, re.split("[;&]", query))):
        key, _, value = part.partition("=")
        parameters[key.strip()] = unquote(value.strip())
    if not address:
        address = f"tcp://{parameters.get('host', 'localhost')}:{parameters.get('port', '61616')}"
    return address, parameters


def _read_tls(document: Document, element: Element, parameters: dict[str, str], reveal: Reveal) -> Section:
    """Read the key store with the certificate, and the one with the authorities."""
    place = document.place(element)
    section: Section = {}
    pairs = {
        ("keyStorePath", "keyStorePassword"): ("certificate", "certificatePassword"),
        ("trustStorePath", "trustStorePassword"): ("trustedCertificates", "trustedCertificatesPassword"),
    }
    for (path, password), (option, of_option) in pairs.items():
        if parameters.get(path):
            section[option] = Given(str(document.path.parent / parameters[path]), place)
        if parameters.get(password):
            section[of_option] = Given(reveal(element, parameters[password]), place)
    return section
