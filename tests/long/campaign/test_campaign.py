"""A dozen faults of the campaign; ``__main__`` is the long run."""

from __future__ import annotations

import random
import threading
from contextlib import closing
from pathlib import Path

import pytest

from jdbcstore.testing.polling import wait_until
from tests.support.campaign.mutations import MUTATIONS
from tests.support.campaign.run import Report, run_world
from tests.support.campaign.versions import Versions, chosen_commit
from tests.support.cli.zygote import run_program
from tests.support.require import unavailable
from tests.support.servers import ServerMissing

FAULTS = 4
NODE_FAULTS = 2


@pytest.mark.slow
@pytest.mark.servers
@pytest.mark.parametrize("database", [pytest.param("sqlite", marks=pytest.mark.whole), "postgresql"])
def test_a_small_campaign(database: str) -> None:
    before = {*threading.enumerate()}
    report = Report(seed=31)
    assert run_world(report, database, 0, FAULTS) == []
    assert sum(report.done.values()) == FAULTS
    assert report.counts["deliveries"] > 100
    left = [thread.name for thread in threading.enumerate() if thread not in before]
    # The watch of PostgreSQL's deadlines ends by itself.
    left = [name for name in left if name.startswith("jdbcstore") and name != "jdbcstore-watch"]
    assert not left, "its clients left something open"


@pytest.mark.slow
@pytest.mark.servers
@pytest.mark.parametrize(
    ("cluster", "kinds"),
    [
        pytest.param("galera", ("node killed", "node isolated"), marks=pytest.mark.xdist_group("clusters")),
        pytest.param("patroni", ("primary killed", "switch-over"), marks=pytest.mark.xdist_group("patroni")),
    ],
)
def test_a_small_campaign_on_a_cluster(cluster: str, kinds: tuple[str, ...]) -> None:
    report = Report(seed=1)
    try:
        assert run_world(report, cluster, 0, NODE_FAULTS, kinds) == []
    except ServerMissing as missing:
        if cluster == "galera":
            unavailable("galera", str(missing))
        unavailable("patroni", str(missing))
    assert sum(report.done.values()) == NODE_FAULTS
    assert report.counts["deliveries"] > 100


@pytest.mark.parametrize("mutation", sorted(MUTATIONS))
def test_each_mutation_still_finds_what_it_breaks(mutation: str) -> None:
    """In a process of its own, which it leaves broken."""
    program = f"from tests.support.campaign.mutations import MUTATIONS; MUTATIONS[{mutation!r}]()"
    ended = run_program(program)
    assert ended.returncode == 0, ended.stderr


def test_versions_take_turns(tmp_path: Path) -> None:
    other, log = tmp_path / "other", tmp_path / "log"
    (other / "jdbcstore").mkdir(parents=True)
    (other / "jdbcstore" / "__init__.py").touch()
    (other / "jdbcstore" / "__main__.py").write_text("print('the other one')")
    with closing(Versions(other)) as versions:
        assert versions.name == "this version"
        for said in ("jdbcstore, version", "the other one", "jdbcstore, version"):
            log.unlink(missing_ok=True)
            process = versions.start(log, "jdbcstore", "--version")
            wait_until(process.has_ended, what="its end")
            assert log.read_text().startswith(said)
            assert versions.turn(process, random.Random(1)) == "killed"
        assert versions.name == "other"


def test_a_version_is_not_older_than_what_can_be_run_beside_this() -> None:
    newest = chosen_commit("HEAD")
    if not chosen_commit("HEAD~1"):
        pytest.skip("no history of git")
    assert chosen_commit("HEAD~1", since="HEAD") == newest
    assert chosen_commit("HEAD", since="HEAD~1") == newest
    assert chosen_commit(since="no such commit") == ""
