"""Photographs of pages that the product writes, for the documentation: ``python -m tests.docs.photographs``.

An afternoon of a pub is put into a store, ``jdbcstore report`` asks Spark about it, and Chromium takes the
top of the page, as docs/pictures/report.png. The pages that people see first of the documentation itself
are photographed by ``python -m tests.docs.site FOLDER --screenshots FOLDER``.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import jdbcstore
from jdbcstore import Destination, Message
from tests.docs.site import chromium, served
from tests.support import ROOT

PICTURES = ROOT / "docs" / "pictures"
SIZE = (900, 740)
_HOURS = 6
_REGIONS = ("bar", "garden", "snug")
_DISHES = ("two pints", "fish and chips", "a ploughman's", "crisps", "Sunday roast")
_CAUSE = "dlqDeliveryFailureCause"
_CAUSES = (
    "java.lang.Throwable: Exceeded redelivery policy limit:RedeliveryPolicy{maximumRedeliveries = 6}",
    "java.lang.Throwable: Message Expired",
)


def afternoon(now_ms: int) -> Iterator[tuple[str, Message]]:
    """A queue and a message, in the order in which they were sent."""
    dice = random.Random(1864)
    for minute in range(_HOURS * 60, 0, -1):
        sent = now_ms - minute * 60_000
        rush = 3 if 60 < minute < 150 else 1
        for _ in range(dice.randint(0, rush)):
            dish = dice.choice(_DISHES)
            where = {"table": dice.randint(1, 24), "region": dice.choice(_REGIONS)}
            yield "KITCHEN", Message(dish, properties=where, timestamp_ms=sent)
            if dish == "two pints":
                yield "CELLAR", Message({"barrel": dice.randint(1, 6), "pints": 2}, timestamp_ms=sent)
            yield "BILLS", Message(dish * dice.randint(1, 200), properties=where, timestamp_ms=sent)
        if minute % 11 == 0:
            cause = {_CAUSE: _CAUSES[minute % 3 == 0]}
            came_from = Destination.queue("BILLS" if minute % 2 else "KITCHEN")
            yield (
                "ActiveMQ.DLQ",
                Message("bill", properties=cause, original_destination=came_from, timestamp_ms=sent),
            )


def report(folder: Path) -> Path:
    """The page of Spark's answers about the afternoon."""
    with jdbcstore.open(f"sqlite:///{folder}/pub.db") as store:
        for queue, message in afternoon(int(time.time() * 1000)):
            store.queue(queue).add_message(message)
    page = folder / "report.html"
    asked = ("report", "--url", "sqlite:///pub.db", "--output", page.name)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-m", "jdbcstore", *asked], cwd=folder, env=environment, check=True)
    return page


def main() -> int:
    program = shutil.which("chromium")
    if program is None:
        print("Chromium is not installed: no photograph is taken", file=sys.stderr)  # noqa: T201
        return 1
    with tempfile.TemporaryDirectory() as name:
        page = report(Path(name))
        with served(page.parent) as origin, chromium(program) as browser:
            browser.resize(*SIZE)
            browser.call("Emulation.setScrollbarsHidden", hidden=True)
            browser.open(f"{origin}{page.name}")
            browser.value("new Promise(done => setTimeout(done, 1500))")  # plots are drawn after the page
            browser.screenshot(PICTURES / "report.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
