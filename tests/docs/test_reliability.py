"""The totals of ``docs/reliability.md`` are those of ``tests/long/FINDINGS.md``."""

from __future__ import annotations

import re

from tests.support import ROOT


def test_each_total_is_in_the_findings() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    totals = page.partition("\n## Totals\n")[2].partition("\n## ")[0]
    findings = (ROOT / "tests" / "long" / "FINDINGS.md").read_text(encoding="utf-8")
    figures = re.findall(r"\d+(?:,\d{3})+", totals)

    assert len(figures) >= 10
    assert [one for one in figures if not re.search(rf"(?<![\d,]){one}(?![\d,])", findings)] == []
