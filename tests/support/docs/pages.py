"""The pages of the documentation: their examples, links and headings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.support import ROOT

_GENERATED = ROOT / "docs" / "generated"
_CHANGES = sorted((ROOT / "docs" / "changes").glob("*.*.md"))
"""Lines of the changelog to be, whose links are those of CHANGELOG.md in the root."""
PAGES = (
    ROOT / "README.md",
    *(
        page
        for page in sorted((ROOT / "docs").rglob("*.md"))
        if _GENERATED not in page.parents and page not in _CHANGES
    ),
)

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """A fenced block, and the line of its first line of code."""

    language: str
    code: str
    line: int


class Page:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = path.read_text(encoding="utf-8")

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    def examples(self, language: str) -> list[Example]:
        found = [
            Example(match[1], match[2], self.text.count("\n", 0, match.start(2)) + 1)
            for match in _FENCED.finditer(self.text)
        ]
        return [example for example in found if example.language == language]

    @property
    def prose(self) -> str:
        """The text without its fenced blocks."""
        return _FENCED.sub("", self.text)

    def links(self) -> list[str]:
        return _LINK.findall(self.prose)

    def anchors(self) -> set[str]:
        """What a link may name behind ``#``, as GitHub makes it of a heading."""
        headings = (heading.lower() for heading in _HEADING.findall(self.prose))
        return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


def matches(expected: str, actual: str) -> bool:
    """Whether the output is the one shown, in which ``...`` stands for anything within a line."""
    pattern = r"[^\n]*".join(re.escape(part) for part in expected.split("..."))
    return re.fullmatch(pattern, actual) is not None
