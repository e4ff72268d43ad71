"""Cases below ``tests/interop`` in which Artemis does not do what ActiveMQ does; see ``differences.toml``."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping

import pytest

from tests.support import ROOT

ARTEMIS = "artemis"
"""Its id as a parameter."""
_LISTED = tomllib.loads((ROOT / "tests" / "interop" / "artemis" / "differences.toml").read_text())
SOMETIMES = frozenset(_LISTED.pop("sometimes"))
"""Cases in which it differs by chance."""
DIFFERENCES: Mapping[str, Mapping[str, list[str]]] = _LISTED
"""By folder: what Artemis does, and the cases that see it."""
PEERS = frozenset({"activemq", ARTEMIS})
"""Brokers that are not ours, as parameters: a case on one has failed when it fails three times in a row.

Their threads race where ours do not, and one answer by chance would say nothing about jdbcstore.
"""
WHOLE = "JDBCSTORE_WAIT" in os.environ
"""These cases are run, too; most of them wait in vain for a message."""
PAGE = ROOT / "docs" / "artemis.md"


def on_artemis(item: pytest.Item) -> bool:
    """Return whether this is a case with Artemis as its broker."""
    return _broker(item) == ARTEMIS


def _broker(item: pytest.Item) -> object:
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("broker")


def mark(item: pytest.Item) -> None:
    """Let a case on another's broker run again if it fails; expect one on Artemis to fail if it is listed."""
    if _broker(item) in PEERS:
        item.add_marker(pytest.mark.flaky(reruns=2))
    if not on_artemis(item):
        return
    module, case = item.path.stem, f"{item.path.stem}::{item.name}"
    names = {module, case, case.partition("[")[0]}
    for reason, cases in DIFFERENCES.get(item.path.parent.name, {}).items():
        if names.intersection(cases):
            run = WHOLE and not names & SOMETIMES
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True, run=run))
