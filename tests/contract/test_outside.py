"""The contract suite in another project: on the example of its page, and on stores with a defect."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.docs.pages import Page

SQLITE, MEMORY = (example.code for example in Page(ROOT / "docs" / "guide" / "testing.md").examples("python"))
REASON = re.compile(r"^SKIPPED \[\d+\] \S+: (.*)$", re.MULTILINE)

FORGETS_ORDER = """
from jdbcstore.abc import Page
from jdbcstore.stores.memory.destinations import MemoryMessageStore

recover = MemoryMessageStore.recover


@pytest.fixture(autouse=True)
def defect(monkeypatch):
    def backwards(*args, **options):
        page = recover(*args, **options)
        return Page(page.messages[::-1], page.cursor, page.at_end, page.corrupt)

    monkeypatch.setattr(MemoryMessageStore, "recover", backwards)
"""
FORGETS_ACKNOWLEDGEMENTS = """
@pytest.fixture
def provider(tmp_path):
    url = f"sqlite:///{tmp_path}/store.db"
    tables = RawTables(url)

    def open_store(**options):
        if Path(tmp_path, "store.db").exists():
            tables.execute("UPDATE ACTIVEMQ_ACKS SET LAST_ACKED_ID = 0")
        return jdbcstore.open(url, **options)

    return Provider(open=open_store, tables=tables)
"""


def run(directory: Path, conftest: str, *arguments: str) -> tuple[Counter[str], str]:
    """Run the suite in a project with this conftest.py, and return the numbers of outcomes and the output."""
    (directory / "conftest.py").write_text(conftest)
    command = [sys.executable, "-m", "pytest", "-q", "-rfEs", "-p", "no:cacheprovider", "--strict-markers"]
    done = subprocess.run(
        [*command, "--color=no", "-W", "error", "-m", "not slow", "--pyargs", *arguments],
        cwd=directory,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=540,
    )
    summary = done.stdout.strip().rpartition("\n")[2]
    return Counter({name: int(number) for number, name in re.findall(r"(\d+) (\w+)", summary)}), done.stdout


ALSO_IN_TABLES = ("damage", "destinations", "queue", "restart", "transaction")
"""Modules with cases of each kind that the store in memory skips; with all of them it takes 14 s."""


@pytest.mark.slow
def test_the_page_s_example_passes_all_cases(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    whole = pytestconfig.getoption("--whole")
    modules = [f"jdbcstore.testing.contract.test_{module}" for module in ALSO_IN_TABLES]
    outcomes, output = run(tmp_path, SQLITE, *(["jdbcstore.testing.contract"] if whole else modules))

    assert (outcomes["failed"], outcomes["error"], outcomes["errors"], outcomes["skipped"]) == (0, 0, 0, 0), (
        output
    )
    assert outcomes["passed"] > (280 if whole else 70), output


def test_what_a_store_does_not_support_is_skipped_with_its_reason(tmp_path: Path) -> None:
    outcomes, output = run(tmp_path, SQLITE + MEMORY, "jdbcstore.testing.contract")

    assert (outcomes["failed"], outcomes["error"], outcomes["errors"]) == (0, 0, 0), output
    assert outcomes["passed"] > 200, output
    assert {*REASON.findall(output)} == {
        "in memory nothing outlives the process",
        "looks into the tables of a JdbcStore",
        "the store does not have: durable",
        "the store does not have: durable, shared",
        "the store does not have: shared, durable",
    }


def test_options_and_xa_may_be_missing(tmp_path: Path) -> None:
    few = MEMORY.replace("shared=False", 'shared=False, xa=False, options=frozenset({"cleanup_period"})')
    modules = [f"jdbcstore.testing.contract.test_{module}" for module in ("audit", "xa")]
    outcomes, output = run(tmp_path, SQLITE + few, *modules)

    assert (outcomes["failed"], outcomes["passed"]) == (0, 1), output
    assert {*REASON.findall(output)} == {
        "looks into the tables of a JdbcStore",
        "the store does not have the option enable_audit",
        "the store does not have the option enable_audit, max_audit_depth",
        "the store does not have the option enable_audit, max_producers_to_audit",
        "the store does not have: xa",
    }


def test_a_store_that_forgets_the_order_fails(tmp_path: Path) -> None:
    outcomes, output = run(tmp_path, SQLITE + MEMORY + FORGETS_ORDER, "jdbcstore.testing.contract.test_queue")

    assert outcomes["failed"] > 0
    assert "::test_messages_come_back_in_the_order_they_were_added" in output


def test_a_store_that_forgets_acknowledgements_when_it_is_opened_again_fails(tmp_path: Path) -> None:
    outcomes, output = run(
        tmp_path, SQLITE + FORGETS_ACKNOWLEDGEMENTS, "jdbcstore.testing.contract.test_restart"
    )

    assert outcomes["failed"] > 0
    assert outcomes["passed"] > 0
    assert "::test_everything_is_there" in output


def test_the_package_does_not_import_the_suite() -> None:
    code = "import sys, jdbcstore; print({'pytest', 'hypothesis', 'jdbcstore.testing'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=180)

    assert done.stdout == "set()\n", done.stderr
