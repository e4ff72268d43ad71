"""The ``database-store`` of Artemis: where its database is. Its tables are not ActiveMQ Classic's."""

from __future__ import annotations

from jdbcstore.config.given import Given, Kind, Section
from jdbcstore.config.locker import LeaseDatabaseLockerConfig
from jdbcstore.config.reasons import DATA_SOURCE, DRIVER_CLASS
from jdbcstore.config.xml.beans import Document
from jdbcstore.config.xml.document import Element

_TAKEN = {
    "jdbc-connection-url": "url",
    "jdbc-user": "user",
    "jdbc-password": "password",
    "jdbc-network-timeout": "networkTimeout",
}
_PROPERTIES = {
    "url": "url",
    "jdbcUrl": "url",
    "username": "user",
    "user": "user",
    "password": "password",
}
_LEASE = {
    "jdbc-lock-expiration": ("lockAcquireSleepInterval", 20_000),
    "jdbc-lock-renew-period": ("lockKeepAlivePeriod", 4_000),
    "jdbc-allowed-time-diff": ("maxAllowableDiffFromDBTime", 250),
}
"""Of Artemis's lease, with its defaults in milliseconds."""
_TABLE = (
    "Artemis's tables have another layout; jdbcstore makes ActiveMQ Classic's beside them and reads no other"
)
_IGNORED = {
    **dict.fromkeys(
        ("bindings-table-name", "message-table-name", "large-message-table-name", "page-store-table-name",
         "node-manager-store-table-name"),
        _TABLE,
    ),
    "jdbc-journal-sync-period": "a send returns when the database has committed, and is not put off",
    "jdbc-lock-acquisition-timeout": "no lock is taken yet; Artemis itself waits without end",
    "jdbc-max-page-size-bytes": "pages are as long as their reader asks for",
    **dict.fromkeys(("jdbc-driver-class-name", "data-source-class-name"), DRIVER_CLASS),
}  # fmt: skip


def is_artemis(root: Element) -> bool:
    return any(element.name in ("database-store", "core") for element in root.all())


def read_artemis(document: Document) -> Section:
    """The sections of a ``broker.xml``.

    :raises ConfigurationError: its messages are in files
    """
    stores = [element for element in document.root.all() if element.name == "database-store"]
    if not stores:
        problem = "this Artemis keeps its messages in files; name a database with --url or JDBCSTORE_URL"
        return {"url": Given(None, document.place(document.root.line), problem=problem)}
    section: Section = {}
    for element in stores[0].children:
        _take(document, element, section)
    section["locker"] = _read_lease(document, stores[0])
    text = f"{_TABLE}: move messages by sending them again, from one broker to the other"
    document.note(Kind.DANGEROUS, stores[0].line, "database-store", text)
    _take_core(document, section)
    return section


def _take(document: Document, element: Element, section: Section) -> None:
    if element.name in _TAKEN:
        section[_TAKEN[element.name]] = document.given(element.line, element.name, element.text)
    elif element.name == "data-source-properties":
        for one in element.children:
            _take_property(document, one, section)
    elif element.name in _IGNORED:
        document.note(Kind.IGNORED, element.line, element.name, _IGNORED[element.name])
    elif element.name not in _LEASE:
        text = "jdbcstore does not know this element of database-store, and does not use it"
        document.note(Kind.UNKNOWN, element.line, element.name, text)


def _take_property(document: Document, element: Element, section: Section) -> None:
    key, value = element.attributes.get("key", ""), element.attributes.get("value", "")
    if key in _PROPERTIES:
        section[_PROPERTIES[key]] = document.given(element.line, key, value)
    else:
        text = DATA_SOURCE.get(key, "the pool of the store is set by pool_size")
        document.note(Kind.IGNORED, element.line, key, text)


def _read_lease(document: Document, store: Element) -> Section:
    place = document.place(store.line, "database-store")
    section: Section = {"type": Given(LeaseDatabaseLockerConfig.type, place)}
    given = {element.name: element for element in store.children}
    for name, (option, default) in _LEASE.items():
        element = given.get(name)
        if element is None:
            section[option] = Given(default, f"{place}: Artemis's default", theirs=True)
        else:
            section[option] = document.given(element.line, name, element.text)
    return section


def _take_core(document: Document, section: Section) -> None:
    core = next((element for element in document.root.all() if element.name == "core"), document.root)
    for element in core.children:
        if element.name == "mask-password" and element.text == "true":
            problem = "the password is masked, and only Artemis can read it; give JDBCSTORE_PASSWORD"
            section["password"] = Given(None, document.place(element.line, element.name), problem=problem)
        elif element.name == "name":
            section["brokerName"] = document.given(element.line, "name", element.text)
        elif element.name != "store":
            text = "it is the broker's own business, and no part of the store"
            document.note(Kind.IGNORED, element.line, element.name, text)
