"""Lists of views: conditions, and orders."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from jdbcstore.broker.management.lists import arranged, conditions
from jdbcstore.broker.operations import NotARequest


@dataclass(frozen=True)
class View:
    name: str
    size: int | None = None
    idle: float = 0.0


VIEWS = [View("a", 2), View("b"), View("c", 10, 60.5), View("d", 2, 60.5)]


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ("", "abcd"),
        ("size>2", "c"),
        ("size >= 2, idle = 60.5", "cd"),
        ("size != 10,", "ad"),
        ("size < -1", ""),
    ],
)
def test_conditions_on_numbers(where: str, names: str) -> None:
    found = arranged(VIEWS, where=where, sort="name", is_descending=False)
    assert "".join(view.name for view in found) == names


@pytest.mark.parametrize("text", ["size", "size > x", "name = 1", "__class__ = 1", "size > 1 idle > 2", ";"])
def test_what_is_no_condition_is_refused_with_the_names(text: str) -> None:
    with pytest.raises(NotARequest, match=r"write, for example, size > 100.*: size, idle"):
        conditions(text, View)


@pytest.mark.parametrize(("is_descending", "names"), [(False, "adcb"), (True, "cadb")])
def test_what_has_no_value_is_last_in_both_orders(is_descending: bool, names: str) -> None:
    found = arranged(VIEWS, where="", sort="size", is_descending=is_descending)
    assert "".join(view.name for view in found) == names
