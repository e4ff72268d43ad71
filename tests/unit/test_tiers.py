"""``-m "not servers and not java and not spark"`` chooses tests that start none of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support import ROOT, tiers
from tests.support.servers import PostgresqlServer

SOME = (
    "tests/analytics/test_questions.py",
    "tests/contract/test_queue.py",
    "tests/interop/test_schema.py",
    "tests/lockers/test_row_lock.py",
)


def collected(chosen: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, "-m", chosen, *SOME], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_the_quick_ones_are_in_memory_and_on_sqlite() -> None:
    quick = collected(f"not slow and {' and '.join(f'not {tier}' for tier in tiers.TIERS)}")

    assert {name.partition("::")[0] for name in quick} == {SOME[1]}
    backends = {name.rpartition("[")[2].rstrip("]").partition("-")[0] for name in quick}
    assert backends == {"memory", "filtered", "sqlite"}


@pytest.mark.parametrize(("tier", "folder"), [("spark", "analytics"), ("java", "interop")])
def test_a_folder_has_its_tier(tier: str, folder: str) -> None:
    assert f"tests/{folder}" in {name.partition("/test_")[0] for name in collected(tier)}


def test_what_is_not_marked_starts_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PostgresqlServer, "_find_programs", lambda _: None)  # whether it is installed or not
    with pytest.raises(tiers.UnmarkedError, match="servers"):
        PostgresqlServer()
