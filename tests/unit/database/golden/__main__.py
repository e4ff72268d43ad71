"""``python -m tests.unit.database.golden`` writes the golden files again; read what changed with git diff."""

from tests.unit.database.golden.rendering import FOLDER, GOLDEN, render

for vendor in GOLDEN:
    (FOLDER / f"{vendor}.sql").write_text(render(vendor), encoding="utf-8")
