"""Facts that two places could state differently: each kind has one source."""

from __future__ import annotations

import csv
import re
from collections import defaultdict

from tests.support import ROOT
from tests.support.docs.style import Text, pages

DENIED = re.compile(r"no effect|not supported|does not support|(?:is|are) ignored|does not start")
OF_OTHERS = {"docs/artemis.md", "docs/guide/settings.md"}
"""Pages about another broker, and the page that is made from the list of settings."""


def _statements(text: Text) -> list[str]:
    rows = [line for line in text.source.splitlines() if line.startswith("|")]
    return [*rows, *re.split(r"(?<=[.!?:;])\s+|\n\n", re.sub(r"(?m)^\|.*\n", "", text.source))]


def test_no_page_denies_a_setting_that_is_supported() -> None:
    """``docs/guide/settings.csv``, which the code writes, has the fate of each setting."""
    fates = defaultdict(set)
    with (ROOT / "docs" / "guide" / "settings.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            fates[row["setting"] or row["element"]].add(row["fate"])
    wrong = [
        f"{text.name}: {name}: {' '.join(statement.split())}"
        for text in pages()
        if text.name not in OF_OTHERS
        for statement in _statements(text)
        if DENIED.search(statement)
        for name in re.findall(r"`([\w-]+)`", statement)
        if fates.get(name) == {"supported"}
    ]

    assert wrong == []


def test_the_tested_version_of_a_database_is_the_one_of_compatibility() -> None:
    compatibility = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
    everything = compatibility.partition("`make test` runs everything on ")[2].partition("\n\n")[0]
    for name in ("PostgreSQL", "MariaDB", "MySQL"):
        [version] = re.findall(rf"{name} (\d+(?:\.\d+)?)", everything)
        for text in pages():
            said = re.findall(rf"\b{name}\b[^\n]{{0,120}}\bteste?d?s?\W*,? on (\d+(?:\.\d+)?)", text.source)
            assert [one for one in said if one != version] == [], text.name


def test_times_and_processes_of_make_are_in_one_place() -> None:
    """Only CONTRIBUTING says how long ``make quick`` takes, only the Makefile how many processes run."""
    for name in ("Makefile", "README.md", "tests/README.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert not re.search(r"make quick[^\n]*\b(?:seconds?|minutes?)\b", text), name
        assert name == "Makefile" or "more than there are processors" not in text, name
    words = {"Two": 2, "Three": 3, "Four": 4}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    [said] = re.findall(r"# (\w+) more than there are processors", makefile)
    [done] = re.findall(r"n < \d \? n \+ (\d)", makefile)
    assert words[said] == int(done)
