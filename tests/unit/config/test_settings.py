"""docs/guide/settings.csv has every setting of the schemas with its fate."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from jdbcstore.config.fates import names_of
from tests.support.configuration import settings
from tests.support.require import unavailable

AGAIN = "run python -m tests.support.configuration.settings, and look at the changes"


@pytest.fixture(scope="module")
def today() -> list[tuple[str, str, str, str, str]]:
    return settings.rows()


@pytest.fixture(scope="module")
def stored() -> list[list[str]]:
    with settings.DATA.open(newline="") as file:
        return list(csv.reader(file))[1:]


def test_the_list_is_that_of_the_code(today: list[tuple[str, str, str, str, str]]) -> None:
    assert settings.data(today) == settings.DATA.read_text(), AGAIN


def test_nothing_is_passed_over_in_silence(stored: list[list[str]]) -> None:
    """Each setting is supported, or a note gives the reason; none is unknown."""
    assert len(stored) > 800
    assert {row[3] for row in stored} == {"supported", "no effect", "not supported", "refused"}
    assert [row for row in stored if row[3] != "supported" and not row[4]] == []


def test_the_names_are_those_of_the_schemas() -> None:
    for part, (jar, _) in settings.JARS.items():
        if not Path(jar).exists():
            unavailable(part, f"no {jar}, whose schema has the names")

    assert json.loads(settings.SCHEMAS.read_text()) == settings.schemas()


@pytest.mark.parametrize("option", sorted(names_of("PolicyEntry")))
def test_a_setting_without_effect_is_not_called_supported(option: str, stored: list[list[str]]) -> None:
    """The note depends on the value; the list must not."""
    assert [row for row in stored if row[2] == option and row[4].startswith("policies.")] == []
