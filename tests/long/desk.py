"""A walk over the operator's desk in headless Chromium, by hand:

    python -m tests.long.desk --database postgresql --dead 12000 --destinations 10000 --pictures FOLDER

A broker process serves a producer and a consumer, with so many dead letters and queues. Every page is
opened, wide and on a phone, light and dark: nothing may be cut off, no script may fail, and no other host be
asked. Every operation is done. Three times the broker is killed while a page is open: the page must say so
within five seconds, and be as before once the broker is back. What is wrong is printed, and the longest time
of each page.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import click
import stomp

import jdbcstore
from jdbcstore import Destination, Message
from jdbcstore.config.broker import Address
from jdbcstore.message.ids import XATransactionId
from jdbcstore.testing.polling import wait_until
from tests.docs.site import PHONE, WIDE, Browser, chromium
from tests.support.broker.api import ApiClient, queue
from tests.support.broker.programs import BrokerProcess, private_database
from tests.support.broker.walk import PAGES, Walk, load
from tests.support.ports import free_port

_DLQ = "ActiveMQ.DLQ"
_ORIGINS = ("PAYMENTS", "MAIL", "STOCK")
_AT_ONCE = 2_000
_PATIENCE = 5.0
"""Seconds after which a page has to say that its broker is gone."""
_CUT = """
    [...document.querySelectorAll("body *")].filter((one) => {
        const box = one.getBoundingClientRect();
        const scrolls = one.closest(".table, pre, .frame > nav, .hidden, .skip, .ids");
        return box.width && (box.right > innerWidth + 1 || box.left < -1) && !scrolls;
    }).map((one) => one.outerHTML.slice(0, 120))
