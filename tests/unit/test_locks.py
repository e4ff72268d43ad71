"""The list of locks in ``docs/locks.csv`` has each lock of the package, and no other."""

from __future__ import annotations

import ast
import csv
from collections.abc import Iterator
from pathlib import Path

from tests.support import ROOT

PACKAGE = ROOT / "jdbcstore"
_MAKERS = {"Lock", "RLock", "Condition"}


def locks(path: Path) -> Iterator[str]:
    """The names of the locks that a module makes; a condition of a lock that it has is not another one."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and not node.value.args:
            made = ast.unparse(node.value.func)
            if made.startswith("threading.") and made.removeprefix("threading.") in _MAKERS:
                yield ast.unparse(node.targets[0]).removeprefix("self.")


def test_every_lock_has_its_place_in_the_order() -> None:
    with (ROOT / "docs" / "locks.csv").open(encoding="utf-8", newline="") as file:
        listed = [(row["module"], row["lock"]) for row in csv.DictReader(file)]
    made = [
        (path.relative_to(PACKAGE).as_posix(), name)
        for path in sorted(PACKAGE.rglob("*.py"))
        if PACKAGE / "testing" not in path.parents  # cases for others' stores
        for name in locks(path)
    ]

    assert sorted(listed) == sorted({*made})
