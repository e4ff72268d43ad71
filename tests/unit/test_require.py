"""Names of JDBCSTORE_REQUIRE: whatever the suite skips or the Makefile requires is known to every run."""

from __future__ import annotations

import re

from tests.support import ROOT
from tests.support.backends import BACKENDS
from tests.support.require import PARTS


def test_every_part_that_a_test_skips_can_be_required() -> None:
    skipped = {
        name
        for module in (ROOT / "tests").rglob("*.py")
        for name in re.findall(r'\b(?:unavailable|npm\.installed)\(\s*"([^"]+)"', module.read_text())
    }

    assert skipped == PARTS


def test_what_make_test_requires_can_be_required() -> None:
    rule = re.search(
        r"^test: export JDBCSTORE_REQUIRE \?= (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    assert rule
    always, *_ = rule[1].partition("$")
    names = {*always.split(","), *re.findall(r"echo ,([\w-]+)", rule[1])}

    assert {"sqlite", "spin", "mysql", "artemis"} <= names <= PARTS | {backend.id for backend in BACKENDS}