"""


def _fill(url: str, dead: int, destinations: int) -> None:
    causes = [
        f"java.lang.Throwable: {reason}" for reason in ("card declined", "mailbox full", "no such item")
    ]
    with jdbcstore.open(url) as store:
        for number in range(2):
            branch = store.xa.start(XATransactionId(1, b"desk", bytes([number])))
            branch.queue("DOUBT").add_message(Message(f"x{number}"))
            branch.prepare()
        for at in range(0, dead, _AT_ONCE):
            with store.transaction() as transaction:
                for number in range(at, min(at + _AT_ONCE, dead)):
                    which = number % len(_ORIGINS)
                    origin = Destination.queue(_ORIGINS[which])
                    properties = {"number": number, "dlqDeliveryFailureCause": causes[which]}
                    letter = Message(f'{{"n": {number}}}', properties=properties, original_destination=origin)
                    transaction.queue(_DLQ).add_message(letter)
        for at in range(0, destinations, _AT_ONCE):
            with store.transaction() as transaction:
                for number in range(at, min(at + _AT_ONCE, destinations)):
                    transaction.queue(f"SHOP.{number:05}.ORDERS").add_message(Message("x"))


@dataclass
class _Desk:
    """The browser, and the broker that it looks at, which is started again at the same address."""

    browser: Browser
    start: Callable[[], BrokerProcess]
    process: BrokerProcess
    api: ApiClient
    pictures: Path | None
    wrong: list[str] = field(default_factory=list)
    longest: dict[str, float] = field(default_factory=dict)
    took: list[float] = field(default_factory=list)
    """Seconds until a page said that its broker was gone."""

    def __post_init__(self) -> None:
        self.walk = Walk(self.browser, f"http://{self.api.address}/")

    def open(self, path: str) -> None:
        began = time.monotonic()
        self.walk.open(f"console/{path}")
        name = re.sub(r"\?.*", "", path) or "overview"
        self.longest[name] = max(self.longest.get(name, 0.0), time.monotonic() - began)

    def look(self, path: str) -> None:
        """Look at a page: wide and on a phone, light and dark."""
        for size, shape in ((WIDE, "wide"), (PHONE, "phone")):
            self.walk.resize(size)
            self.open(path)
            for dark in (False, True):
                self.walk.darken(dark=dark)
                found = self.walk.value(_CUT)
                if found:
                    self.wrong.append(f"{path or 'overview'}, {shape}: cut off: {found}")
                if self.pictures is not None:
                    name = re.sub(r"\W+", "-", path)[:40] or "overview"
                    scheme = "dark" if dark else "light"
                    self.browser.screenshot(self.pictures / f"{name}-{shape}-{scheme}.png")
            self.walk.darken(dark=False)
        self.walk.resize(WIDE)

    def lose_the_broker(self, path: str) -> None:
        """Kill the broker while a page is open, and start it again."""
        self.open(path)
        self.walk.resize(WIDE)
        banner = "document.getElementById('banner').innerText"
        before = str(self.walk.value("document.title"))
        self.process.kill()
        self.took.append(
            self._until(lambda: "connection to the broker is lost" in str(self.walk.value(banner)))
        )
        if self.pictures is not None:
            self.browser.screenshot(self.pictures / f"lost-{len(self.took)}.png")
        self.process = self.start()
        self._until(lambda: not self.walk.value(banner))
        if self.walk.value("document.title") != before or self.walk.value("document.querySelector('.stale')"):
            self.wrong.append(f"{path}: it is not as before once the broker is back")

    def _until(self, condition: Callable[[], bool]) -> float:
        began = time.monotonic()
        wait_until(condition)
        return time.monotonic() - began

    def says(self, what: str, text: str) -> None:
        """Note an operation whose page does not say what it should."""
        if not re.search(what, text):
            self.wrong.append(f"{text!r} says nothing of {what!r}")


def _all_pages(desk: _Desk) -> None:
    api = desk.api
    [letter] = api.get(queue(_DLQ, "messages") + "?limit=1")
    paths = [
        *("", *(title.lower().replace(" ", "-") for title in PAGES[1:9])),
        *("broker", "database", "configuration", "log"),
        "queues?page=50&sort=size&order=desc",
        "queues?search=0042",
        *(f"queue?name={name}" for name in (_DLQ, "BUSY", "SHOP.00007.ORDERS")),
        f"queue?{urlencode({'name': _DLQ, 'selector': 'number > 11000'})}",
        f"queue?{urlencode({'name': _DLQ, 'sort': 'size', 'order': 'desc', 'contains': 'card'})}",
        f"message?{urlencode({'name': _DLQ, 'id': letter['message_id']})}",
        "topic?name=PRICES",
        "do/send?name=NEW",
        *(
            f"do/{act}?name={_DLQ}"
            for act in ("purge", "retry", "move", "copy", "change", "remove", "delete")
        ),
    ]
    for path in paths:
        desk.look(path)


def _all_acts(desk: _Desk, dead: int, subscriber: stomp.Connection12) -> None:
    walk, api = desk.walk, desk.api

    def size(name: str) -> int:
        status, found = api.ask("GET", queue(name))
        return int(found["size"]) if status == 200 else 0

    def is_at_rest() -> bool:
        return all(one["ended_ms"] is not None for one in api.get("/api/operations"))

    desk.open("queues")
    walk.fill(name="NEW")
    walk.click("Create", "main")
    desk.says("NEW is there", walk.confirm())
    desk.open("queue?name=NEW")
    for number in range(3):
        desk.says("sent", walk.act("Send", body=f"m{number}", properties=f"table:int={number}"))
    desk.says("paused", walk.act("Pause"))
    desk.says("go on", walk.act("Resume"))
    desk.says("1 message was copied", walk.act("Copy", selector="table = 0", to="COPIES"))
    desk.says("1 message was moved", walk.act("Move", selector="table = 1", to="MOVED"))
    desk.says("1 message was removed", walk.act("Remove some", selector="table = 2"))
    desk.says("1 message was replaced", walk.act("Change", selector="table = 0", priority="9"))
    walk.click("ID:", "tbody")
    walk.click("Send again", "main")
    desk.says("sent", walk.confirm(body="again"))
    desk.open("queue?name=NEW")
    desk.says("were removed", walk.act("Purge"))
    desk.says("counters were reset", walk.act("Reset counters"))
    desk.says("deleted", walk.act("Delete"))
    desk.open("dead-letters")
    before = size(_DLQ)
    walk.click_in_row("card declined", "Retry")
    desk.says("messages were returned|running", walk.confirm())
    wait_until(is_at_rest)
    retried = before - size(_DLQ)
    if retried != dead // len(_ORIGINS):
        desk.wrong.append(f"{retried} of a group of {dead // len(_ORIGINS)} were sent again")
    desk.open(f"queue?name={_DLQ}")
    desk.says("under way|were moved", walk.act("Move", selector="number >= 0", to="ARCHIVE"))
    desk.open("operations")
    if walk.value(
        "[...document.querySelectorAll('main a')].some((one) => one.textContent.startsWith('Stop'))"
    ):
        desk.says("stop|ends|ended", walk.act("Stop"))
    wait_until(is_at_rest)
    if size(_DLQ) + size("ARCHIVE") != before - retried:
        desk.wrong.append("a stopped move has lost messages, or made some")
    desk.open("transactions")
    desk.says("committed", walk.act("Commit"))
    desk.says("rolled back", walk.act("Roll back"))
    desk.open("connections")
    walk.click_in_row("desk-walk", "Drop")
    desk.says("closed", walk.confirm())
    wait_until(lambda: not subscriber.is_connected())
    desk.open("broker")
    desk.says("counters were reset", walk.act("Reset all counters"))


def _consumed(api: ApiClient, name: str) -> int:
    status, found = api.ask("GET", queue(name))
    return int(found["dequeued"]) if status == 200 else 0


def _served(desk: _Desk, dead: int, destinations: int) -> None:
    subscriber = stomp.Connection12([("127.0.0.1", desk.process.port)])
    subscriber.connect(wait=True, headers={"client-id": "desk-walk"})
    subscriber.subscribe("/topic/PRICES", id="1", ack="auto")
    with load(desk.process.port):
        wait_until(lambda: _consumed(desk.api, "BUSY") > 0, what="messages that are consumed")
        _all_pages(desk)
        _all_acts(desk, dead, subscriber)
    for path in ("", "queue?name=SHOP.00007.ORDERS", "do/purge?name=SHOP.00007.ORDERS"):
        desk.lose_the_broker(path)
    found = desk.api.get("/api/broker")["queues"]
    if found < destinations:
        desk.wrong.append(f"{found} queues are left of {destinations}")


@click.command(help=__doc__)
@click.option("--database", type=click.Choice(["sqlite", "postgresql"]), default="sqlite")
@click.option("--dead", default=12_000, show_default=True)
@click.option("--destinations", default=10_000, show_default=True)
@click.option("--pictures", type=click.Path(path_type=Path), help="Save what was seen into this folder.")
def main(database: str, dead: int, destinations: int, pictures: Path | None) -> None:
    program = shutil.which("chromium")
    if program is None:
        raise click.ClickException("there is no chromium; on Debian: apt-get install chromium")
    folder = Path(tempfile.mkdtemp(prefix="jdbcstore-desk-"))
    if pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
    address, port = Address("127.0.0.1", free_port()), f"127.0.0.1:{free_port()}"
    with private_database(database, folder) as url, chromium(program) as browser:
        _fill(url, dead, destinations)

        def start() -> BrokerProcess:
            process = BrokerProcess(folder, "--url", url, "--health", str(address), stomp=port)
            process.ready()
            return process

        desk = _Desk(browser, start, start(), ApiClient(address), pictures)
        try:
            _served(desk, dead, destinations)
        finally:
            desk.process.kill()
            _report(desk)
    sys.exit(bool(desk.wrong))


def _report(desk: _Desk) -> None:
    click.echo(f"{desk.walk.opened} pages were opened; the longest took, in seconds:")
    for name, seconds in sorted(desk.longest.items(), key=lambda one: -one[1])[:12]:
        click.echo(f"  {name}: {seconds:.1f}")
    click.echo(f"a lost broker was told of after {', '.join(f'{one:.1f}' for one in desk.took)} s")
    desk.wrong += [f"a lost broker was told of after {one:.1f} s" for one in desk.took if one > _PATIENCE]
    for one in desk.wrong:
        click.echo(f"wrong: {one}")


if __name__ == "__main__":
    main()
