"""Measures of plain English: ``python -m tests.support.docs.style [PAGE...]`` prints them, worst first.

A free relative is a clause in place of a noun: "what is stored" for "stored messages", "nobody" for
"no process".
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import click

from tests.support import ROOT

FREE_RELATIVES = re.compile(
    r"\bwhat (?:is|are|was|were|has|have|had|it|they|does|did|can|must|comes?|came|a|the)\b"
    r"|\bthose (?:who|that|which)\b|\b(?:any|every|no|the)?one (?:that|who)\b"
    r"|\b(?:nobody|whoever|whatever|no one|(?:any|some|every)body)\b"
    r"|(?:^|[.,;:(] |\b(?:of|to|for|by|and|or|but|that|if|see|says?) )who\b(?! am i)",
    re.IGNORECASE | re.MULTILINE,
)
DIARY = {
    "date": re.compile(r"\b20\d\d-\d\d-\d\d\b"),
    "load": re.compile(r"\bloads? (?:of|average) \d|\bat a load\b|\bnothing (?:else )?beside\b"),
    "seed": re.compile(r"\bseeds?\b", re.IGNORECASE),
    "commit": re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,12}\b"),
}
"""Notes of a laboratory, which have no place on a page for users."""

KINDS = {"tutorial": 2_700, "how-to": 900, "explanation": 2_700, "reference": 2_700}
"""The kinds of page, and the most words that one may have."""

_FENCED = re.compile(r"^ *```.*?^ *```\s*?$", re.MULTILINE | re.DOTALL)
_KIND = re.compile(r"\A<!-- (\S+) -->\n")
_MARKS = re.compile(r"\]\([^)]*\)|[\[\]*_`]|<[^>]*>")


@dataclass(frozen=True)
class Text:
    """A page as its reader meets it."""

    path: Path

    @cached_property
    def source(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def kind(self) -> str:
        """One of :data:`KINDS`, from the comment in the page's first line; empty without one."""
        match = _KIND.match(self.source)
        return match[1] if match else ""

    @cached_property
    def prose(self) -> str:
        """The text without fenced blocks and marks; a table keeps its lines."""
        return _MARKS.sub("", _FENCED.sub("\n", _KIND.sub("", self.source)))

    @cached_property
    def words(self) -> int:
        return len(re.findall(r"\S*\w\S*", _KIND.sub("", self.source)))

    def cells(self) -> Iterator[str]:
        for line in self.prose.splitlines():
            if line.startswith("|") and not re.fullmatch(r"[|\s:-]*", line):
                yield from (cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])

    def sentences(self) -> Iterator[str]:
        """Sentences of paragraphs and list items, without tables and headings."""
        lines = [line for line in self.prose.splitlines() if not line.startswith(("|", "#"))]
        for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", "\n".join(lines)):
            yield from (one for one in re.split(r"(?<=[.!?])\s+", " ".join(block.split())) if one)

    def free_relatives(self) -> list[str]:
        return [" ".join(match[0].split()) for match in FREE_RELATIVES.finditer(self.prose)]

    def diary(self) -> list[str]:
        found = (
            (name, match[0]) for name, pattern in DIARY.items() for match in pattern.finditer(self.prose)
        )
        return [f"{name}: {text}" for name, text in found]


def pages() -> list[Text]:
    """Return the README and the written pages of docs/, without fragments of the changelog."""
    left_out = ("changes", "generated")
    paths = sorted((ROOT / "docs").rglob("*.md"))
    kept = (path for path in paths if path.relative_to(ROOT / "docs").parts[0] not in left_out)
    return [Text(ROOT / "README.md"), *map(Text, kept)]


def modules() -> list[Text]:
    """Return the modules of the product, whose comments and strings are prose, too."""
    return [Text(path) for path in sorted((ROOT / "jdbcstore").rglob("*.py"))]


def longest(texts: Iterable[str], words: int) -> list[str]:
    """Return texts of more than so many words, the longest first."""
    return sorted((one for one in texts if len(one.split()) > words), key=lambda one: -len(one.split()))


def main() -> None:
    chosen = [Text(Path(name).resolve()) for name in sys.argv[1:]] or pages()
    for text in sorted(chosen, key=lambda text: -text.words):
        relatives = text.free_relatives()
        click.echo(
            f"{text.name}: {text.kind or 'no kind'}, {text.words} words,"
            f" {1000 * len(relatives) / max(text.words, 1):.1f} free relatives per 1,000 words,"
            f" {len(longest(text.sentences(), 35))} sentences above 35 words,"
            f" {len(longest(text.cells(), 25))} cells above 25, diary {len(text.diary())}"
        )
        if sys.argv[1:]:
            for label, found in (
                ("free relatives", relatives),
                ("sentences above 35 words", longest(text.sentences(), 35)),
                ("cells above 25 words", longest(text.cells(), 25)),
                ("diary", text.diary()),
            ):
                for one in found:
                    click.echo(f"    {label}: {one}")
    click.echo(f"{sum(text.words for text in chosen)} words in all")


if __name__ == "__main__":
    main()
