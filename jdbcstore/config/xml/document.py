"""An XML file as a tree that knows its lines. Entities, and what lies outside the file, are refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jdbcstore.errors import ConfigurationError

if TYPE_CHECKING:
    from xml.sax.xmlreader import AttributesNSImpl, Locator

_DEEPEST = 100
_SPRING_P = "http://www.springframework.org/schema/p"


@dataclass(slots=True, repr=False)
class Element:
    """An element by its local name: the prefix is the author's choice."""

    name: str
    line: int
    attributes: dict[str, str]
    properties: dict[str, str]
    """Spring's ``p:name`` attributes."""
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def all(self) -> Iterator[Element]:
        """This element and all below it."""
        yield self
        for child in self.children:
            yield from child.all()


def parse_xml(path: Path, data: bytes) -> Element:
    """The root of a document.

    :raises ConfigurationError: it is no XML, or tries what no configuration needs
    """
    from xml.sax import InputSource, SAXParseException
    from xml.sax.handler import ContentHandler, feature_external_ges, feature_namespaces

    from defusedxml import DefusedXmlException
    from defusedxml.sax import make_parser

    class Handler(_Builder, ContentHandler):
        pass

    handler = Handler(path)
    parser: Any = make_parser()
    # Old files name Spring's DTD. It is passed over; entities, which could be elsewhere, are refused.
    parser.forbid_external = False
    parser.setFeature(feature_external_ges, False)
    parser.setFeature(feature_namespaces, True)
    parser.setContentHandler(handler)
    source = InputSource()
    source.setByteStream(BytesIO(data))
    try:
        parser.parse(source)
    except SAXParseException as error:
        raise ConfigurationError(
            f"{error.getMessage()}; correct the XML", place=f"{path}:{error.getLineNumber()}"
        ) from error
    except DefusedXmlException as error:
        raise ConfigurationError(
            "entities are not read; write their text in their place",
            place=f"{path}:{handler.line}",
        ) from error
    except (ValueError, LookupError) as error:
        text = f"the encoding is not understood: {error}; save the file as UTF-8"
        raise ConfigurationError(text, place=str(path)) from error
    assert handler.root is not None  # noqa: S101
    return handler.root


class _Builder:
    """Handles what the parser sees."""

    root: Element | None = None
    locator: Locator | None = None

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: list[Element] = []

    @property
    def line(self) -> int:
        return (self.locator.getLineNumber() if self.locator else None) or 1

    def setDocumentLocator(self, locator: Locator) -> None:  # noqa: N802
        self.locator = locator

    def startElementNS(  # noqa: N802
        self, name: tuple[str | None, str], _qname: str | None, attributes: AttributesNSImpl
    ) -> None:
        if len(self._open) >= _DEEPEST:
            raise ConfigurationError(
                f"elements are nested deeper than {_DEEPEST}; no configuration is",
                place=f"{self._path}:{self.line}",
            )
        found: dict[str | None, dict[str, str]] = {}
        for (space, local), value in attributes.items():
            found.setdefault(space, {})[local] = value
        element = Element(name[1], self.line, found.get(None, {}), found.get(_SPRING_P, {}))
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def endElementNS(self, _name: tuple[str | None, str], _qname: str | None) -> None:  # noqa: N802
        element = self._open.pop()
        element.text = element.text.strip()

    def characters(self, content: str) -> None:
        self._open[-1].text += content
