"""Templates, static files and the headers of every answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from importlib.resources import files
from math import isnan
from typing import Any
from urllib.parse import quote, urlencode

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined

from jdbcstore.message.destination import Destination

ROOT = "/console"
"""The path under which everything is."""
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
"""No script, style, picture or frame comes from elsewhere, and none is in a page itself."""
NONE = "\u2013"
"""In the place of what is not known: a dash."""
_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_DURATIONS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))
_SYMBOLS = {number: 0x2400 + number for number in range(32) if chr(number) not in "\n\t"} | {127: 0x2421}
"""Visible signs of control characters."""


class Static:
    """The static files, which were read once; the name of each has a part of its hash as a version."""

    def __init__(self) -> None:
        folder = files(__package__) / "static"
        self._files = {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}
        self._versions = {name: sha256(data).hexdigest()[:12] for name, data in self._files.items()}

    def url(self, name: str) -> str:
        """Return the address of a file."""
        return f"{ROOT}/static/{name}?{self._versions[name]}"

    def answer(self, name: str) -> web.Response:
        """Return a file.

        :raises web.HTTPNotFound: there is none of this name
        """
        data = self._files.get(name)
        if data is None:
            raise web.HTTPNotFound(text="there is no such file")
        kind = _TYPES[name.rpartition(".")[2]]
        headers = {**HEADERS, "Content-Type": f"{kind}; charset=utf-8", "Cache-Control": "max-age=31536000"}
        return web.Response(body=data, headers=headers)


class Renderer:
    """Makes pages of templates; everything that is put into one is escaped."""

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
            "moment": moment,
            "bare": bare,
            "sentence": sentence,
        }

    def page(self, template: str, context: Mapping[str, Any], *, status: int = 200) -> web.Response:
        """Return a page, which no browser keeps."""
        text = self._environment.get_template(template).render(context)
        # A name or a body may have half of a surrogate pair.
        body = text.encode("utf-8", "backslashreplace")
        headers = {**HEADERS, "Content-Type": "text/html; charset=utf-8"}
        return web.Response(body=body, status=status, headers=headers)


def url(path: str = "", **query: Any) -> str:
    """Return the address of a page; what is None is left out."""
    given = [(name, value) for name, value in query.items() if value not in (None, "")]
    text = urlencode(given, quote_via=quote, errors="replace", doseq=True)
    return f"{ROOT}{f'/{path}' if path else ''}{f'?{text}' if text else ''}"


def visible(value: object) -> str:
    """Return a string with signs in the place of control characters; it is not escaped yet."""
    return str(value).translate(_SYMBOLS)


def sentence(text: str) -> str:
    """Return a string that begins with a capital letter."""
    return text[:1].upper() + text[1:]


def number(value: float | None) -> str:
    """Format a number with commas; a dash for None."""
    if value is None or (isinstance(value, float) and isnan(value)):
        return NONE
    return (
        f"{value:,.0f}" if isinstance(value, int) or value >= 100 or value == int(value) else f"{value:,.1f}"
    )


def counted(value: int, noun: str) -> str:
    """Format a number with its noun: ``1 message``, ``2,000 messages``."""
    return f"{number(value)} {noun}{'' if value == 1 else 's'}"


def rate(value: float | None) -> str:
    """Format a number in a second."""
    return NONE if value is None else f"{number(round(value, 1))}/s"


def size(value: float | None) -> str:
    """Return a number of bytes with its unit."""
    if value is None:
        return NONE
    for unit in _UNITS:
        if value < 1000 or unit == _UNITS[-1]:
            break
        value /= 1000
    return f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"


def duration(seconds: float | None) -> str:
    """Format seconds, such as ``3 min``."""
    if seconds is None:
        return NONE
    for length, unit in _DURATIONS:
        if seconds >= length:
            return f"{number(round(seconds / length, 0 if seconds >= 10 * length else 1))} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 or not seconds else f"{seconds * 1000:.3g} ms"


def moment(time_ms: int | None) -> str:
    """Format a time, in UTC."""
    if not time_ms:
        return NONE
    try:
        found = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return f"{time_ms} ms"
    return found.strftime("%Y-%m-%d %H:%M:%S")


def bare(destination: Destination | str) -> str:
    """Return a name without its kind."""
    return str(destination).partition("://")[2]
