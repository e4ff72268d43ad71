"""Headless Chromium with a page that has @stomp/stompjs, and runs what a test evaluates there."""

from __future__ import annotations

import functools
import http.client
import http.server
import itertools
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from jdbcstore.testing.polling import wait_until
from tests.support import ROOT, npm
from tests.support.require import unavailable

VERSION = "7.5.0"
PATIENCE = 180.0
_CACHE = ROOT / ".build" / f"stompjs-{VERSION}"
_BUNDLE = Path("node_modules/@stomp/stompjs/bundles/stomp.umd.js")
_PAGE = Path(__file__).with_name("page.html")


def stompjs() -> Path:
    """The script, from npm; without it the test is skipped."""
    return npm.installed("stompjs", _CACHE, f"@stomp/stompjs@{VERSION}") / _BUNDLE


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_args: object) -> None: ...


@contextmanager
def served_page(folder: Path) -> Iterator[str]:
    """Serves the page and its script over HTTP; gives its address."""
    shutil.copy(stompjs(), folder / "stomp.js")
    shutil.copy(_PAGE, folder / "page.html")
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/page.html"
        finally:
            server.shutdown()
            thread.join(PATIENCE)


class Page:
    """A page; what is evaluated may be a promise."""

    def __init__(self, devtools: ClientConnection) -> None:
        self._devtools = devtools
        self._numbers = itertools.count(1)

    def _call(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        self._devtools.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._devtools.recv(PATIENCE))
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def evaluate(self, script: str) -> Any:
        """The value of an expression, or of the last of several; each may await something.

        :raises AssertionError: it has thrown
        """
        result = self._call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, replMode=True
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def go(self, address: str) -> None:
        """Load a page, again if it is there."""
        query = f"?{next(self._numbers)}"
        self._call("Page.navigate", url=f"{address}{query}")
        loaded = f"location.search === '{query}' && document.readyState === 'complete'"
        wait_until(lambda: self.evaluate(loaded) is True, PATIENCE)


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """A browser with an empty page; without Chromium the test is skipped."""
    program = shutil.which("chromium")
    if program is None:
        unavailable("chromium", "on Debian: apt-get install chromium")
    port = folder / "DevToolsActivePort"
    command = [
        *(program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"),
        *("--disable-dev-shm-usage", "--disable-background-networking", "--ignore-certificate-errors"),
        *("--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank"),
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            wait_until(lambda: port.exists() and len(port.read_text().splitlines()) == 2, PATIENCE)
            number = int(port.read_text().splitlines()[0])
            with connect(_page_of(number), max_size=None, compression=None, proxy=None) as devtools:
                yield Page(devtools)
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _page_of(port: int) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("PUT", "/json/new?about:blank")
    address = json.loads(connection.getresponse().read())["webSocketDebuggerUrl"]
    connection.close()
    return str(address)
