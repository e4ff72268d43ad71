"""docs/guide/settings.md has every setting of the schemas, with what the code does with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jdbcstore.config.fates import names_of
from tests.support.configuration import settings
from tests.support.require import unavailable


def test_the_page_is_that_of_the_code() -> None:
    again = "run python -m tests.support.configuration.settings, and look at what has changed"

    assert settings.page() == settings.PAGE.read_text(), again


def test_nothing_is_passed_over_in_silence() -> None:
    """Each setting is obeyed, or a note says why not; none is unknown."""
    rows = [line for line in settings.PAGE.read_text().splitlines() if line.startswith("| ")]

    assert len(rows) > 900
    assert [row for row in rows if row.endswith("|  |") or "| unknown: " in row] == []


def test_the_names_are_those_of_the_schemas() -> None:
    for part, (jar, _) in settings.JARS.items():
        if not Path(jar).exists():
            unavailable(part, f"no {jar}, whose schema has the names")

    assert json.loads(settings.SCHEMAS.read_text()) == settings.schemas()


@pytest.mark.parametrize("option", sorted(names_of("PolicyEntry")))
def test_what_has_no_effect_is_not_called_obeyed(option: str) -> None:
    """The note depends on the value; the page must not."""
    assert f"| `{option}` | obeyed: `policies." not in settings.PAGE.read_text()
