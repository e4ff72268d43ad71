"""Airflow runs docs/deploy/airflow_backlog.py.

``python -m tests.versions airflow`` runs this; it is skipped without ``JDBCSTORE_TEST_AIRFLOW``, the folder
of the programs of an environment with Airflow and this package.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import jdbcstore
from jdbcstore import Message
from tests.support import ROOT

AIRFLOW = os.environ.get("JDBCSTORE_TEST_AIRFLOW", "")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not AIRFLOW, reason="python -m tests.versions airflow runs this"),
]
DAG = """
from airflow.sdk import DAG, task
from airflow_backlog import BacklogSensor

with DAG("orders") as dag:

    @task
    def use(number):
        print("waited for", number, flush=True)

    wait = BacklogSensor(task_id="wait", queue="ORDERS", messages=3, conn_id="mq", interval=0.1, timeout=120)
    use(wait.output)

if __name__ == "__main__":
    dag.test()
"""


@pytest.mark.backends("postgresql")
def test_a_dag_waits_for_messages(url: str, tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text(DAG)
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path),
        "AIRFLOW_CONN_MQ": url.replace("postgresql+psycopg", "postgresql"),
        "PYTHONPATH": str(ROOT / "docs" / "deploy"),
    }
    subprocess.run([f"{AIRFLOW}/airflow", "db", "migrate"], env=environment, check=True, capture_output=True)
    with jdbcstore.open(url) as store:
        queue = store.queue("ORDERS")
        queue.add_messages([Message("pie"), Message("stew")])
        printed = ""
        with subprocess.Popen(
            [f"{AIRFLOW}/python", str(tmp_path / "orders.py")],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as running:
            try:
                for line in running.stdout or ():
                    printed += line
                    if "2 of 3 messages" in line and queue.message_count() == 2:
                        queue.add_message(Message("ale"))
            finally:
                running.kill()
    assert "waited for 3\n" in printed, printed
