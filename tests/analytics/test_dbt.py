"""dbt builds the models of docs/deploy/dbt over an export of messages.

``python -m tests.versions dbt`` runs this; it is skipped without ``JDBCSTORE_TEST_DBT``, the folder of dbt.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import duckdb
import pytest

import jdbcstore
from jdbcstore import Message
from jdbcstore.analytics.lake import DeltaTable, to_lake
from tests.support import ROOT

DBT = os.environ.get("JDBCSTORE_TEST_DBT", "")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not DBT, reason="python -m tests.versions dbt runs this"),
]
HOUR_MS = 3_600_000


def test_models_over_an_export(tmp_path: Path) -> None:
    url, lake, project = f"sqlite:///{tmp_path}/mq.db", tmp_path / "lake", tmp_path / "dbt"
    shutil.copytree(ROOT / "docs" / "deploy" / "dbt", project)

    def build() -> list[tuple[object, ...]]:
        to_lake(url, DeltaTable(str(lake)))
        done = subprocess.run(
            [f"{DBT}/dbt", "build", "--profiles-dir", "."],
            cwd=project,
            env={**os.environ, "LAKE": str(lake), "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        with duckdb.connect(str(project / "messages.duckdb"), read_only=True) as built:
            asked = "SELECT region, epoch_ms(hour), messages FROM messages_by_hour ORDER BY ALL"
            hours: list[tuple[object, ...]] = built.execute(asked).fetchall()
            assert built.execute("SELECT reason, messages FROM dead_letters").fetchall() == [("burnt", 1)]
        return hours

    with jdbcstore.open(url) as store:
        orders = store.queue("ORDERS")
        for number in range(3):
            order = Message("pie", properties={"region": "EU"}, timestamp_ms=HOUR_MS + number)
            orders.add_message(order)
        dead = Message("stew", properties={"dlqDeliveryFailureCause": "burnt"}, timestamp_ms=HOUR_MS)
        store.queue("ActiveMQ.DLQ").add_message(dead)
        assert build() == [("EU", HOUR_MS, 3), (None, HOUR_MS, 1)]
        orders.add_message(Message("ale", properties={"region": "EU"}, timestamp_ms=2 * HOUR_MS))
    assert build() == [("EU", HOUR_MS, 3), ("EU", 2 * HOUR_MS, 1), (None, HOUR_MS, 1)]
