"""Writes the golden files anew: ``python -m tests.golden``, then read what changed with git diff."""

from tests.golden.rendering import FOLDER, GOLDEN, render

for vendor in GOLDEN:
    (FOLDER / f"{vendor}.sql").write_text(render(vendor), encoding="utf-8")
