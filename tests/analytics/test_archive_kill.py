"""Whenever archiving is killed: each message is in the archive once, and none is lost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jdbcstore.tools import archive
from jdbcstore.tools.archive import Window
from tests.analytics.archive_killing import Killing
from tests.support.analytics import unatomic
from tests.support.analytics.archives import BEFORE, archived, fill, place, stored
from tests.support.analytics.deaths import KILLED, OF_FOLDERS, REMOVAL, STAGES, Deaths
from tests.support.databases import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.timeout(900)  # ten processes, one after the other
@pytest.mark.parametrize("system", ["local", "unatomic"])
@pytest.mark.backends("sqlite")
def test_archiving_is_killed_at_every_stage(
    spark: SparkSession, database: Database, tmp_path: Path, system: str, pytestconfig: pytest.Config
) -> None:
    """One archive through all deaths, each met by the next run; also where there is no rename and no lock."""
    if system == "unatomic":
        unatomic.add(spark, tmp_path)
    folder = unatomic.url_of(tmp_path / "archive") if system == "unatomic" else str(tmp_path / "archive")
    fill(database)
    everything = stored(database)
    old = {row for row in everything if b"in doubt" not in row[4] and b"new" not in row[4]}
    window = Window(BEFORE)

    with Deaths(spark, database.url, folder, BEFORE, tmp_path / "errors") as deaths:
        for stage in OF_FOLDERS if system == "local" and not pytestconfig.getoption("--whole") else STAGES:
            assert deaths.run(stage) == KILLED, (stage, deaths.errors.read_text())
            assert stored(database) == everything, stage
            assert set(archived(folder).values()) <= {1}, stage
            assert set(archived(folder)) <= old, stage
        archive.write(spark, place(database), folder, window, batch=15)
        assert set(archived(folder)) == old
        assert set(archived(folder).values()) == {1}
        rows = archive.read(spark, folder).select("id", "container").collect()
        assert sorted(map(tuple, rows)) == sorted((row[0], row[1]) for row in old)
        batches = {manifest.folder for manifest in archive.Archive(folder).manifests()}
        assert {path.name for path in (tmp_path / "archive").glob("batch=*")} == batches

        for stage in REMOVAL:
            assert deaths.run(stage) == KILLED, (stage, deaths.errors.read_text())
            assert stored(database) | set(archived(folder)) == everything, stage
            assert stored(database) >= everything - old, stage
        archive.remove(place(database), folder, window)
        assert stored(database) == everything - old
        assert archived(folder) == dict.fromkeys(old, 1)
        archive.restore(folder, place(database))
        assert stored(database) == everything


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.timeout(900)
@pytest.mark.backends("sqlite")
def test_archiving_is_killed_at_any_moment(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    """A few times; ``python -m tests.analytics.archive_killing`` does it fifty times."""
    unatomic.add(spark, tmp_path)
    with Killing(spark, database, tmp_path, 1, unatomic.url_of(tmp_path / "archive")) as killing:
        for _ in range(3):
            killing.kill()
        assert killing.finish() == []
