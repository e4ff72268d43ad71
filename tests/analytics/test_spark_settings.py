"""The settings of a session: ours, a user's, and those that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore.analytics import vendors
from jdbcstore.analytics.spark_settings import all_settings, check_running, check_settings, chosen_master
from jdbcstore.errors import ConfigurationError

CLUSTER = "spark://master.example.com:7077"


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a driver of each vendor."""
    for name in ("postgresql.jar", "mariadb-java-client.jar", "sqlite-jdbc.jar"):
        (tmp_path / name).touch()
    monkeypatch.setenv(vendors.JARS_VARIABLE, str(tmp_path))
    monkeypatch.setattr(vendors, "_SYSTEM", ())
    return tmp_path


def test_a_cluster_has_its_web_page_and_partitions_and_its_workers_arrow_as_here() -> None:
    here, cluster = all_settings("local[2]"), all_settings(CLUSTER)
    for name in ("spark.ui.enabled", "spark.sql.shuffle.partitions", "spark.driver.host"):
        assert name in here
        assert name not in cluster
    for settings in (here, cluster):
        for process in ("driver", "executor"):
            options = settings[f"spark.{process}.extraJavaOptions"]
            assert "-Darrow.enable_unsafe_memory_access=true" in options
            assert "-Djava.library.path=" in options


def test_a_value_replaces_ours() -> None:
    assert all_settings("local[2]", {"spark.ui.enabled": "true"})["spark.ui.enabled"] == "true"
    submitted, given = {"spark.executor.memory": "2g"}, {"spark.executor.memory": "4g"}
    assert all_settings(CLUSTER, submitted, given)["spark.executor.memory"] == "4g"


def test_what_is_needed_stays_beside_what_is_given(jars: Path) -> None:
    given = {
        "spark.jars": "/mine/udf.jar",
        "spark.executor.extraJavaOptions": "-Dmine=1",
        "spark.redaction.regex": "mine",
    }
    settings = all_settings(CLUSTER, given)
    assert {*settings["spark.jars"].split(",")} == {"/mine/udf.jar", *map(str, jars.iterdir())}
    assert settings["spark.executor.extraJavaOptions"].startswith("-Djava.library.path=")
    assert settings["spark.executor.extraJavaOptions"].endswith(" -Dmine=1")
    assert settings["spark.redaction.regex"].endswith(r"|\.user$|mine")


@pytest.mark.parametrize(
    "given",
    [
        {"spark.jars": "file:///mine/postgresql-42.7.4.jar,/mine/udf.jar"},
        {"spark.jars.packages": "org.postgresql:postgresql:42.7.4"},
    ],
)
def test_a_driver_that_is_given_is_the_only_one_of_its_vendor(jars: Path, given: dict[str, str]) -> None:
    settings = all_settings(CLUSTER, given)
    assert str(jars / "postgresql.jar") not in settings["spark.jars"]
    assert str(jars / "sqlite-jdbc.jar") in settings["spark.jars"]
    assert given.items() <= settings.items() or settings["spark.jars"].endswith(given["spark.jars"])


def test_packages_are_added_to_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(vendors.JARS_VARIABLE, "org.postgresql:postgresql:42.7.4")
    settings = all_settings(CLUSTER, {"spark.jars.packages": "org.example:udf:1.0"})
    assert settings["spark.jars.packages"] == "org.postgresql:postgresql:42.7.4,org.example:udf:1.0"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"executor.memory": "4g"}, "executor.memory is not a setting of Spark"),
        ({"spark.sql.ansi.enabled": "false"}, "spark.sql.ansi.enabled must be true here: what the database"),
        ({"spark.submit.deployMode": "cluster"}, "spark.submit.deployMode must be client here"),
        ({"spark.api.mode": "connect"}, "spark.api.mode must be classic here"),
        ({"spark.remote": "sc://host"}, "spark.remote names a Spark Connect server; name a cluster"),
    ],
)
def test_what_contradicts_ours_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        check_settings(given)


def test_the_same_as_ours_is_no_contradiction() -> None:
    check_settings({"spark.sql.ansi.enabled": "TRUE", "spark.api.mode": "classic"})


def test_a_setting_may_name_the_master() -> None:
    assert chosen_master(None, {"spark.master": CLUSTER}) == CLUSTER
    assert chosen_master(CLUSTER, {"spark.master": CLUSTER}) == CLUSTER
    with pytest.raises(ConfigurationError, match=rf"the master is local, but spark\.master is {CLUSTER}"):
        chosen_master("local", {"spark.master": CLUSTER})


def test_a_session_that_runs_is_not_given_what_it_has_not() -> None:
    running = {"spark.master": "local[2]", "spark.jars": "/a.jar,/b.jar", "spark.executor.memory": "1g"}
    check_running(running, None, {})
    check_running(running, "local[2]", {"spark.jars": "/b.jar", "spark.executor.memory": "1g"})
    with pytest.raises(ConfigurationError, match=r"another spark\.master; stop it first"):
        check_running(running, CLUSTER, {})
    with pytest.raises(ConfigurationError) as refused:
        check_running(running, None, {"spark.hadoop.fs.s3a.secret.key": "hunter2"})
    assert "hunter2" not in str(refused.value)
