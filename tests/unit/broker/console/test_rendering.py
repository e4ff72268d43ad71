"""Values as pages show them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jdbcstore.broker.console import rendering
from jdbcstore.broker.management.texts import counted

TEMPLATES = Path(rendering.__file__).parent / "templates"


@pytest.mark.parametrize(("value", "text"), [(0, "0 messages"), (1, "1 message"), (2000, "2,000 messages")])
def test_a_number_with_its_noun(value: int, text: str) -> None:
    assert counted(value, "message") == text


def test_no_page_has_a_noun_that_is_always_plural() -> None:
    wrong = re.compile(r"\|number\s*\}\}\s+(messages|queues|topics|consumers|writes|items|files)\b")
    pages = [*TEMPLATES.glob("*.html")]
    assert len(pages) > 10
    assert [page.name for page in pages if wrong.search(page.read_text())] == []
