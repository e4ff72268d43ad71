"""A broker with its console in a thread, and a client that reads pages as a browser without script does."""

from __future__ import annotations

import asyncio
import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode, urlsplit

from jdbcstore.broker.process.host import BrokerHost
from jdbcstore.config import Configuration, DataSourceConfig
from jdbcstore.config.broker import Address, BrokerConfig, ConnectorConfig
from jdbcstore.config.journal import JournalConfig
from jdbcstore.config.locker import LockerConfig
from jdbcstore.config.store import StoreConfig
from tests.support.broker.api import ApiClient

PATIENCE = 180.0
FORM = "application/x-www-form-urlencoded"


@dataclass
class Form:
    """A form, with what it has been filled with."""

    action: str
    method: str
    fields: list[tuple[str, str]] = field(default_factory=list)


class Page(HTMLParser):
    """An answer, read."""

    def __init__(self, status: int, headers: http.client.HTTPMessage, text: str) -> None:
        super().__init__()
        self.status, self.headers, self.source = status, headers, text
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.links: list[str] = []
        self.forms: list[Form] = []
        self._texts: list[str] = []
        self._area = self._written = self._select = ""
        self.feed(text)

    @property
    def text(self) -> str:
        """What is read on it, on one line."""
        return " ".join("".join(self._texts).split())

    @property
    def scripts(self) -> list[str]:
        """All that could run: addresses of scripts, other scripts, handlers, and addresses that run."""
        found = [given.get("src", "a script in the page") for tag, given in self.elements if tag == "script"]
        for tag, given in self.elements:
            found += [f"{tag} {name}" for name in given if name.startswith("on") or name == "style"]
            for name in ("href", "action", "formaction", "src"):
                if not given.get(name, "/console").startswith(("/console", "#")):
                    found.append(f"{tag} {name}={given[name]}")
        return found

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.elements.append((tag, given))
        if tag in ("td", "th", "dt", "dd", "tr", "li", "p"):
            self._texts.append(" ")
        if tag == "a":
            self.links.append(given.get("href", ""))
        elif tag == "form":
            self.forms.append(Form(given["action"], given.get("method", "get")))
        elif tag == "input" and self.forms and "name" in given and given.get("type") != "checkbox":
            self.forms[-1].fields.append((given["name"], given.get("value", "")))
        elif tag == "textarea":
            self._area, self._written = given["name"], ""
        elif tag == "select":
            self._select = given["name"]
        elif tag == "option":
            self._choose(given)

    def _choose(self, option: dict[str, str]) -> None:
        """The first option, unless another one is selected."""
        fields = self.forms[-1].fields
        is_first = all(name != self._select for name, _ in fields)
        if not is_first and "selected" in option:
            fields.remove(next(one for one in fields if one[0] == self._select))
        if is_first or "selected" in option:
            fields.append((self._select, option["value"]))

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self.forms[-1].fields.append((self._area, self._written.removeprefix("\n")))
            self._area = ""

    def handle_data(self, data: str) -> None:
        self._texts.append(data)
        if self._area:
            self._written += data


class ConsoleClient:
    """A browser without script, each request on a connection of its own."""

    def __init__(self, address: Address, login: tuple[str, str] | None = None) -> None:
        self._address = address
        self.api = ApiClient(address, login)

    def ask(
        self, method: str, path: str, body: str | None = None, headers: dict[str, str] | None = None
    ) -> Page:
        connection = http.client.HTTPConnection(*self._address, timeout=PATIENCE)
        try:
            connection.request(method, path, body, {**self.api.headers, **(headers or {})})
            answer = connection.getresponse()
            return Page(answer.status, answer.headers, answer.read().decode())
        finally:
            connection.close()

    def get(self, path: str = "", **query: Any) -> Page:
        """A page, which must be there."""
        found = self.ask("GET", f"/console{path}" + (f"?{urlencode(query)}" if query else ""))
        assert found.status == 200, (path, query, found.status, found.text)
        return found

    def send(self, form: Form, **changes: str) -> Page:
        """Send a form, and follow to the page that it leads to."""
        values = [(name, value) for name, value in form.fields if name not in changes]
        values += changes.items()
        found = self.ask("POST", form.action, urlencode(values), {"Content-Type": FORM})
        if found.status == 303:
            where = urlsplit(found.headers["Location"])
            found = self.ask("GET", f"{where.path}?{where.query}")
        return found

    def act(self, path: str, query: dict[str, str], **fields: str) -> Page:
        """Confirm an operation, again if it asks again; return the page after it."""
        answer = self.get(path, **query)
        for _ in range(2):
            [form] = [one for one in answer.forms if one.method == "post"]
            if any(name == "typed" for name, _ in form.fields):
                fields.setdefault("typed", query.get("subscription") or query["name"])
            answer = self.send(form, **fields)
            if not any(given.get("class") == "question" for _, given in answer.elements):
                break
        return answer


@contextmanager
def console_of(
    url: str,
    *,
    locker: LockerConfig | None = None,
    journal: JournalConfig | None = None,
    store: StoreConfig | None = None,
    **options: Any,
) -> Iterator[tuple[ConsoleClient, int]]:
    """A broker on a database, and the port of its STOMP clients."""
    configuration = Configuration(
        data_source=DataSourceConfig(url=url),
        locker=locker,
        journal=journal,
        store=store or StoreConfig(),
        broker=BrokerConfig(
            connectors=(ConnectorConfig(uri="stomp://127.0.0.1:0"),), health="127.0.0.1:0", **options
        ),
    )
    ready, stopping = threading.Event(), asyncio.Event()
    found: list[Any] = []

    async def serve() -> None:
        try:
            async with BrokerHost(configuration) as host:
                found.extend((host.health_address, host.addresses[0][1].port, asyncio.get_running_loop()))
                ready.set()
                await stopping.wait()
        finally:
            ready.set()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        assert found, "the broker does not start"
        yield ConsoleClient(found[0]), found[1]
    finally:
        if found:
            found[2].call_soon_threadsafe(stopping.set)
        thread.join(PATIENCE)
