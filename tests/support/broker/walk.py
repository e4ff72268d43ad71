"""A walk through the pages of the console in a browser, and clients that are served meanwhile."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from tests.docs.site import Browser, problems_of
from tests.support.broker.programs import Client

PAGES = (
    *("Overview", "Queues", "Topics", "Consumers", "Connections", "Dead letters", "Operations"),
    *("Scheduled", "Transactions", "Lock and store", "Configuration", "Log"),
)


class Walk:
    """Someone who uses the console in a browser; every page that opens must be without problems."""

    def __init__(self, browser: Browser, origin: str) -> None:
        self._browser, self._origin = browser, origin
        self.opened = 0

    def open(self, path: str) -> None:
        self._browser.open(self._origin + path)
        self._check()

    def follow_by_enter(self) -> None:
        """Press Enter on the focused element, which leads to another page; return when that has its focus."""
        self._browser.act(partial(self.press, "Enter", 13))
        self.value("new Promise(requestAnimationFrame)")  # `autofocus` is obeyed before the first frame
        self._check()

    def click(self, text: str, within: str = "body") -> None:
        """A link or a button that has this text, or begins with it."""
        script = f"""
            [...document.querySelectorAll({json.dumps(within + " a")}),
             ...document.querySelectorAll({json.dumps(within + " button")})]
                .find((one) => one.textContent.trim().startsWith({json.dumps(text)})).click()
        """
        self._browser.follow(script)
        self._check()

    def click_in_row(self, row: str, text: str) -> None:
        """One in the row of a table that has a text."""
        script = f"""
            [...[...document.querySelectorAll("tbody tr")]
                .find((one) => one.textContent.includes({json.dumps(row)})).querySelectorAll("a")]
                .find((one) => one.textContent.trim().startsWith({json.dumps(text)})).click()
        """
        self._browser.follow(script)
        self._check()

    def fill(self, **values: str) -> None:
        for name, value in values.items():
            self.value(f"document.querySelector('main [name={name}]').value = {json.dumps(value)}")

    def act(self, link: str, **values: str) -> str:
        """Choose an operation, confirm it, and return what the next page says."""
        self.click(link, "main")
        return self.confirm(**values)

    def confirm(self, **values: str) -> str:
        for _ in range(2):  # it asks again for other messages than it has counted
            name = str(self.value("document.querySelector('label[for=typed] .name')?.textContent ?? ''"))
            self.fill(**values, **({"typed": name} if name else {}))
            self._browser.follow("document.querySelector('.confirm .actions button').click()")
            self._check()
            if not self.value("Boolean(document.querySelector('.question'))"):
                break
        return str(self.value("document.querySelector('.notice').textContent"))

    def value(self, script: str) -> object:
        return self._browser.value(script)

    @property
    def text(self) -> str:
        return str(self.value("document.body.innerText"))

    def resize(self, size: tuple[int, int]) -> None:
        self._browser.resize(*size)

    def darken(self, *, dark: bool = True) -> None:
        features = [{"name": "prefers-color-scheme", "value": "dark"}] if dark else []
        self._browser.call("Emulation.setEmulatedMedia", features=features)

    def press(self, key: str, code: int, times: int = 1) -> None:
        for _ in range(times):
            for kind in ("rawKeyDown", "keyUp"):
                self._browser.call(
                    "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code
                )

    def _check(self) -> None:
        self.opened += 1
        found = problems_of(self._browser, self._origin)
        assert not found, (self.value("location.href"), found)
        assert self.value("document.documentElement.scrollWidth <= innerWidth"), self.value("location.href")


@contextmanager
def load(port: int) -> Iterator[None]:
    """One client that sends, and one that consumes."""
    stopping = threading.Event()
    producer, consumer = Client(port), Client(port)
    producer.connect()
    consumer.connect()
    consumer.consume("/queue/BUSY")

    def produce() -> None:
        number = 0
        while not stopping.wait(0.02):
            producer.send("/queue/BUSY", f"m{number}")
            number += 1

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
        producer.close()
        consumer.close()
