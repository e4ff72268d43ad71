"""The page about Artemis lists the differences that the tests expect, and these are of tests that exist."""

from __future__ import annotations

import re

from tests.support import ROOT
from tests.support.interop.differences import DIFFERENCES, PAGE, written


def test_the_page_has_the_tables_of_the_tests() -> None:
    page = PAGE.read_text()
    assert page == written(page), "run python -m tests.support.interop.differences"


def test_each_difference_is_of_a_test() -> None:
    for folder, differences in DIFFERENCES.items():
        names = set()
        for path in (ROOT / "tests" / "interop" / folder).glob("test_*.py"):
            functions = re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE)
            names |= {path.stem, *(f"{path.stem}::{function}" for function in functions)}
        assert {case.partition("[")[0] for cases in differences.values() for case in cases} <= names
