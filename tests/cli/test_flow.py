"""Pauses, limits and rates of queues that processes share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from jdbcstore import Claims, JdbcStore, Message
from jdbcstore.config.locker import SharedFileLockerConfig
from jdbcstore.errors import ClaimLost
from jdbcstore.lockers import make_locker
from jdbcstore.stores.claims import FlowSettings, KeySettings
from tests.cli.conftest import Invoke


@pytest.fixture
def queue_there(local_store: Callable[[], JdbcStore]) -> None:
    with local_store() as store:
        store.queue("ORDERS").add_message(Message("0"))


@pytest.mark.usefixtures("queue_there")
def test_a_queue_is_limited_paused_and_resumed(invoke: Invoke, local_url: str) -> None:
    assert invoke("flow", "list", "--json").out == ""

    limited = invoke("flow", "limit", "ORDERS", "--claims", "5", "--rate", "90/min", "--burst", "3")
    assert limited.out.endswith("at most 1.5 claims per second, in bursts of 3\n")
    assert invoke("flow", "pause", "queue://ORDERS").out.startswith("ORDERS: paused, at most 5")

    with Claims(local_url) as claims:
        assert claims.flow() == {"ORDERS": FlowSettings(paused=True, claims=5, rate=1.5, burst=3)}
        assert claims.queue("ORDERS").claim() == []
    listed = json.loads(invoke("flow", "list", "--json").out)
    keys = dict.fromkeys(("keys", "claims_per_key", "rate_per_key", "burst_per_key"))
    assert listed == {"queue": "ORDERS", "paused": True, "claims": 5, "rate": 1.5, "burst": 3, **keys}
    table = invoke("flow", "list").out
    assert all(cell in table for cell in ("ORDERS", "yes", "1.5"))

    assert json.loads(invoke("flow", "limit", "ORDERS", "--json").out)["claims"] is None
    assert invoke("flow", "resume", "ORDERS").out == "ORDERS: without limits\n"
    assert invoke("flow", "list", "--json").out == ""


@pytest.mark.usefixtures("queue_there")
def test_a_key_is_paused(invoke: Invoke, local_url: str) -> None:
    invoke("flow", "share", "ORDERS")
    invoke("flow", "pause", "ORDERS", "--key", "ada")
    with Claims(local_url) as claims:
        assert claims.queue("ORDERS").flow.key_settings() == {"ada": KeySettings(paused=True)}
        invoke("flow", "resume", "ORDERS", "--key", "ada")
        assert claims.queue("ORDERS").flow.key_settings() == {}


@pytest.mark.usefixtures("queue_there")
@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("limit", "ORDERS", "--claims", "0"), 3, "claims=0 must be a whole number"),
        (("limit", "ORDERS", "--rate", "fast"), 2, "'fast' is not a rate; write 10/s"),
        (("limit", "ORDERS", "--rate", "0/s"), 3, "rate=0.0 must be"),
        (("limit", "ORDERS", "--burst", "2"), 3, "burst=2 needs a rate"),
        (("limit", "ORDERS", "--weight", "2"), 2, "No such option"),
        (("pause", "topic://NEWS"), 2, "topic://NEWS is a topic"),
    ],
)
def test_what_cannot_be_set(invoke: Invoke, arguments: tuple[str, ...], code: int, says: str) -> None:
    result = invoke("flow", *arguments)
    assert says in result.err
    assert result.code == code
    assert invoke("flow", "list", "--json").out == ""


@pytest.mark.usefixtures("queue_there")
def test_a_worker_that_hangs_is_ended_and_the_rest_is_purged(invoke: Invoke, local_url: str) -> None:
    with Claims(local_url, name="w-1") as hanging, Claims(local_url, name="w-2") as other:
        hanging.queue("ORDERS").add(Message("1"), Message("2"))
        [claim] = hanging.queue("ORDERS").claim()
        assert invoke("flow", "release", "w-1").out == "ended the lease of w-1\n"
        with pytest.raises(ClaimLost):
            hanging.queue("ORDERS").acknowledge(claim)
        [again] = other.queue("ORDERS").claim()
        assert again.sequence == claim.sequence
        assert invoke("flow", "release", "w-3").code == 6
        assert invoke("flow", "purge", "ORDERS", "--json").json == {"queue": "ORDERS", "removed": 2}
        other.queue("ORDERS").acknowledge(again)


def test_without_a_database_nothing_is_created(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("flow", "pause", "ORDERS")
    assert result.code != 0
    assert "jdbcstore init" in result.err
    assert [*tmp_path.iterdir()] == []


@pytest.mark.usefixtures("queue_there")
def test_while_a_broker_serves_nothing_is_set(invoke: Invoke, local_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "activemq-data"
    locker = make_locker(SharedFileLockerConfig(directory=f"{folder / 'jdbcstore.db'}-lock"), "broker")
    with JdbcStore(local_url, locker=locker):
        result = invoke("flow", "pause", "ORDERS")
    assert result.code != 0
    assert "nothing was changed" in result.err


@pytest.mark.usefixtures("queue_there")
def test_a_queue_is_shared_by_keys(invoke: Invoke, local_url: str) -> None:
    shared = invoke("flow", "share", "ORDERS", "--in-order", "--claims", "2")
    assert shared.out == "ORDERS: shared by keys, each in order, at most 2 claims of a key\n"
    rated = invoke("flow", "share", "ORDERS", "--rate", "60/min", "--json")
    assert json.loads(rated.out)["rate_per_key"] == 1.0
    assert invoke("flow", "share", "ORDERS", "--in-order", "--claims", "2").code == 0
    assert (
        invoke("flow", "key", "ORDERS", "acme", "--weight", "3", "--rate", "2/s").out == "ORDERS: set acme\n"
    )
    assert "weight=0 must be" in invoke("flow", "key", "ORDERS", "acme", "--weight", "0").err
    with Claims(local_url) as claims:
        assert claims.flow() == {"ORDERS": FlowSettings(keys="in order", claims_per_key=2)}
        assert claims.queue("ORDERS").flow.key_settings() == {
            "acme": KeySettings(weight=3, rate=2.0, burst=2)
        }
        assert len(claims.queue("ORDERS").claim()) == 1
        [flow] = invoke("status", "--json").json["flow"]
        assert (flow["queue"], flow["claimed"], flow["waiting_keys"]) == ("ORDERS", 1, 0)
        assert "Shared queues with limits" in invoke("status").out
    assert invoke("flow", "unshare", "ORDERS").out == "ORDERS: without limits\n"
