"""How many functions an operation calls is frozen: five percent more are on purpose."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from jdbcstore.util.core import in_use
from tests.support import ROOT
from tests.support.calls import FILE

RENEW = "if it is on purpose: .venv/bin/python -m tests.support.calls --write"
TOLERANCE = 0.05


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the calls are those of Python 3.11")
@pytest.mark.skipif(in_use() != "compiled", reason="the calls are those of the compiled core")
def test_an_operation_calls_no_more_functions_than_before() -> None:
    frozen: dict[str, int] = json.loads(FILE.read_text())
    # In a process of its own: no thread of another test is counted.
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.calls"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, f"an operation fails; the broker's tests say why:\n{done.stderr}"
    found: dict[str, int] = json.loads(done.stdout)

    assert found.keys() == frozen.keys(), RENEW
    longer = {
        name: f"{frozen[name]} -> {calls}"
        for name, calls in found.items()
        if calls > (1 + TOLERANCE) * frozen[name]
    }
    assert longer == {}, RENEW
