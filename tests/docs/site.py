"""Check of the built site in Chromium, page by page: ``python -m tests.docs.site FOLDER``.

It fails for an error in the console, a request to another host, a file that is missing, a link or
anchor that leads nowhere, a page wider than a phone, and a search that finds nothing.
``--screenshots FOLDER`` also takes pictures of the pages that people see first.
"""

from __future__ import annotations

import argparse
import base64
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

from websockets.sync.client import ClientConnection, connect

FIRST = ("index", "what-it-is", "quickstart", "guide/stomp", "generated/api/jdbcstore")
WIDE, PHONE = (1280, 900), (390, 844)
TIMEOUT = 600.0
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--remote-debugging-port=0",
)


class Browser:
    """A tab of Chromium over its DevTools protocol."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._last = 0
        self.events: list[dict[str, Any]] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._last += 1
        self._connection.send(json.dumps({"id": self._last, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._connection.recv(TIMEOUT))
            if message.get("id") == self._last:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                result: dict[str, Any] = message["result"]
                return result
            self.events.append(message)

    def open(self, url: str) -> None:
        """Open a page, and wait until it has loaded."""
        self.act(partial(self.call, "Page.navigate", url=url))

    def follow(self, script: str) -> None:
        """Run a script that leads to another page, and wait until that has loaded."""
        self.act(partial(self.value, script))

    def act(self, begin: Callable[[], object]) -> None:
        """Do what leads to another page, and wait until that has loaded."""
        self.events.clear()
        begin()
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(json.loads(self._connection.recv(TIMEOUT)))

    def value(self, expression: str) -> Any:
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        return done["result"].get("value")

    def resize(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))


@contextmanager
def chromium(program: str) -> Iterator[Browser]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [program, *_FLAGS, f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            address = Path(profile) / "DevToolsActivePort"
            _wait(lambda: address.exists() and address.read_text().count("\n") >= 1)
            port = address.read_text().split("\n")[0]
            with connect(f"ws://127.0.0.1:{port}{_tab(port)}", max_size=None, proxy=None) as connection:
                yield Browser(connection)
        finally:
            process.terminate()
            process.wait()


def _tab(port: str) -> str:
    from urllib.request import ProxyHandler, build_opener

    found: list[str] = []

    def there() -> bool:
        with build_opener(ProxyHandler({})).open(f"http://127.0.0.1:{port}/json/list") as answer:
            tabs = [one for one in json.load(answer) if one["type"] == "page"]
        found.extend(one["webSocketDebuggerUrl"].partition(port)[2] for one in tabs)
        return bool(found)

    _wait(there)
    return found[0]


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("Chromium does not start")
        time.sleep(0.1)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def problems_of(browser: Browser, origin: str) -> list[str]:
    """What went wrong while the page was opened."""
    found = []
    for event in browser.events:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            found.append(f"error: {parameters['exceptionDetails'].get('text')}")
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            found.append(f"console: {parameters['entry']['text']} {parameters['entry'].get('url', '')}")
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            found.append(f"console: {parameters['args'][0].get('value')}")
        elif method == "Network.requestWillBeSent":
            url = parameters["request"]["url"]
            if not url.startswith((origin, "data:")):
                found.append(f"a request elsewhere: {url}")
        elif method == "Network.responseReceived" and parameters["response"]["status"] >= 400:
            found.append(f"{parameters['response']['status']}: {parameters['response']['url']}")
    return found


def check(folder: Path, browser: Browser, origin: str) -> list[str]:
    """Open every page; returns all problems."""
    found, links, anchors = [], {}, {}
    for path in sorted(folder.rglob("*.html")):
        page = path.relative_to(folder).as_posix()
        browser.resize(*PHONE)
        browser.open(origin + page)
        found += [f"{page}: {problem}" for problem in problems_of(browser, origin)]
        width = browser.value("document.documentElement.scrollWidth")
        if width > PHONE[0]:
            found.append(f"{page}: {width} wide on a phone")
        anchors[page] = set(browser.value("[...document.querySelectorAll('[id]')].map(one => one.id)"))
        links[page] = browser.value("[...document.links].map(one => one.href)")
    for page, targets in links.items():
        found += [
            f"{page}: leads nowhere: {one}"
            for one in dict.fromkeys(targets)
            if _dead(one, origin, folder, anchors)
        ]
    return found + _searched(browser, origin)


def _dead(link: str, origin: str, folder: Path, anchors: dict[str, set[str]]) -> bool:
    if not link.startswith(origin):
        return not link.startswith(("http://", "https://", "mailto:", "#"))
    url, anchor = urldefrag(link.removeprefix(origin))
    page = unquote(url.partition("?")[0]) or "index.html"
    if page in anchors:
        return bool(anchor) and unquote(anchor) not in anchors[page]
    return not (folder / page).is_file()


def _searched(browser: Browser, origin: str) -> list[str]:
    browser.open(origin + "search.html?q=fence")
    counted = "document.querySelectorAll('#search-results li a').length"
    deadline = time.monotonic() + TIMEOUT
    while not browser.value(counted):
        if time.monotonic() > deadline:
            return ["the search for 'fence' finds nothing"]
        time.sleep(0.1)
    return []


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Open every page of the built site in Chromium.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--screenshots", type=Path)
    options = parser.parse_args(arguments)
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        print("Chromium is not installed: no page was opened", file=sys.stderr)  # noqa: T201
        return 0
    with served(options.folder) as origin, chromium(program) as browser:
        found = check(options.folder, browser, origin)
        if options.screenshots:
            _photograph(browser, origin, options.screenshots)
    for problem in found:
        print(problem)  # noqa: T201
    count = len(list(options.folder.rglob("*.html")))
    print(f"{count} pages opened in Chromium, {len(found)} problems")  # noqa: T201
    return bool(found)


def _photograph(browser: Browser, origin: str, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name, size in (("wide", WIDE), ("phone", PHONE)):
        browser.resize(*size)
        for page in FIRST:
            browser.open(f"{origin}{page}.html")
            browser.screenshot(folder / f"{page.replace('/', '-')}-{name}.png")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
