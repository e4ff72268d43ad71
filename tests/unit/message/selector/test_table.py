"""Every expression of the table gives what it should."""

from __future__ import annotations

import pytest

from jdbcstore.errors import InvalidSelector
from jdbcstore.message.selector import Selector
from tests.support.selector.table import MESSAGE, TABLES, Case, E, F, T, U


def result(text: str) -> str:
    """The three values of a selector are told apart by asking for its negation too."""
    prefix, colon, bare = text.partition("convert_string_expressions:")
    try:
        selector = Selector(text)
    except InvalidSelector:
        return E
    opposite = Selector(f"{colon}NOT ({bare})" if colon else f"NOT ({prefix})")
    matches, differs = selector.matches(MESSAGE), opposite.matches(MESSAGE)
    assert not (matches and differs)
    return T if matches else F if differs else U


@pytest.mark.parametrize("cases", TABLES.values(), ids=TABLES)
def test_expressions(cases: list[Case]) -> None:
    assert {case.text: result(case.text) for case in cases} == {case.text: case.expected for case in cases}


def test_no_expression_is_there_twice() -> None:
    texts = [case.text for cases in TABLES.values() for case in cases]
    assert len(texts) == len(set(texts))
    assert len(texts) > 200
