"""What docs/arrow.md shows of Delta tables; deltalake is too large to be installed for it alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import jdbcstore
from jdbcstore import Message
from tests.support import ROOT
from tests.support.docs.pages import Page


def test_a_delta_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("deltalake")
    monkeypatch.chdir(tmp_path)
    with jdbcstore.open("sqlite:///mq.db") as store:
        store.queue("ORDERS").add_messages([Message("beer", properties={"pints": n}) for n in (1, 2, 3)])
    [example] = Page(ROOT / "docs" / "arrow.md").examples("py")
    exec(compile(example.code, "arrow.md", "exec"), {"jdbcstore": jdbcstore, "Message": Message})  # noqa: S102
    assert capsys.readouterr().out.splitlines() == re.findall(r"print\(.*\)  # (.*)", example.code)
