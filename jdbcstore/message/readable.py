"""Bodies as people read them: bytes that are text, and JSON with indentation."""

from __future__ import annotations

import codecs
import json
import re

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
    found: list[str] = []
    depth = 0
    parts = _TOKEN.findall(text)
    for at, part in enumerate(parts):
        if part in _EMPTY:
            depth += 1
            if depth > _DEEPEST:
                return None
            found.append(part)
            if parts[at + 1] != _EMPTY[part]:
                found.append("\n" + "  " * depth)
        elif part in ("}", "]"):
            depth -= 1
            if parts[at - 1] not in _EMPTY:
                found.append("\n" + "  " * depth)
            found.append(part)
        elif part == ",":
            found.append(",\n" + "  " * depth)
        else:
            found.append(": " if part == ":" else part)
    return "".join(found)
