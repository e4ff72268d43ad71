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
from contextlib import ExitStack, contextmanager

import jdbcstore
from jdbcstore import Destination, Message
from tests.docs.site import chromium
from tests.support import ROOT
from tests.support.broker.console import console_of
from tests.support.broker.programs import Client

PICTURES = ROOT / "docs" / "pictures"
SIZE = (1280, 900)
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
        yield


def main() -> None:
    program = shutil.which("chromium")
    if program is None:
        sys.exit("there is no chromium; on Debian: apt-get install chromium")
    url = f"sqlite:///{tempfile.mkdtemp(prefix='jdbcstore-pictures-')}/shop.db"
    _fill(url)
    with console_of(url, environment="production", environment_color="green") as (console, port), _busy(port):
        time.sleep(_SERVED)
        found = console.get("/queue", name="PAYMENTS").links
        message = next(link for link in found if link.startswith("/console/message?"))
        with chromium(program) as browser:
            browser.resize(*SIZE)
            for name, path in (
                ("overview", "/console?span=10min"),
                ("queues", "/console/queues?sort=size&order=desc"),
                ("queue", "/console/queue?name=PAYMENTS&span=10min"),
                ("message", message),
                ("dead-letters", "/console/dead-letters"),
            ):
                browser.open(f"http://{console.api.address}{path}")
                picture = PICTURES / f"console-{name}.png"
                browser.screenshot(picture)
                sys.stdout.write(f"{picture.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
