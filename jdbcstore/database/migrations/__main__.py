"""``python -m jdbcstore.database.migrations DIRECTORY``: write every vendor's scripts."""

from __future__ import annotations

import sys
from pathlib import Path

from jdbcstore.database.migrations.scripts import VENDORS, scripts


def main(directory: Path) -> None:
    for vendor in VENDORS:
        folder = directory / vendor
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in scripts(vendor).items():
            (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
