"""``doctor --report``: what the file for an issue says, and what it never says."""

from __future__ import annotations

from pathlib import Path

import pytest

import jdbcstore
from jdbcstore.cli.exit_codes import ExitCode
from tests.cli.conftest import Invoke

SECRETS = ("s3cr3t-url", "s3cr3t-file", "s3cr3t-env", "s3cr3t-key", "alice", "db.internal", "payroll")


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration with secrets wherever one can be written."""
    path = tmp_path / "secret.toml"
    path.write_text(
        'url = "postgresql://alice:s3cr3t-url@127.0.0.1:1/payroll?options=s3cr3t-key"\n'
        'user = "alice"\n'
        'password = "s3cr3t-file"\n'
        'broker_name = "db.internal"\n'
        'table_prefix = "SHOP_"\n'
        "pool_size = 3\n"
    )
    monkeypatch.setenv("JDBCSTORE_PASSWORD", "s3cr3t-env")
    return path


def test_a_report_has_no_secret(invoke: Invoke, planted: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    done = invoke("doctor", "--config", str(planted), "--report", str(report))
    text = report.read_text()

    assert done.code == ExitCode.UNAVAILABLE
    assert [secret for secret in SECRETS if secret in text] == []
    assert "127.0.0.1" not in text
    assert "- postgresql: StoreUnavailable" in text
    assert "- `pool_size`: 3\n" in text
    assert "- `table_prefix`: 'SHOP_'\n" in text
    assert "- `broker_name`: set, not shown\n" in text
    assert "- `JDBCSTORE_PASSWORD` is set\n" in text


def test_a_report_names_what_is_installed(invoke: Invoke, tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    done = invoke("doctor", "--report", str(report))

    assert done.code == 0
    assert f"- jdbcstore {jdbcstore.__version__}\n" in report.read_text()
    assert str(Path.home()) not in report.read_text()

    again = invoke("doctor", "--report", str(report))
    assert again.code == ExitCode.USAGE
    assert "exists; remove it, or choose another file" in again.err
