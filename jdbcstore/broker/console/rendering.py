"""Templates, static files and the headers of every answer."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined

from jdbcstore.broker.management.texts import (
    age,
    bare,
    counted,
    duration,
    idle,
    moment,
    number,
    rate,
    share,
    short,
    size,
    trend,
)

ROOT = "/console"
"""The path of the console."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Scripts, styles, pictures and frames come only from this server, and are never inline."""
_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_SYMBOLS = {number: 0x2400 + number for number in range(32) if chr(number) not in "\n\t"} | {127: 0x2421}
"""Visible signs of control characters."""


class Static:
    """The static files, read once; the name of each contains a part of its hash as a version."""

    def __init__(self) -> None:
        folder = files(__package__) / "static"
        self._files = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
        self._versions = {name: sha256(data).hexdigest()[:12] for name, data in self._files.items()}

    def url(self, name: str) -> str:
        """Return the address of a file."""
        return f"{ROOT}/static/{name}?{self._versions[name]}"

    def answer(self, name: str) -> web.Response:
        """Return a file.

        :raises web.HTTPNotFound: no file has this name
        """
        data = self._files.get(name)
        if data is None:
            raise web.HTTPNotFound(text="there is no such file")
        kind = _TYPES[name.rpartition(".")[2]]
        headers = {**HEADERS, "Content-Type": f"{kind}; charset=utf-8", "Cache-Control": "max-age=31536000"}
        return web.Response(body=data, headers=headers)


class Renderer:
    """Renders pages from templates; all inserted values are escaped."""

    def __init__(self, static: Static) -> None:
        self._environment = Environment(
            loader=PackageLoader("jdbcstore.broker.console"),
            autoescape=True,
            auto_reload=False,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals |= {"url": url, "static": static.url, "ROOT": ROOT}
        self._environment.filters |= {
            "visible": visible,
            "number": number,
            "counted": counted,
            "rate": rate,
            "bytes": size,
            "duration": duration,
            "age": age,
            "idle": idle,
            "share": share,
            "trend": trend,
            "short": short,
            "moment": moment,
            "bare": bare,
            "sentence": sentence,
        }

    def page(self, template: str, context: Mapping[str, Any], *, status: int = 200) -> web.Response:
        """Return a page, which browsers do not cache."""
        text = self._environment.get_template(template).render(context)
        # A name or a body may have half of a surrogate pair.
        body = text.encode("utf-8", "backslashreplace")
        headers = {**HEADERS, "Content-Type": "text/html; charset=utf-8"}
        return web.Response(body=body, status=status, headers=headers)


def url(path: str = "", **query: Any) -> str:
    """Return the address of a page; parameters that are None are omitted."""
    given = [(name, value) for name, value in query.items() if value not in (None, "")]
    text = urlencode(given, quote_via=quote, errors="replace", doseq=True)
    return f"{ROOT}{f'/{path}' if path else ''}{f'?{text}' if text else ''}"


def visible(value: object) -> str:
    """Replace control characters by visible signs; the result is not escaped yet."""
    return str(value).translate(_SYMBOLS)


def sentence(text: str) -> str:
    """Capitalize the first letter of a string."""
    return text[:1].upper() + text[1:]
