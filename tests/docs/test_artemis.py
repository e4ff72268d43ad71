"""The page about Artemis lists differences that the tests expect, and these are of tests that exist."""

from __future__ import annotations

import re

from tests.support import ROOT
from tests.support.interop.differences import DIFFERENCES, PAGE


def test_each_row_of_the_page_is_a_difference_of_the_tests() -> None:
    page = PAGE.read_text()
    for folder, title in (("behaviours", "STOMP"), ("jms", "JMS over OpenWire")):
        section = page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
        rows = re.findall(r"^\| [\w -]+ \| (.+) \|$", section, re.MULTILINE)[1:]
        assert len(rows) >= 10
        assert [row for row in rows if row not in DIFFERENCES[folder]] == []


def test_each_difference_is_of_a_test() -> None:
    for folder, differences in DIFFERENCES.items():
        names = set()
        for path in (ROOT / "tests" / "interop" / folder).glob("test_*.py"):
            functions = re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE)
            names |= {path.stem, *(f"{path.stem}::{function}" for function in functions)}
        assert {case.partition("[")[0] for cases in differences.values() for case in cases} <= names
