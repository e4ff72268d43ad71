"""Tests depend on each other through what they change: the constants of a module are guarded against that."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.support.constants import Constants


@pytest.fixture
def module() -> ModuleType:
    module = ModuleType("of_tests")
    vars(module).update(TEN=[1, 2], NAMES={"a": 1}, _KINDS={"a"}, LEAST=3, seen=[])
    return module


def test_what_changes_constants_is_noticed(module: ModuleType) -> None:
    constants = Constants(module)
    expected = module.TEN  # meant to be a copy
    expected.append(3)
    assert constants.changed() == ["TEN"]
    module.NAMES["b"] = 2
    module._KINDS.clear()
    assert constants.changed() == ["TEN", "NAMES", "_KINDS"]


def test_what_is_not_a_constant_may_change(module: ModuleType) -> None:
    constants = Constants(module)
    module.seen.append(1)
    vars(module)["LEAST"] = 4
    assert constants.changed() == []


def test_what_was_put_in_its_place_for_a_while_is_no_change(module: ModuleType) -> None:
    constants = Constants(module)
    vars(module)["TEN"] = [7]
    assert constants.changed() == []
