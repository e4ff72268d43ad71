"""Plain English, measured: words, kinds of pages, clauses in place of nouns, wide cells, laboratory notes.

``python -m tests.support.docs.style`` prints the measures of every page, and with names of pages each place.
The bounds only ever become lower.
"""

from __future__ import annotations

import pytest

from tests.support import ROOT
from tests.support.docs.style import KINDS, Text, longest, modules, pages

WORDS = 70_000
IN_PAGES = 2.0
"""Clauses in place of nouns in 1,000 words."""
IN_PRODUCT = 0.8
"""The same in 1,000 lines."""
SENTENCE, CELL = 35, 25
"""The most words."""
DATED = {"docs/benchmarks.md", "docs/releases/0.1.0.md", "docs/releases/0.2.0.md"}
"""Pages that have a date: of the measurement, and of the release."""

every_page = pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)


@every_page
def test_a_page_is_of_one_kind_and_no_longer_than_that_may_be(page: Text) -> None:
    if page.name == "docs/index.md":
        return
    assert page.kind in KINDS, f"begin with <!-- {' | '.join(KINDS)} -->"
    assert page.words <= KINDS[page.kind]


@every_page
def test_sentences_and_cells_are_short(page: Text) -> None:
    assert longest(page.sentences(), SENTENCE) == []
    assert longest(page.cells(), CELL) == []


@every_page
def test_a_page_is_no_notebook(page: Text) -> None:
    noted = [one for one in page.diary() if not (page.name in DATED and one.startswith("date"))]
    assert noted == []


@every_page
def test_a_page_names_things(page: Text) -> None:
    found = page.free_relatives()
    assert 1000 * len(found) <= IN_PAGES * max(page.words, 1000), found


def test_the_pages_have_no_more_words_than_they_may() -> None:
    written = [page for page in pages() if page.path.is_relative_to(ROOT / "docs")]
    assert sum(page.words for page in written) <= WORDS


def test_the_product_names_things() -> None:
    found = {module.name: module.free_relatives() for module in modules()}
    lines = sum(module.source.count("\n") for module in modules())
    worst = sorted(found.items(), key=lambda item: -len(item[1]))[:10]
    assert 1000 * sum(map(len, found.values())) <= IN_PRODUCT * lines, worst
