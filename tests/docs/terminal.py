"""The picture of ``top`` for the documentation: ``python -m tests.docs.terminal``.

A broker serves the afternoon of a pub, with producers and a consumer; the screen after some readings becomes
docs/pictures/top.svg.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
import threading
import time
from pathlib import Path

import jdbcstore
from jdbcstore.cli.readings import Readings, TopSelection
from jdbcstore.cli.remote import RemoteBroker
from jdbcstore.cli.top_screen import Top
from tests.docs.photographs import PICTURES, afternoon
from tests.support.broker.programs import BrokerProcess, Client
from tests.support.ports import free_port

_PERIOD = 2.0
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Rules that load fonts from another host; without them, a font of the reader's machine is taken."""


def traffic(port: int, ended: threading.Event) -> None:
    """Orders that the kitchen consumes, and bills that nobody pays."""
    sender, kitchen, stuck = Client(port), Client(port), Client(port, acknowledges=False)
    for client in (sender, kitchen, stuck):
        client.connect()
    kitchen.consume("/queue/ORDERS")
    stuck.consume("/queue/BILLS")
    while not ended.wait(0.02):
        sender.send("/queue/ORDERS", "two pints")
        sender.send("/topic/NEWS", "last orders")
        if len(kitchen.received) % 4 == 0:
            sender.send("/queue/CELLAR", "a barrel")
    sender.close()
    kitchen.close()


async def photographed(url: str) -> str:
    """The screen after some readings."""
    app = Top(Readings(lambda: RemoteBroker(url), _PERIOD), TopSelection(), _PERIOD)
    async with app.run_test(size=(104, 16)) as pilot:
        async with asyncio.timeout(120):
            while app.reading is None or app.reading.broker["commits_per_second"] is None:
                await pilot.pause(0.1)
        await pilot.pause(3 * _PERIOD)
        return app.export_screenshot(title="jdbcstore top")


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        url = f"sqlite:///{folder}/pub.db"
        with jdbcstore.open(url) as store:
            for queue, message in afternoon(int(time.time() * 1000)):
                store.queue(queue).add_message(message)
        with BrokerProcess(folder, "--url", url, "--health", f"127.0.0.1:{port}") as process:
            process.ready()
            RemoteBroker(f"http://127.0.0.1:{port}").call("pause", jdbcstore.Destination.queue("KITCHEN"))
            ended = threading.Event()
            thread = threading.Thread(target=traffic, args=(process.port, ended))
            thread.start()
            picture = asyncio.run(photographed(f"http://127.0.0.1:{port}"))
            ended.set()
            thread.join()
    (PICTURES / "top.svg").write_text(_FONTS.sub("", picture), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
