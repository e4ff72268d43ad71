"""Bodies as people read them: bytes that are text, and JSON and XML with indentation."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable
from itertools import pairwise
from xml.parsers import expat

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_DEEPEST = 30
_EMPTY = {"{": "}", "[": "]"}


def text_of_bytes(data: bytes, most: int | None = None) -> str | None:
    """Decode bytes as UTF-8; None if they are something else.

    :param most: bytes to look at, the first ones; by default all
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(data[:most], final=most is None or len(data) <= most)
    except UnicodeDecodeError:
        return None
    return None if _CONTROL.search(text) else text


def indented(text: str) -> str:
    """Indent JSON and XML; return any other text as it is."""
    return indented_json(text) or indented_xml(text) or text


def indented_json(text: str) -> str | None:
    """Indent a JSON object or array, a line for each of its members, with every value as it was written.

    None if the text is something else, or is nested too deep to be read.
    """
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    pieces: list[str] = []
    depth = 0
    parts = _TOKEN.findall(text)
    for at, part in enumerate(parts):
        if part in _EMPTY:
            depth += 1
            if depth > _DEEPEST:
                return None
            pieces.append(part)
            if parts[at + 1] != _EMPTY[part]:
                pieces.append("\n" + "  " * depth)
        elif part in ("}", "]"):
            depth -= 1
            if parts[at - 1] not in _EMPTY:
                pieces.append("\n" + "  " * depth)
            pieces.append(part)
        elif part == ",":
            pieces.append(",\n" + "  " * depth)
        else:
            pieces.append(": " if part == ":" else part)
    return "".join(pieces)


def indented_xml(text: str) -> str | None:
    """Indent an XML document, a line for each element, with every tag and text as it was written.

    None if the text is something else, has a DOCTYPE, is nested too deep to be read, or has elements among
    text, where spaces may matter.
    """
    if not text.lstrip().startswith("<") or "<!DOCTYPE" in text:
        return None
    try:
        parts = _xml_parts(text.strip().encode())
    except (expat.ExpatError, UnicodeEncodeError):
        return None
    lines: list[str] = []
    depth = 0
    for at, (kind, part) in enumerate(parts):
        before, after = (parts[at - 1] if at else ("", "")), (*parts[at + 1 : at + 2], ("", ""))[0]
        is_leaf = before[0] == "start" and after[0] == "end"
        if kind == "text":
            if part.strip() and not is_leaf:
                return None
            lines[-1] += part if is_leaf else ""
        elif kind == "end":
            depth -= 1
            opened_here = before[0] == "start" or (before[0] == "text" and parts[at - 2][0] == "start")
            if opened_here:
                lines[-1] += part
            else:
                lines.append("  " * depth + part)
        else:
            lines.append("  " * depth + part)
            depth += kind == "start"
            if depth > _DEEPEST:
                return None
    return "\n".join(lines)


def _xml_parts(data: bytes) -> list[tuple[str, str]]:
    """Split a document into tags, texts and others, each as it is written.

    :raises ExpatError: it is not well-formed
    """
    parser = expat.ParserCreate("utf-8")
    places: list[tuple[int, str]] = []

    def note(kind: str) -> Callable[..., None]:
        return lambda *_: places.append((parser.CurrentByteIndex, kind))

    parser.StartElementHandler, parser.EndElementHandler = note("start"), note("end")
    parser.CharacterDataHandler = parser.StartCdataSectionHandler = note("text")
    parser.EndCdataSectionHandler = note("text")
    parser.CommentHandler = parser.ProcessingInstructionHandler = parser.XmlDeclHandler = note("other")
    parser.Parse(data, True)
    parts: list[tuple[str, str]] = []
    for (begin, kind), (end, _) in pairwise([*places, (len(data), "")]):
        part = data[begin:end].decode()
        if kind == "text" and parts and parts[-1][0] == "text":
            parts[-1] = kind, parts[-1][1] + part
        else:
            # Text between a declaration and the root is not reported.
            parts.append((kind, part if kind == "text" else part.rstrip()))
    return parts
