"""Photographs of the console, for the documentation: ``python -m tests.docs.console_pictures``.

A broker on SQLite serves some queues for two minutes; then Chromium takes the tops of its pages, as
docs/pictures/console-*.png.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import jdbcstore
from jdbcstore import Destination, Message
from tests.docs.site import chromium
from tests.support import ROOT
from tests.support.broker.console import console_of
from tests.support.broker.programs import Client

PICTURES = ROOT / "docs" / "pictures"
SIZE = (1280, 900)
PHONE = (390, 844)
_SERVED = 120.0
_CAUSES = ("Exceeded redelivery policy limit: 6", "Message Expired")


def _fill(url: str) -> None:
    now_ms = int(1000 * time.time())
    with jdbcstore.open(url) as store:
        for number in range(23):
            cause, origin = _CAUSES[number % 5 == 0], ("ORDERS", "PAYMENTS")[number % 3 == 0]
            dead = Message(
                f'{{"order": {number}}}',
                properties={"dlqDeliveryFailureCause": cause},
                original_destination=Destination.queue(origin),
                timestamp_ms=now_ms - 60_000 * number,
            )
            store.queue("ActiveMQ.DLQ").add_message(dead)
        for name, count in (("INVOICES", 840), ("REPORTS", 12), ("MAIL", 61)):
            store.queue(name).add_messages(
                Message(f"{name.lower()} {n}", timestamp_ms=now_ms - 900 * n) for n in range(count, 0, -1)
            )


@contextmanager
def _busy(port: int) -> Iterator[None]:
    """Clients that send orders and payments, of which some are consumed more slowly than they come."""
    stopping, dice = threading.Event(), random.Random(1864)
    with ExitStack() as stack:
        for name, seconds in (("ORDERS", 0.03), ("PAYMENTS", 0.08), ("MAIL", 0.3)):
            client = Client(port, acknowledges=name != "PAYMENTS")
            client.connect()
            client.consume(f"/queue/{name}")

            def produce(client: Client = client, name: str = name, seconds: float = seconds) -> None:
                while not stopping.wait(seconds * dice.uniform(0.5, 1.5)):
                    body = f'{{"table": {dice.randrange(20)}, "dish": "fish and chips", "pints": [1, 2]}}'
                    client.send(f"/queue/{name}", body, table=str(dice.randrange(20)))

            thread = threading.Thread(target=produce)
            thread.start()
            stack.callback(client.close)
            stack.callback(thread.join)
        stack.callback(stopping.set)
        planner = stack.enter_context(closing(Client(port)))
        planner.connect()
        for text, cron in (("close the day", "0 2 * * *"), ("send reminders", "*/30 * * * *")):
            planner.send("/queue/REPORTS", text, AMQ_SCHEDULED_CRON=cron)
        yield


def main() -> None:
    program = shutil.which("chromium")
    if program is None:
        sys.exit("there is no chromium; on Debian: apt-get install chromium")
    url = f"sqlite:///{tempfile.mkdtemp(prefix='jdbcstore-pictures-')}/shop.db"
    _fill(url)
    options: dict[str, Any] = {"environment": "production", "environment_color": "green"}
    with console_of(url, scheduler_support=True, **options) as (console, port), _busy(port):
        time.sleep(_SERVED)
        found = console.get("/queue", name="PAYMENTS").links
        message = next(link for link in found if link.startswith("/console/message?"))
        client = next(link for link in console.get("/consumers").links if link.startswith("/console/client?"))
        with chromium(program) as browser:
            for name, path, size, theme in (
                ("overview", "/console?span=10min", SIZE, "light"),
                ("overview-dark", "/console?span=10min", SIZE, "dark"),
                ("overview-phone", "/console?span=10min", PHONE, "light"),
                ("queues", "/console/queues?sort=size&order=desc", SIZE, "light"),
                ("queue", "/console/queue?name=PAYMENTS&span=10min", SIZE, "light"),
                ("message", message, SIZE, "light"),
                ("dead-letters", "/console/dead-letters", SIZE, "light"),
                ("consumers", "/console/consumers", SIZE, "light"),
                ("client", client, SIZE, "light"),
                ("scheduled", "/console/scheduled", SIZE, "light"),
            ):
                browser.resize(*size)
                features = [{"name": "prefers-color-scheme", "value": theme}]
                browser.call("Emulation.setEmulatedMedia", features=features)
                browser.open(f"http://{console.api.address}{path}")
                picture = PICTURES / f"console-{name}.png"
                browser.screenshot(picture)
                sys.stdout.write(f"{picture.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
