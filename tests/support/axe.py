"""axe-core, from Maven's central repository: what it finds on the page that a browser shows."""

from __future__ import annotations

import json
from functools import cache
from typing import Protocol
from zipfile import ZipFile

from tests.support import ROOT
from tests.support.maven import why_missing
from tests.support.require import unavailable

FOLDER = ROOT / ".build" / "axe"
TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
"""The rules of WCAG 2, level AA."""


class Page(Protocol):
    """A page that scripts run on, whatever its policy says."""

    def value(self, expression: str, /) -> object: ...


@cache
def axe() -> str:
    """The script; without it the test is skipped."""
    jars = [*FOLDER.glob("*.jar")]
    if not jars:
        unavailable("axe", f"no axe-core in {FOLDER.relative_to(ROOT)}: {why_missing(FOLDER)}")
    with ZipFile(jars[0]) as jar:
        [name] = [name for name in jar.namelist() if name.endswith("/axe.min.js")]
        return jar.read(name).decode()


def violations(page: Page, *rules: str) -> list[str]:
    """What is against :data:`TAGS`, or against some rules: each, what is wrong, and the first element."""
    page.value(f"if (!window.axe) {{ {axe()} }}")
    options = json.dumps({"runOnly": [*(rules or TAGS)], "resultTypes": ["violations"]})
    found = page.value(f"""
        axe.run(document, {options}).then((done) => done.violations.map((one) =>
            `${{one.id}}: ${{one.nodes[0].failureSummary}} ${{one.nodes[0].html}}`))
    """)
    assert isinstance(found, list), found
    return [str(one) for one in found]
